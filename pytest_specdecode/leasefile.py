"""One run a machine: a lease that is a file with a heartbeat, under a lock.

Standard library only and nothing beyond Python 3.9: sent to the machine in question. Files, in a folder that
only
its owner can enter: ``lease.json`` (who, and when last heard of), ``beat-TOKEN`` (what the guard watches),
``guarded-TOKEN`` (the guard has put everything back; that run is over), ``guard-TOKEN`` (its script),
``found-TOKEN-UNIT`` (how a unit was found, until it is so again), ``now-TOKEN`` (the guard is to
act at once).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

_BEAT, _GUARDED, _NOW = "beat-", "guarded-", "now-"


def folder() -> Path:
    """Where this user's runs meet: root's is everybody's."""
    user = os.geteuid()
    if user == 0:
        return Path("/run/specdecode")
    own = Path(f"/run/user/{user}")
    return own / "specdecode" if own.is_dir() else Path(f"/tmp/specdecode-{user}")  # noqa: S108  (checked below)


@contextlib.contextmanager
def locked(where: Path) -> Iterator[Path]:
    """The folder, ours alone while this lasts.

    :raises PermissionError: when somebody else made it, or others may enter it.
    """
    where.mkdir(mode=0o700, exist_ok=True)
    seen = where.lstat()
    if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.geteuid() or seen.st_mode & 0o077:
        raise PermissionError(f"{where} is not a folder of our own with mode 0700; remove it")
    with (where / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield where


def _held(where: Path, ttl: float) -> dict[str, Any]:
    """The living lease; empty when there is none, or its owner was not heard of for ``ttl`` seconds."""
    try:
        lease: dict[str, Any] = json.loads((where / "lease.json").read_text())
        age = time.monotonic() - float(lease["beat"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return dict(lease, age=age) if 0 <= age < ttl else {}


def _write(path: Path, text: str) -> None:
    partial = path.with_name(path.name + ".new")
    partial.write_text(text)
    partial.replace(path)


def beat(token: str, ttl: str, who: str) -> dict[str, Any]:
    """Take or keep the lease. ``stale``: runs that died with their guard still waiting."""
    with locked(folder()) as where:
        if (where / (_GUARDED + token)).exists():
            return {"held": False, "guarded": True, "holder": _held(where, float(ttl)), "stale": []}
        lease = _held(where, float(ttl))
        if lease and lease["token"] != token:
            return {"held": False, "guarded": False, "holder": lease, "stale": []}
        now = time.monotonic()
        _write(where / "lease.json", json.dumps({"token": token, "beat": now, "who": json.loads(who)}))
        _write(where / (_BEAT + token), repr(now))
        others = [p.name[len(_BEAT) :] for p in where.glob(_BEAT + "*") if p.suffix != ".new"]
        stale = sorted(name for name in others if name != token)
        return {"held": True, "guarded": False, "holder": {}, "stale": stale}


def release(token: str) -> dict[str, Any]:
    """Give the lease back, if it is still this run's. What it has not put back is its guard's, from now."""
    return _release(token, forget=False)


def forget(token: str) -> dict[str, Any]:
    """As :func:`release`, and everything stays as it is now."""
    return _release(token, forget=True)


def _release(token: str, *, forget: bool) -> dict[str, Any]:
    with locked(folder()) as where:
        lease = _held(where, float("inf"))
        if lease and lease["token"] == token:
            (where / "lease.json").unlink()
        records = list(where.glob(f"found-{token}-*"))
        if records and not forget:
            (where / (_NOW + token)).touch()
            return {"held": False, "guarded": False, "holder": {}, "stale": []}
        for path in (*(where / (name + token) for name in (_BEAT, _GUARDED, "guard-")), *records):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
        return {"held": False, "guarded": False, "holder": {}, "stale": []}


def peek(ttl: str) -> dict[str, Any]:
    """Who holds it; nothing is made or changed."""
    return {"held": False, "guarded": False, "holder": _held(folder(), float(ttl)), "stale": []}


QUESTIONS: dict[str, Any] = {"beat": beat, "release": release, "forget": forget, "peek": peek}


def main(words: Sequence[str]) -> None:
    sys.stdout.write(json.dumps(dict(QUESTIONS[words[0]](*words[1:]), folder=str(folder()))))
    sys.stdout.flush()
