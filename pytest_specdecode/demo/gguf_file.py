"""GGUF, version 3: as much of it as cutting a model needs. Layout: ggml's ``docs/gguf.md``.

gguf's own reader takes half a minute over a vocabulary of 262,144 entries; this one a second.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

MAGIC, VERSION, ALIGNMENT = b"GGUF", 3, 32
STRING, ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

F32, F16, Q5_0, Q8_0, Q4_K, Q6_K = 0, 1, 6, 8, 12, 14
_BLOCKS = {F32: (1, 4), F16: (1, 2), Q5_0: (32, 22), Q8_0: (32, 34), Q4_K: (256, 144), Q6_K: (256, 210)}
"""Tensor type → (weights, bytes) of a block."""


@dataclass(frozen=True, slots=True)
class Field:
    """A metadata value. ``kind`` is GGUF's value type; for arrays ``items`` is that of the elements."""

    kind: int
    value: Any
    items: int = STRING


@dataclass(frozen=True, slots=True)
class Tensor:
    """``shape`` as in the file, fastest dimension first; ``data``: encoded, (rows, bytes of a row)."""

    name: str
    shape: tuple[int, ...]
    kind: int
    data: Bytes


@dataclass(frozen=True, slots=True)
class Model:
    fields: Mapping[str, Field]
    tensors: Sequence[Tensor]


class _Cursor:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def scalar(self, kind: int) -> Any:
        code = "<" + _SCALARS[kind]
        (value,) = struct.unpack_from(code, self.data, self.at)
        self.at += struct.calcsize(code)
        return value

    def text(self) -> bytes:
        size = self.scalar(10)
        self.at += size
        return self.data[self.at - size : self.at]

    def field(self) -> Field:
        kind = self.scalar(4)
        if kind != ARRAY:
            return Field(kind, self.text() if kind == STRING else self.scalar(kind))
        items, count = self.scalar(4), self.scalar(10)
        if items == STRING:
            return Field(ARRAY, [self.text() for _ in range(count)])
        values = np.frombuffer(self.data, f"<{_SCALARS[items]}", count, self.at)
        self.at += values.nbytes
        return Field(ARRAY, values, items)


def read(data: bytes) -> Model:
    """A whole file. Tensors are views into ``data``.

    :raises ValueError: for another format, version or tensor type
    """
    if data[:4] != MAGIC or struct.unpack_from("<I", data, 4) != (VERSION,):
        raise ValueError(f"not a GGUF file of version {VERSION}")
    cursor = _Cursor(data)
    cursor.at = 8
    n_tensors, n_fields = cursor.scalar(10), cursor.scalar(10)
    fields = {cursor.text().decode(): cursor.field() for _ in range(n_fields)}
    heads = []
    for _ in range(n_tensors):
        name = cursor.text().decode()
        shape = tuple(cursor.scalar(10) for _ in range(cursor.scalar(4)))
        heads.append((name, shape, cursor.scalar(4), cursor.scalar(10)))
    start = _aligned(cursor.at)
    return Model(fields, [_tensor(data, start + offset, *head) for *head, offset in heads])


def write(out: BinaryIO, model: Model) -> None:
    """The model as a file; equal models give equal bytes."""
    out.write(MAGIC + struct.pack("<IQQ", VERSION, len(model.tensors), len(model.fields)))
    for name, field in model.fields.items():
        out.write(_packed(name.encode()) + struct.pack("<I", field.kind))
        out.write(_value(field))
    offset = 0
    for tensor in model.tensors:
        shape = struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape)
        out.write(_packed(tensor.name.encode()) + shape + struct.pack("<IQ", tensor.kind, offset))
        offset += _aligned(tensor.data.nbytes)
    for tensor in model.tensors:
        out.write(bytes(_aligned(out.tell()) - out.tell()))
        out.write(np.ascontiguousarray(tensor.data).data)
    out.write(bytes(_aligned(out.tell()) - out.tell()))


def weights(tensor: Tensor) -> Floats:
    """The tensor's numbers, (rows, columns)."""
    size, encoded = _BLOCKS[tensor.kind]
    blocks = np.ascontiguousarray(tensor.data).reshape(-1, encoded)
    return _DECODERS[tensor.kind](blocks).reshape(-1, tensor.shape[0] // size * size)


def _tensor(data: bytes, at: int, name: str, shape: tuple[int, ...], kind: int) -> Tensor:
    if kind not in _BLOCKS:
        raise ValueError(f"tensor {name} has type {kind}, which is not among {sorted(_BLOCKS)}")
    size, encoded = _BLOCKS[kind]
    row = shape[0] // size * encoded
    rows = int(np.prod(shape[1:], dtype=np.int64))
    return Tensor(name, shape, kind, np.frombuffer(data, np.uint8, rows * row, at).reshape(rows, row))


def _aligned(position: int) -> int:
    return -(-position // ALIGNMENT) * ALIGNMENT


def _packed(text: bytes) -> bytes:
    return struct.pack("<Q", len(text)) + text


def _value(field: Field) -> bytes:
    if field.kind == STRING:
        return _packed(field.value)
    if field.kind != ARRAY:
        return struct.pack("<" + _SCALARS[field.kind], field.value)
    head = struct.pack("<IQ", field.items, len(field.value))
    if field.items == STRING:
        return head + b"".join(map(_packed, field.value))
    return head + np.asarray(field.value, f"<{_SCALARS[field.items]}").tobytes()


# --- block formats: (blocks, bytes) → (blocks, weights), after ggml-quants.c


def _half(raw: Bytes) -> Floats:
    return np.ascontiguousarray(raw).view("<f2").astype(np.float32)


def _signed(raw: Bytes) -> Floats:
    return np.ascontiguousarray(raw).view(np.int8).astype(np.float32)


def _q8_0(blocks: Bytes) -> Floats:
    return _half(blocks[:, :2]) * _signed(blocks[:, 2:])


def _q5_0(blocks: Bytes) -> Floats:
    high = np.unpackbits(blocks[:, 2:6], axis=1, bitorder="little") << 4
    low = np.concatenate([blocks[:, 6:] & 15, blocks[:, 6:] >> 4], axis=1)
    out: Floats = _half(blocks[:, :2]) * ((low | high).astype(np.float32) - 16)
    return out


def _q4_k(blocks: Bytes) -> Floats:
    s = blocks[:, 4:16]
    scales = np.concatenate([s[:, :4] & 63, (s[:, 8:] & 15) | ((s[:, :4] >> 6) << 4)], axis=1)
    mins = np.concatenate([s[:, 4:8] & 63, (s[:, 8:] >> 4) | ((s[:, 4:8] >> 6) << 4)], axis=1)
    packed = blocks[:, 16:].reshape(-1, 4, 1, 32)
    q = np.concatenate([packed & 15, packed >> 4], axis=2).reshape(-1, 8, 32)
    scale, least = _half(blocks[:, :2]) * scales, _half(blocks[:, 2:4]) * mins
    out: Floats = scale[:, :, None] * q - least[:, :, None]
    return out.reshape(len(blocks), 256)


def _q6_k(blocks: Bytes) -> Floats:
    nibbles = blocks[:, :128].reshape(-1, 2, 1, 64)
    pairs = blocks[:, 128:192].reshape(-1, 2, 1, 32)
    low = np.concatenate([nibbles & 15, nibbles >> 4], axis=2).reshape(-1, 8, 32)
    high = np.concatenate([(pairs >> shift) & 3 for shift in (0, 2, 4, 6)], axis=2).reshape(-1, 8, 32)
    q = (low | (high << 4)).astype(np.float32) - 32
    scale = _half(blocks[:, 208:]) * _signed(blocks[:, 192:208])
    out: Floats = scale[:, :, None] * q.reshape(-1, 16, 16)
    return out.reshape(len(blocks), 256)


_DECODERS: Mapping[int, Callable[[Bytes], Floats]] = {
    F32: lambda blocks: np.ascontiguousarray(blocks).view("<f4"),
    F16: _half,
    Q8_0: _q8_0,
    Q5_0: _q5_0,
    Q4_K: _q4_k,
    Q6_K: _q6_k,
}


def as_f16(tensors: Iterable[Tensor]) -> list[Tensor]:
    """Quantized tensors unpacked to half precision, the others as they are."""
    return [
        tensor
        if tensor.kind in {F32, F16}
        else Tensor(tensor.name, tensor.shape, F16, weights(tensor).astype("<f2").view(np.uint8))
        for tensor in tensors
    ]
