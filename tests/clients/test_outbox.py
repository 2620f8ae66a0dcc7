"""What is kept to be said again: all that the daemon may not have, in order, and nothing else."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stenod.clients.outbox import Outbox


def drain(outbox: Outbox) -> list[bytes | str]:
    items = []
    while (item := outbox.next()) is not None:
        items.append(item)
    return items


def audio(items: list[bytes | str]) -> bytes:
    return b"".join(item for item in items if isinstance(item, bytes))


def kinds(items: list[bytes | str]) -> list[str]:
    return [json.loads(item)["type"] if isinstance(item, str) else "audio" for item in items]


@pytest.fixture
def outbox() -> Outbox:
    return Outbox(2, 100)


def test_what_is_put_comes_out_once_in_order(outbox: Outbox):
    outbox.put_audio(b"ab")
    outbox.put_message("flush", id="a")
    outbox.put_audio(b"cd")
    assert kinds(drain(outbox)) == ["audio", "flush", "audio"]
    assert drain(outbox) == []


def test_after_a_new_connection_what_was_not_received_comes_again(outbox: Outbox):
    for pcm in (b"abcd", b"efgh"):
        outbox.put_audio(pcm)
    outbox.put_message("finish")
    drain(outbox)
    outbox.rewind(3)
    assert drain(outbox) == [b"gh", '{"type": "finish"}']


def test_messages_between_what_was_received_are_not_said_again(outbox: Outbox):
    outbox.put_audio(b"ab")
    outbox.put_message("clear")
    outbox.put_audio(b"cdef")
    drain(outbox)
    outbox.rewind(2)
    assert drain(outbox) == [b"ef"]


def test_a_message_that_may_not_have_arrived_is_said_again(outbox: Outbox):
    outbox.put_audio(b"ab")
    outbox.put_message("flush", id="a")
    outbox.put_audio(b"cd")
    drain(outbox)
    outbox.rewind(1)
    assert kinds(drain(outbox)) == ["flush", "audio"]


def test_gaps_count_as_audio(outbox: Outbox):
    outbox.put_audio(b"ab")
    outbox.put_message("gap", samples=10)
    outbox.put_audio(b"cdef")
    drain(outbox)
    outbox.rewind(12)
    assert drain(outbox) == [b"ef"]


def test_what_the_daemon_lost_after_acknowledging_it_is_a_gap(outbox: Outbox):
    outbox.put_audio(b"abcd")
    outbox.put_audio(b"efgh")
    drain(outbox)
    outbox.acknowledge(2)
    outbox.rewind(1)
    gap, rest = drain(outbox)
    assert json.loads(gap) == {"type": "gap", "samples": 1}
    assert rest == b"efgh"


def test_it_is_full_until_what_it_holds_is_acknowledged(outbox: Outbox):
    outbox.put_audio(bytes(102))
    assert outbox.full
    outbox.acknowledge(51)
    assert outbox.full  # it was not sent yet
    drain(outbox)
    outbox.acknowledge(51)
    assert not outbox.full


@given(
    st.lists(st.binary(min_size=1, max_size=9), max_size=12),
    st.lists(st.tuples(st.integers(0, 12), st.floats(0, 1), st.floats(0, 1)), max_size=6),
)
def test_however_often_the_connection_breaks_all_audio_arrives_once(
    pieces: list[bytes], breaks: list[tuple[int, float, float]]
):
    """``breaks``: items sent before it, the share of them that arrives, and of that what was acknowledged."""
    outbox = Outbox(2, 1000)
    for piece in pieces:
        outbox.put_audio(piece)
    whole = b"".join(pieces)
    received = b""
    for count, share, acknowledged in breaks:
        sent = b""
        for _ in range(count):
            item = outbox.next()
            if item is None:
                break
            assert isinstance(item, bytes)
            sent += item
        received += sent[: round(share * len(sent))]
        received = received[: len(received) // 2 * 2]  # what was cut within a frame is dropped
        outbox.acknowledge(int(acknowledged * len(received) / 2))
        outbox.rewind(len(received) // 2)
    assert received + audio(drain(outbox)) == whole
