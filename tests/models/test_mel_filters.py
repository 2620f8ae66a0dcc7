"""The filterbank: Slaney's triangles."""

import numpy as np
import pytest
from stenod.models.mel_filters import mel_filters


@pytest.mark.parametrize(("bands", "fft_length", "bins"), [(80, 400, 201), (128, 400, 201), (128, 512, 257)])
def test_triangles(bands: int, fft_length: int, bins: int) -> None:
    filters = mel_filters(bands, fft_length)
    assert filters.shape == (bands, bins)
    assert filters.dtype == np.float32
    assert (filters >= 0).all()
    assert filters.any(axis=1).all()
    peaks = filters.argmax(axis=1)
    assert (np.diff(peaks) >= 0).all()
    assert not filters[:, 0].any(), "a constant has no pitch"


def test_wide_triangles_have_the_area_one() -> None:
    """Where triangles span many bins, which are 40 Hz apart, the sum over them is nearly the integral."""
    areas = mel_filters(80, 400)[50:].sum(axis=1) * 40
    assert np.allclose(areas, 1, atol=0.03)


def test_known_values() -> None:
    """Linear part: the 80 bands' edges are 37.2 Hz apart, the first triangle's peak is at 37.2 Hz."""
    filters = mel_filters(80, 400)
    edge = 200 / 3 * (15 + 27 * np.log(8) / np.log(6.4)) / 81
    at_40_hertz = (2 * edge - 40) / edge * 2 / (2 * edge)
    assert filters[0, 1] == pytest.approx(at_40_hertz, rel=1e-5)
    assert filters[0, 2:].max() == 0
