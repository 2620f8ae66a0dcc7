"""What the tests of models share."""

import resource
from collections.abc import Iterator

import pytest


@pytest.fixture
def small_file_limit() -> Iterator[None]:
    """The kernel refuses files beyond 1000 bytes, as it would on a full disk."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
