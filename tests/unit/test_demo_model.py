"""GGUF files and the cut of the demo model, on models of a few hundred bytes."""

from __future__ import annotations

import hashlib
import io
import multiprocessing
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specdecode.demo import gguf_file as g
from pytest_specdecode.demo import model as demo
from pytest_specdecode.errors import ConfigError

KINDS = [g.F16, g.Q5_0, g.Q8_0, g.Q4_K, g.Q6_K]
BYTES = {g.F16: 2, g.Q5_0: 22, g.Q8_0: 34, g.Q4_K: 144, g.Q6_K: 210}
PIECES = ["<pad>", "<0x0A>", "▁the", "on", "né", "z", "▁rare", "へ"]


def tiny() -> g.Model:
    """Eight pieces, one layer; the embedding's row i is made of the number i."""
    rows = np.repeat(np.arange(8, dtype="<f2")[:, None], 4, axis=1)
    return g.Model(
        {
            "general.architecture": g.Field(g.STRING, b"gemma3"),
            "gemma3.block_count": g.Field(4, 1),
            "tokenizer.ggml.tokens": g.Field(g.ARRAY, [p.encode() for p in PIECES]),
            "tokenizer.ggml.scores": g.Field(g.ARRAY, np.arange(8, dtype="<f4"), 6),
            "tokenizer.ggml.token_type": g.Field(g.ARRAY, np.array([3, 6, 1, 1, 1, 1, 1, 1], "<i4"), 5),
        },
        [
            g.Tensor("token_embd.weight", (4, 8), g.F16, rows.view(np.uint8)),
            g.Tensor("norm", (4,), g.F32, np.ones((1, 4), "<f4").view(np.uint8)),
            g.Tensor(
                "w", (32, 1), g.Q8_0, np.frombuffer(struct.pack("<e32b", 0.5, *range(32)), np.uint8)[None]
            ),
        ],
    )


def file_of(model: g.Model) -> bytes:
    out = io.BytesIO()
    g.write(out, model)
    return out.getvalue()


def test_a_written_model_reads_back() -> None:
    again = g.read(file_of(tiny()))
    assert again.fields["general.architecture"] == g.Field(g.STRING, b"gemma3")
    assert again.fields["tokenizer.ggml.tokens"].value == [p.encode() for p in PIECES]
    assert list(again.fields["tokenizer.ggml.scores"].value) == list(range(8))
    assert [(t.name, t.shape, t.kind) for t in again.tensors] == [
        ("token_embd.weight", (4, 8), g.F16),
        ("norm", (4,), g.F32),
        ("w", (32, 1), g.Q8_0),
    ]
    assert list(g.weights(again.tensors[2])[0]) == [0.5 * i for i in range(32)]
    assert file_of(again) == file_of(tiny())


@pytest.mark.parametrize(
    "data", [b"GGUF\x02\0\0\0", b"GGML\x03\0\0\0" + bytes(64)], ids=["version", "format"]
)
def test_another_format_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a GGUF file of version 3"):
        g.read(data)


def naive(kind: int, block: bytes) -> list[float]:
    """One block, weight by weight, as ggml-quants.c reads it."""
    if kind == g.F16:
        return [_half(block, 0)]
    if kind == g.Q8_0:
        return [_half(block, 0) * q for q in struct.unpack_from("<32b", block, 2)]
    if kind == g.Q5_0:
        high = int.from_bytes(block[2:6], "little")
        low = [b & 15 for b in block[6:]] + [b >> 4 for b in block[6:]]
        return [_half(block, 0) * ((q | (high >> i & 1) << 4) - 16) for i, q in enumerate(low)]
    if kind == g.Q4_K:
        return [_q4_k(block, i) for i in range(256)]
    return [_q6_k(block, i) for i in range(256)]


def _half(block: bytes, at: int) -> float:
    return float(struct.unpack_from("<e", block, at)[0])


def _q4_k(block: bytes, i: int) -> float:
    s, j = block[4:16], i // 32
    scale = s[j] & 63 if j < 4 else s[j + 4] & 15 | s[j - 4] >> 6 << 4
    least = s[j + 4] & 63 if j < 4 else s[j + 4] >> 4 | s[j] >> 6 << 4
    byte = block[16 + i // 64 * 32 + i % 32]
    q = byte >> 4 if i // 32 % 2 else byte & 15
    return _half(block, 0) * scale * q - _half(block, 2) * least


def _q6_k(block: bytes, i: int) -> float:
    half, quarter, lane = i // 128, i % 128 // 32, i % 32
    byte = block[half * 64 + lane + (32 if quarter % 2 else 0)]
    low = byte >> 4 if quarter >= 2 else byte & 15
    high = block[128 + half * 32 + lane] >> 2 * quarter & 3
    (scale,) = struct.unpack_from("<b", block, 192 + i // 16)
    return _half(block, 208) * int(scale) * ((low | high << 4) - 32)


@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 2**32 - 1))
def test_blocks_are_unpacked_weight_by_weight(kind: int, seed: int) -> None:
    raw = np.random.default_rng(seed).integers(0, 256, BYTES[kind], dtype=np.uint8)
    scales = {g.F16: [0], g.Q5_0: [0], g.Q8_0: [0], g.Q4_K: [0, 2], g.Q6_K: [208]}[kind]
    for at in scales:
        raw[at + 1] = raw[at + 1] & 0x83 | 0x30  # scales of ordinary size, so that no sum overflows
    expected = naive(kind, raw.tobytes())
    found = g.weights(g.Tensor("t", (len(expected), 1), kind, raw[None]))
    np.testing.assert_allclose(found[0], expected, rtol=1e-6, atol=1e-4)


def test_the_cut_keeps_frequent_ascii_single_characters_control_and_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(demo, "CONTROL", 1)
    monkeypatch.setattr(demo, "FREQUENT", 5)
    small = demo.cut(tiny())
    assert [t.decode() for t in small.fields["tokenizer.ggml.tokens"].value] == [
        "<pad>",
        "<0x0A>",
        "▁the",
        "on",
        "z",
    ]
    embedding = small.tensors[0]
    assert embedding.shape == (4, 5)
    assert [row[0] for row in g.weights(embedding)] == [0, 1, 2, 3, 5]
    assert len(small.fields["tokenizer.ggml.scores"].value) == 5
    assert small.fields["gemma3.block_count"].value == 1
    assert [t.kind for t in small.tensors] == [g.F16, g.F32, g.F16]
    assert list(g.weights(small.tensors[2])[0]) == [0.5 * i for i in range(32)]
    assert g.read(file_of(small)).tensors[0].shape == (4, 5)


# --- the file in the cache folder


@pytest.fixture
def packaged(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The tiny model in place of the packaged one; counts how often it is taken."""
    taken: list[int] = []

    def source() -> bytes:
        taken.append(1)
        return file_of(tiny())

    monkeypatch.setattr(demo, "_packaged", source)
    monkeypatch.setattr(demo, "FILE_SHA256", _digest_of_cut())
    return taken


def _digest_of_cut() -> str:
    return hashlib.sha256(file_of(demo.cut(tiny()))).hexdigest()


def test_the_model_is_made_once_and_again_when_damaged(tmp_path: Path, packaged: list[int]) -> None:
    path = demo.ensure_model(tmp_path / "cache")
    assert g.read(path.read_bytes()).tensors
    assert demo.ensure_model(tmp_path / "cache") == path
    assert len(packaged) == 1
    path.write_bytes(path.read_bytes()[:-1])
    assert demo.ensure_model(tmp_path / "cache").stat().st_size == len(file_of(demo.cut(tiny())))
    assert len(packaged) == 2
    assert sorted(p.name for p in path.parent.iterdir()) == [path.name, f"{path.name}.lock"]


def test_a_model_that_comes_out_otherwise_is_not_kept(
    tmp_path: Path, packaged: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "FILE_SHA256", "0" * 64)
    with pytest.raises(ConfigError, match="came out otherwise"):
        demo.ensure_model(tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [f"{demo.FILE_NAME}.lock"]


def _ensure(cache: Path, digest: str, out: Any) -> None:
    made: list[int] = []

    def source() -> bytes:
        made.append(1)
        return file_of(tiny())

    demo._packaged, demo.FILE_SHA256 = source, digest
    demo.ensure_model(cache)
    out.put(len(made))


def test_processes_that_ask_together_make_it_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    out = context.Queue()
    asking = [context.Process(target=_ensure, args=(tmp_path, _digest_of_cut(), out)) for _ in range(3)]
    for process in asking:
        process.start()
    made = [out.get(timeout=60) for _ in asking]
    for process in asking:
        process.join(60)
    assert sum(made) == 1


def test_a_cache_that_cannot_be_written_is_told_with_its_place(tmp_path: Path, packaged: list[int]) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(ConfigError, match=r"cannot be kept in .*file.*XDG_CACHE_HOME"):
        demo.ensure_model(blocked)
