"""HTTP/1.1 answers and server-sent events, read from stored bytes. Pure.

Engines stream one small chunk an event; a parser of a few lines suffices, and since it runs after the stream
it costs the measurement nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

_HEAD_END = b"\r\n\r\n"
_CHUNK_SIZE = re.compile(rb"[ \t]*([0-9a-fA-F]+)[ \t]*(?:;[^\n]*?)?\r\n")
_WHOLE_EVENT = re.compile(rb"data: (.*)(?<!\r)\n\n")
"""A piece that is one event of one line: nearly always."""
LAST_CHUNK = b"\r\n0\r\n\r\n"
"""How a chunked body ends, unless it has trailers."""


class BadAnswerError(ValueError):
    """Bytes that are no HTTP answer."""


@dataclass(frozen=True, slots=True)
class Head:
    """The head of an answer. ``size`` is its length in bytes, so the body begins there."""

    status: int
    headers: Mapping[str, str]
    size: int
    chunked: bool

    @property
    def length(self) -> int | None:
        """Bytes of the body; None when it is chunked or ends with the connection."""
        text = self.headers.get("content-length", "")
        return int(text) if text.isascii() and text.isdigit() and not self.chunked else None


Piece = tuple[int, bytes]
"""Where in the answer a stretch of the body begins, and the stretch."""


def read_head(raw: bytes) -> Head | None:
    """The head of the answer that begins at byte 0; None while it is incomplete.

    :raises BadAnswerError: when this is no HTTP/1 answer.
    """
    if not raw.startswith(b"HTTP/1."[: len(raw)]):
        raise BadAnswerError(f"not an HTTP/1 answer: {raw[:40]!r}")
    end = raw.find(_HEAD_END)
    if end < 0:
        if len(raw) > 65536:
            raise BadAnswerError("the head of the answer does not end within 64 KiB")
        return None
    first, *lines = raw[:end].decode("latin-1").split("\r\n")
    words = first.split(" ", 2)
    if len(words) < 2 or not (words[1].isascii() and words[1].isdigit()):
        raise BadAnswerError(f"not an HTTP/1 answer: {first[:40]!r}")
    headers = {name.strip().lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
    chunked = "chunked" in headers.get("transfer-encoding", "").lower()
    return Head(int(words[1]), headers, end + len(_HEAD_END), chunked)


def read_body(raw: bytes, head: Head) -> tuple[list[Piece], bool]:
    """The body's pieces in order, and whether it is complete as far as the framing tells.

    A body that ends with the connection counts as complete.

    :raises BadAnswerError: for broken chunk framing.
    """
    if not head.chunked:
        end = None if head.length is None else head.size + head.length  # what lies beyond is no part of it
        return [(head.size, raw[head.size : end])], end is None or len(raw) >= end
    pieces: list[Piece] = []
    at = head.size
    while found := _CHUNK_SIZE.match(raw, at):
        size, start = int(found[1], 16), found.end()
        if size == 0:
            return pieces, raw.startswith(b"\r\n", start) or raw.find(_HEAD_END, start) >= 0
        end = start + size
        pieces.append((start, raw[start:end]))
        if end > len(raw):
            return pieces, False
        if not raw.startswith(b"\r\n", end) and not b"\r\n".startswith(raw[end : end + 2]):
            raise BadAnswerError(f"a chunk goes on after its {size} bytes: {raw[end : end + 20]!r}")
        at = end + 2
    if b"\r\n" in raw[at:]:
        raise BadAnswerError(f"not a chunk size: {raw[at : at + 20]!r}")
    return pieces, False


def read_events(pieces: Iterable[Piece]) -> Iterator[tuple[bytes, int]]:
    """The data of each server-sent event, and the offset in the answer at which its last line ended.

    Comments and other fields are skipped, several data lines joined; an event without its blank line is none.
    """
    rest: list[bytes] = []
    data: list[bytes] = []
    end = 0
    for start, piece in pieces:
        if not rest and not data and (whole := _WHOLE_EVENT.fullmatch(piece)):
            yield whole[1], start + len(piece) - 1
            continue
        at = 0
        while (newline := piece.find(b"\n", at)) >= 0:
            line = piece[at:newline]
            if rest:
                line = b"".join([*rest, line])
                rest.clear()
            at = newline + 1
            if line.endswith(b"\r"):
                line = line[:-1]
            if line.startswith(b"data:"):
                data.append(line[6:] if line.startswith(b"data: ") else line[5:])
                end = start + at
            elif not line and data:
                yield data[0] if len(data) == 1 else b"\n".join(data), end
                data.clear()
        if at < len(piece):
            rest.append(piece[at:])
