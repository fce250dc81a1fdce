"""One run a host. The lease lives on the host and needs our heartbeat; nothing destructive without it."""

from __future__ import annotations

import getpass
import json
import os
import platform
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ..errors import BrokenError, HostError, UnknownRunError
from . import Runner
from .ship import shipped

BEAT_EVERY_S = 5.0
FREE_AFTER_S = 15.0
"""A run not heard of for so long has lost its lease."""
_TIMEOUT_S = 6.0


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a lease."""

    who: Mapping[str, Any]
    age_s: float

    def __str__(self) -> str:
        user, machine, pid, since = (self.who.get(k, "?") for k in ("user", "machine", "pid", "since"))
        return f"{user}@{machine} (pid {pid}, since {since}, heard of {self.age_s:.0f} s ago)"


@dataclass(frozen=True, slots=True)
class _Answer:
    held: bool
    guarded: bool
    holder: Holder | None
    stale: tuple[str, ...]
    folder: str


def _quiet(text: str) -> None:
    del text


class Lease:
    """This run's claim to one host.

    :param host: any road that works is good enough for a heartbeat
    """

    def __init__(self, host: Runner) -> None:
        self._host = host
        self.token = uuid.uuid4().hex[:12]
        self._who = {
            "user": getpass.getuser(),
            "machine": platform.node(),
            "pid": os.getpid(),
            "since": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        self._heard = threading.Lock()
        self._ok_at: float | None = None
        self._gone: str | None = None
        self.folder = ""
        """Where the lease lies on the host; known once it is taken."""
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def taken(self) -> bool:
        """Whether it was ever ours."""
        return self._ok_at is not None

    def take(self, *, wait_s: float = 0.0, say: Callable[[str], None] = _quiet) -> tuple[str, ...]:
        """Take the lease and keep it. Tokens of dead runs whose guards still wait are returned; none where it
        is ours already.

        :raises BrokenError: when somebody else holds it for longer than ``wait_s``, naming them.
        :raises HostError: when the host could not be asked.
        """
        if self._thread is not None:
            return ()
        deadline = time.monotonic() + wait_s
        while True:
            answer = self._beat()
            if answer.held:
                break
            left = deadline - time.monotonic()
            if left <= 0:
                raise BrokenError(
                    f"{self._host.name} is in use by {answer.holder}; wait for it with "
                    f"--spec-wait-lease=10min"
                )
            say(f"waiting for {self._host.name}, which {answer.holder} uses")
            time.sleep(min(1.0, left))
        self._thread = threading.Thread(target=self._keep, name="specdecode-heartbeat", daemon=True)
        self._thread.start()
        return answer.stale

    def ensure(self) -> None:
        """To be called before anything destructive. Nothing to do for a run that never took one.

        :raises BrokenError: when the lease is lost: somebody else has it, or the guard has ended this run.
        """
        if (
            self._gone is None
            and self._ok_at is not None
            and time.monotonic() - self._ok_at > FREE_AFTER_S / 2
        ):
            try:
                self._beat()
            except HostError as error:
                raise BrokenError(
                    f"the lease of {self._host.name} could not be renewed, so nothing more is done "
                    f"there: {error}"
                ) from error
        if self._gone is not None:
            raise BrokenError(self._gone)

    def release(self, *, as_it_is: bool = False) -> None:
        """End the heartbeat and free the host. Never raises.

        What this run was to put back and has not, its guard puts back now; ``as_it_is``: it stays so.
        """
        self._end.set()
        if self._thread is not None:
            self._thread.join(_TIMEOUT_S)
        if self._ok_at is None or self._gone is not None:
            return
        try:
            self._ask("forget" if as_it_is else "release", self.token)
        except HostError:
            return  # it ends by itself in FREE_AFTER_S

    def _keep(self) -> None:
        while not self._end.wait(BEAT_EVERY_S):
            try:
                self._beat()
            except HostError:
                continue  # ensure() decides before the next act; the guard acts if this goes on

    def _beat(self) -> _Answer:
        with self._heard:
            sent = time.monotonic()
            answer = self._ask("beat", self.token, f"{FREE_AFTER_S:g}", json.dumps(self._who))
            self.folder = answer.folder
            if answer.held:
                self._ok_at, self._gone = sent, None
            elif answer.guarded:
                self._gone = (
                    f"this run was not heard of for too long, and its guard on {self._host.name} has put "
                    f"the service "
                    "back as it was found; nothing more is done there. Start the run again"
                )
            elif self._ok_at is not None:
                self._gone = (
                    f"the lease of {self._host.name} was lost while the link was down; {answer.holder} "
                    f"has it "
                    "now, and nothing more is done there. Start the run again when they are done"
                )
            return answer

    def _ask(self, *words: str) -> _Answer:
        return ask(self._host, *words)


def ask(host: Runner, *words: str) -> _Answer:
    """One question to :mod:`pytest_specdecode.leasefile` over there."""
    argv, source = shipped(host.python, ("pytest_specdecode.leasefile",), words)
    result = host.run(argv, timeout=_TIMEOUT_S, stdin=source)
    if result.status != 0:
        last = result.stderr.strip().splitlines()[-1:] or ["no message"]
        raise UnknownRunError(f"{host.name}: its lease cannot be used: {last[0]}")
    plain = json.loads(result.stdout)
    holder = plain["holder"]
    return _Answer(
        plain["held"],
        plain["guarded"],
        Holder(holder["who"], holder["age"]) if holder else None,
        tuple(plain["stale"]),
        plain["folder"],
    )
