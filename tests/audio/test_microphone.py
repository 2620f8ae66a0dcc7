"""Devices are matched by name, whatever number they have today."""

import pytest
from stenod.audio.microphone import Device, NoMicrophone, _find

HEADSET = Device(3, "Jabra Link: USB Audio (hw:2,0)", 1, 16000, is_default=False)
BUILT_IN = Device(0, "HDA Intel: ALC257 Analog (hw:0,0)", 2, 48000, is_default=True)
DEVICES = [BUILT_IN, HEADSET]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (None, BUILT_IN),
        ("Jabra Link: USB Audio (hw:2,0)", HEADSET),
        ("Jabra Link: USB Audio (hw:5,0)", HEADSET),
        ("jabra", HEADSET),
    ],
)
def test_by_name(wanted: str | None, found: Device) -> None:
    """field-failures: devices are matched by name, not by index."""
    assert _find(DEVICES, wanted) == found


def test_without_a_default_the_first_is_taken() -> None:
    assert _find([HEADSET], None) == HEADSET


def test_no_such_microphone_and_none_at_all() -> None:
    with pytest.raises(NoMicrophone, match=r"^bathtub: there is no such microphone; `stenod devices` lists"):
        _find(DEVICES, "bathtub")
    with pytest.raises(NoMicrophone, match=r"^no microphone was found; plug one in"):
        _find([], None)
