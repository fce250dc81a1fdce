"""Reports as files: whole or not there."""

from __future__ import annotations

from pathlib import Path

from ..errors import ConfigError
from ..files import write_atomically


def write_file(option: str, path: Path, text: str) -> None:
    """Put ``text`` at ``path``, where ``option`` (``--spec-html``) asks for it.

    :raises ConfigError: when it cannot be written there.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)
    except OSError as error:
        raise ConfigError(f"{option}={path}: cannot be written: {error.strerror or error}") from None


def append_summary(path: Path, text: str, *, limit: int) -> str:
    """Append what fits to a step's summary; why not where it cannot be, else nothing.

    :param limit: bytes that the whole file may have
    """
    from .markdown import fitted  # noqa: PLC0415  (only where there is a summary)

    try:
        room = limit - (path.stat().st_size if path.exists() else 0)
        if room < len(text.encode()) and room < 4096:
            return f"{path}: no room for this report's summary"
        with path.open("a", encoding="utf-8") as file:
            file.write(fitted(text, room))
    except OSError as error:
        return f"{path}: the summary cannot be written: {error.strerror or error}"
    return ""
