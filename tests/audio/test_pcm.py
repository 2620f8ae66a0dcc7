"""Declared PCM becomes mono float32 at 16 kHz, wherever the bytes are cut."""

import io
from itertools import pairwise

import numpy as np
import pytest
import soundfile
import soxr
from hypothesis import given
from hypothesis import strategies as st
from stenod.audio.pcm import AudioFormat, PcmDecoder, UnsupportedAudio

SUBTYPES = {
    "s16le": "PCM_16",
    "s24le": "PCM_24",
    "s32le": "PCM_32",
    "f32le": "FLOAT",
    "u8": "PCM_U8",
    "mulaw": "ULAW",
    "alaw": "ALAW",
}

formats = st.builds(
    AudioFormat,
    encoding=st.sampled_from(sorted(SUBTYPES)),
    sample_rate=st.sampled_from([8000, 11025, 16000, 22050, 44100, 48000, 192000]),
    channels=st.integers(1, 8),
)


def decode(audio_format: AudioFormat, pieces: list[bytes]) -> np.ndarray:
    decoder = PcmDecoder(audio_format)
    return np.concatenate([*map(decoder.feed, pieces), decoder.flush()])


@pytest.mark.parametrize("encoding", SUBTYPES)
def test_every_code_decodes_as_libsndfile_does(encoding: str) -> None:
    audio_format = AudioFormat(encoding)
    if encoding == "f32le":
        data = np.linspace(-1, 1, 9999, dtype="<f4").tobytes()
    else:
        data = np.random.default_rng(0).bytes(256 * 3 * 4) + bytes(range(256)) * 3
    expected, _ = soundfile.read(
        io.BytesIO(data),
        format="RAW",
        subtype=SUBTYPES[encoding],
        endian="LITTLE",
        samplerate=16000,
        channels=1,
        dtype="float32",
    )
    np.testing.assert_array_equal(decode(audio_format, [data]), expected)


@given(formats, st.integers(0, 60000), st.lists(st.integers(0, 60000), max_size=20))
def test_cuts_do_not_change_a_bit(audio_format: AudioFormat, size: int, cuts: list[int]) -> None:
    data = np.random.default_rng(size).bytes(size)
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    pieces = [data[begin:end] for begin, end in pairwise(edges)]
    np.testing.assert_array_equal(decode(audio_format, pieces), decode(audio_format, [data]))


@given(formats, st.integers(1, 5000))
def test_length_and_count_follow_the_declared_rate(audio_format: AudioFormat, frames: int) -> None:
    decoder = PcmDecoder(audio_format)
    data = bytes(frames * audio_format.frame_bytes + audio_format.frame_bytes - 1)
    samples = np.concatenate([decoder.feed(data), decoder.flush()])
    assert decoder.received_frames == frames
    assert abs(len(samples) - frames * 16000 / audio_format.sample_rate) <= 1


@pytest.mark.parametrize("rate", [8000, 11025, 22050, 24000, 44100, 47999, 48000, 192000])
def test_pieces_are_resampled_as_soxr_resamples_the_whole(rate: int) -> None:
    noise = np.random.default_rng(rate).uniform(-0.5, 0.5, 3 * rate).astype("<f4")
    samples = decode(AudioFormat("f32le", rate), [piece.tobytes() for piece in np.array_split(noise, 7)])
    np.testing.assert_allclose(samples, soxr.resample(noise, rate, 16000), atol=1e-6)


@given(formats, st.integers(0, 60000), st.integers(0, 60000), st.booleans())
def test_another_decoder_goes_on_as_the_first_would(
    audio_format: AudioFormat, size: int, cut: int, flushed: bool
) -> None:
    """What a killed daemon had, the next one need not get again, but for some of the newest frames."""
    data = np.random.default_rng(size).bytes(size)
    whole, first, other = (PcmDecoder(audio_format) for _ in range(3))
    start = [first.feed(data[:cut])] + ([first.flush()] if flushed else [])
    other.go_on(first.resume_point)
    rest = data[audio_format.frame_bytes * other.received_frames :]
    undisturbed = [whole.feed(data[:cut])] + ([whole.flush()] if flushed else [])
    undisturbed += [whole.feed(data[cut:]), whole.flush()]
    np.testing.assert_array_equal(
        np.concatenate([*start, other.feed(rest), other.flush()]), np.concatenate(undisturbed)
    )
    assert other.received_frames == whole.received_frames


@given(formats, st.integers(0, 20000), st.integers(1, 20000))
def test_frames_that_cannot_be_given_again_are_a_gap_of_the_right_length(
    audio_format: AudioFormat, frames: int, lost: int
) -> None:
    decoder, other = PcmDecoder(audio_format), PcmDecoder(audio_format)
    samples = len(decoder.feed(bytes(frames * audio_format.frame_bytes)))
    other.go_on(decoder.resume_point)
    samples += len(other.flush()) + other.skip(lost)
    samples += len(other.feed(bytes(20000 * audio_format.frame_bytes))) + len(other.flush())
    assert abs(samples - other.received_frames * 16000 / audio_format.sample_rate) <= 0.5


@pytest.mark.parametrize("rate", [8000, 11025, 44100, 48000, 96000, 192000])
def test_a_tone_keeps_pitch_and_level_at_any_rate(rate: int) -> None:
    time = np.arange(rate) / rate
    tone = (0.5 * np.sin(2 * np.pi * 440 * time)).astype("<f4")
    samples = decode(AudioFormat("f32le", rate), [tone.tobytes()])
    expected = 0.5 * np.sin(2 * np.pi * 440 * np.arange(16000) / 16000)
    np.testing.assert_allclose(samples[1000:15000], expected[1000:15000], atol=1e-3)


def test_channels_are_averaged() -> None:
    frames = np.array([[0.5, -0.5, 0.75], [0.3, 0.3, 0.3]], "<f4")
    samples = decode(AudioFormat("f32le", 16000, 3), [frames.tobytes()])
    np.testing.assert_allclose(samples, [0.25, 0.3], rtol=1e-6)


def test_floats_that_are_no_sound_become_silence_and_absurd_ones_are_bounded() -> None:
    data = np.array([np.nan, np.inf, -np.inf, 1e30, 5.0], "<f4").tobytes()
    np.testing.assert_array_equal(decode(AudioFormat("f32le"), [data]), [0, 0, 0, 32768, 5])


def test_skipped_frames_count_and_are_converted_without_drift() -> None:
    decoder = PcmDecoder(AudioFormat("s16le", 44100))
    skipped = [decoder.skip(1) for _ in range(44100)]
    assert sum(skipped) == 16000
    assert decoder.received_frames == 44100


def test_a_decoder_goes_on_after_a_flush() -> None:
    decoder = PcmDecoder(AudioFormat("s16le", 8000))
    first, tail = decoder.feed(bytes(801)), decoder.flush()
    assert len(first) + len(tail) == 800
    assert len(decoder.feed(bytes(799))) + len(decoder.flush()) == 800


@pytest.mark.parametrize(
    ("encoding", "rate", "channels", "message"),
    [
        ("opus", 48000, 1, r"encoding: 'opus' is compressed, decode it first; accepted: s16le, s24le"),
        ("linear7", 16000, 1, r"encoding: 'linear7' is unknown; accepted: s16le"),
        ("s16le", 7999, 1, r"sample_rate: 7999 Hz is out of range; accepted: 8000 to 192000"),
        ("s16le", 16000, 9, r"channels: 9 is out of range; accepted: 1 to 8"),
        ("s16le", 16000, 0, r"channels: 0 is out of range; accepted: 1 to 8"),
    ],
)
def test_what_cannot_be_used_is_refused_by_field(
    encoding: str, rate: int, channels: int, message: str
) -> None:
    with pytest.raises(UnsupportedAudio, match=message) as refusal:
        AudioFormat(encoding, rate, channels)
    assert refusal.value.field == message.partition(":")[0]
