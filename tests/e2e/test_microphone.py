"""A real microphone, in all but hardware: what is played is captured; what happens to the device is told."""

import asyncio
from collections.abc import AsyncIterator, Callable

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray
from stenod.audio import microphone as capture
from stenod.audio.microphone import Back, Item, Lost, Microphone, NoMicrophone, Overflow, Sound

from tests import recordings
from tests.virtual_microphone import DEVICE, VirtualMicrophone

CLIP = recordings.SHIPPED / "en_read/ljspeech/LJ001-0002.flac"
DEADLINE_S = 30


async def play(device: VirtualMicrophone) -> None:
    process = await asyncio.create_subprocess_exec(*device.player(CLIP))
    assert await process.wait() == 0


async def until(items: AsyncIterator[Item], wanted: Callable[[list[Item]], bool]) -> list[Item]:
    """The next items, up to the one with which they are what is wanted."""
    taken: list[Item] = []
    async with asyncio.timeout(DEADLINE_S):
        async for item in items:
            taken.append(item)
            if wanted(taken):
                return taken
    raise AssertionError("the microphone ended")


def heard(items: list[Item]) -> NDArray[np.int16]:
    sounds = [item.samples for item in items if isinstance(item, Sound)]
    return (np.concatenate(sounds) * 32768).astype(np.int16) if sounds else np.zeros(0, np.int16)


def has(kind: type[Item]) -> Callable[[list[Item]], bool]:
    return lambda items: isinstance(items[-1], kind)


def whole_clip(items: list[Item]) -> bool:
    """Whether the clip was heard, and then silence."""
    samples = heard(items)
    return bool(np.any(samples)) and not np.any(samples[-8000:])


def without_silence(samples: NDArray[np.int16]) -> NDArray[np.int16]:
    sounding = np.flatnonzero(samples)
    return samples[sounding[0] : sounding[-1] + 1]


async def test_what_is_played_is_captured_bit_for_bit(microphone: VirtualMicrophone) -> None:
    async with Microphone(DEVICE) as captured:
        items = aiter(captured)
        await until(items, has(Sound))
        taken, _ = await asyncio.gather(until(items, whole_clip), play(microphone))
    original = soundfile.read(CLIP, dtype="int16")[0]
    np.testing.assert_array_equal(without_silence(heard(taken)), without_silence(original))
    assert all(isinstance(item, Sound) for item in taken)


async def test_unplugged_is_told_and_the_device_is_taken_up_again(microphone: VirtualMicrophone) -> None:
    """field-failures: unplugged is noticed by missing blocks, and taken up again when it returns."""
    async with Microphone(DEVICE) as captured:
        items = aiter(captured)
        await until(items, has(Sound))
        microphone.unplug()
        before = await until(items, has(Lost))
        assert all(isinstance(item, Sound) for item in before[:-1])
        microphone.plug_in()
        (back,) = await until(items, has(Back))
        assert isinstance(back, Back)
        assert back.samples > capture.LOST_AFTER_S * 16000 / 2
        taken, _ = await asyncio.gather(until(items, whole_clip), play(microphone))
    original = soundfile.read(CLIP, dtype="int16")[0]
    np.testing.assert_array_equal(without_silence(heard(taken)), without_silence(original))


async def test_what_nobody_fetches_is_dropped_and_counted(
    microphone: VirtualMicrophone, monkeypatch: pytest.MonkeyPatch
) -> None:
    """field-failures: input overflow is counted."""
    monkeypatch.setattr(capture, "MOST_BLOCKS", 10)
    async with Microphone(DEVICE) as captured:
        items = aiter(captured)
        await until(items, has(Sound))
        await play(microphone)
        taken = await until(items, has(Overflow))
    assert len(heard(taken)) == 10 * 320
    assert isinstance(taken[-1], Overflow)
    assert taken[-1].samples > 16000


async def test_no_such_device_is_one_clear_line(microphone: VirtualMicrophone) -> None:
    with pytest.raises(NoMicrophone, match=r"^bathtub: there is no such microphone; `stenod devices` lists"):
        async with Microphone("bathtub"):
            pass


async def test_a_device_that_cannot_be_opened_is_one_clear_line(microphone: VirtualMicrophone) -> None:
    microphone.unplug()
    with pytest.raises(NoMicrophone, match=r"^pulse: cannot be opened \(.*\); is another program using it"):
        async with Microphone(DEVICE):
            pass
