"""Files that are whole or not there: written beside their place, then renamed into it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path


def write_atomically(path: Path, text: str) -> None:
    """Put ``text`` at ``path``, so that a reader, a crash or a full disk sees the old file or the new one.

    A pipe or device is written straight to: it cannot be replaced.

    :raises OSError: the old file is then untouched and nothing is left beside it.
    """
    path = path.resolve()
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            temporary.chmod(path.stat().st_mode & 0o777)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def remove_leftovers(path: Path) -> None:
    """Remove what killed writers of ``path`` left beside it. The caller holds its lock."""
    for leftover in path.parent.glob(f".{path.name}.*.tmp"):
        leftover.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(path: Path, *, within_s: float = 60.0) -> Iterator[None]:
    """Hold the lock of ``path`` against other processes; it goes with this one, however that ends.

    :raises TimeoutError: when another process still holds it after ``within_s``.
    :raises OSError: when the lock's file cannot be made.
    """
    lock = path.with_name(f".{path.name}.lock")
    deadline = time.monotonic() + within_s
    while (descriptor := _try_lock(lock)) is None:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path} has been locked by another process for {within_s:g} s")
        time.sleep(0.02)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)  # while held: whoever opened it meanwhile sees that and starts over
        os.close(descriptor)


def _try_lock(lock: Path) -> int | None:
    """A descriptor that holds the lock; None when somebody else does."""
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), lock.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _sync_folder(folder: Path) -> None:
    """Make a rename in ``folder`` durable, where the file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
