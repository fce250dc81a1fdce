"""HTTP/1.1 answers and their events, however the bytes are cut."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specdecode.load.http1 import BadAnswerError, read_body, read_events, read_head

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
TEXTS = st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])), max_size=8)
ENDS = st.sampled_from(["\n", "\r\n"])


def chunked(data: bytes, sizes: list[int]) -> bytes:
    """``data`` in chunks of these sizes, the rest in one."""
    out, at = b"", 0
    for size in [*sizes, len(data)]:
        piece = data[at : at + size]
        at += size
        if piece:
            out += b"%X;ext=1\r\n%b\r\n" % (len(piece), piece)
    return HEAD + out + b"0\r\n\r\n"


@given(TEXTS, ENDS, st.lists(st.integers(1, 9), max_size=20), st.booleans())
def test_events_are_the_same_however_the_body_is_cut(
    texts: list[str], end: str, sizes: list[int], comments: bool
) -> None:
    comment = f": hi{end}event: x{end}" if comments else ""
    body = "".join(f"{comment}data: {text}{end}{end}" for text in texts).encode()
    raw = chunked(body, sizes)
    head = read_head(raw)
    assert head is not None
    pieces, complete = read_body(raw, head)
    assert complete
    events = list(read_events(pieces))
    assert [data.decode() for data, _ in events] == texts
    offsets = [offset for _, offset in events]
    assert offsets == sorted(offsets)
    assert all(raw[offset - 1 : offset] == b"\n" for offset in offsets)


@given(st.binary(max_size=200))
def test_no_bytes_do_more_than_be_refused(data: bytes) -> None:
    for raw in (data, HEAD + data, HEAD + b"4\r\n" + data):
        with contextlib.suppress(BadAnswerError):
            head = read_head(raw)
            if head:
                list(read_events(read_body(raw, head)[0]))


@given(st.integers(0, len(HEAD) - 1))
def test_a_head_is_incomplete_until_its_blank_line(size: int) -> None:
    assert read_head(HEAD[:size]) is None


def test_several_data_lines_are_one_event_and_an_unfinished_one_is_none() -> None:
    body = b"data: a\ndata:b\n\ndata: cut\n"
    assert [data for data, _ in read_events([(0, body)])] == [b"a\nb"]


@pytest.mark.parametrize(
    ("raw", "complete"),
    [
        (HEAD + b"1\r\nx\r\n0\r\n\r\n", True),
        (HEAD + b"1\r\nx\r\n0\r\nTrailer: y\r\n\r\n", True),
        (HEAD + b"1\r\nx\r\n0\r\n", False),
        (HEAD + b"5\r\nx", False),
        (HEAD, False),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab", False),
        (b"HTTP/1.0 200 OK\r\n\r\nuntil the end", True),
    ],
)
def test_whether_a_body_is_complete(raw: bytes, complete: bool) -> None:
    head = read_head(raw)
    assert head is not None
    assert read_body(raw, head)[1] is complete


@pytest.mark.parametrize(
    ("piece", "told"),
    [(b"data: a\n\n", [b"a"]), (b"data: a\r\n\n", [b"a"]), (b"data: a\nb", []), (b"data: a\n\n\n", [b"a"])],
)
def test_a_piece_that_is_nearly_one_whole_event(piece: bytes, told: list[bytes]) -> None:
    assert [data for data, _ in read_events([(0, piece)])] == told


def test_what_lies_beyond_the_length_of_a_body_is_no_part_of_it() -> None:
    raw = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef"
    head = read_head(raw)
    assert head is not None
    assert [data for _, data in read_body(raw, head)[0]] == [b"abc"]
