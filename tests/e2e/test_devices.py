"""``stenod devices`` with a microphone that is there."""

import subprocess
import sys
from pathlib import Path

from tests.virtual_microphone import DEVICE, VirtualMicrophone


def test_the_microphone_is_listed(microphone: VirtualMicrophone) -> None:
    command = Path(sys.executable).with_name("stenod")
    done = subprocess.run([command, "devices"], capture_output=True, text=True, check=True)
    assert DEVICE in [line.split()[0] for line in done.stdout.splitlines()]
