"""An engine that is a child of this session: ``service.command``."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Mapping, Sequence
from typing import ClassVar

from ..config import Target
from ..errors import BrokenError, HostError, NotRunError
from ..hosts import Child, Host
from ..hosts.processes import Key, orphans, port_use, send
from ..hosts.redaction import redact_text, secrets_in
from . import ServiceState
from .template import check, expand

_TREE_S = 5.0
_RESTORE_S = 10.0
_PATIENCE_S = 2.0


class CommandService:
    """Started through the host's supervisor, so that neither it nor its descendants outlive the session."""

    keys: ClassVar[tuple[str, ...]] = ("command",)
    kind = "command"
    managed = True

    def __init__(
        self,
        host: Host,
        command: Sequence[str],
        *,
        extra_args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        secrets: Sequence[str] = (),
        key: str = "service.command",
    ) -> None:
        """``key`` names the command in messages; ``secrets`` are values that never show in log lines.

        :raises ConfigError: for a command whose ``{flags}`` cannot be spliced.
        """
        check(command, key=key)
        self._host = host
        self._template = tuple(command)
        self._extra = tuple(extra_args)
        self._env = dict(env or {})
        self._secrets = frozenset(secrets) | secrets_in(self._env)
        self._key = key
        self._child: Child | None = None
        self._killed: list[int] = []
        self._asked: dict[Key, float] = {}
        self._refused: dict[int, str] = {}

    @classmethod
    def of(cls, target: Target, host: Host) -> CommandService:
        table = target.service
        secret = os.environ.get(target.api_key_env) if target.api_key_env else None
        return cls(
            host,
            table.command or (),
            extra_args=table.extra_args,
            env=table.env,
            secrets=[secret] if secret else (),
            key=f"target.{target.name}.service.command",
        )

    def command(self, flags: Sequence[str], port: int) -> tuple[str, ...]:
        return expand(self._template, flags, port, key=self._key, extra=self._extra)

    def start(self, flags: Sequence[str], port: int, env: Mapping[str, str] | None = None) -> None:
        left = self._child.descendants() if self._child is not None else {}
        if left:
            shown = "; ".join(f"pid {pid}: {command}" for pid, command in left.items())
            raise BrokenError(f"the last start has not ended, stop it first: {shown}")
        argv = self.command(flags, port)
        use = port_use(self._host, port)
        if not use.closed:
            raise BrokenError(f"port {port} is taken by {use}; stop that, or give the target another port")
        try:
            self._child = self._host.spawn(argv, env={**self._env, **(env or {})})
        except NotRunError as error:
            raise BrokenError(f"the engine could not be launched: {error}") from error
        except HostError as error:
            raise BrokenError(f"it is not known whether the engine was launched: {error}") from error

    def state(self) -> ServiceState:
        if self._child is None:
            return ServiceState(False, "not started")
        try:
            status = self._child.poll()
        except HostError as error:
            return ServiceState(False, f"nobody knows whether it runs: {error}")
        if status is None:
            return ServiceState(True)
        if status == -signal.SIGKILL and self._child.pid not in self._child.killed:
            return ServiceState(False, "killed by SIGKILL, and not by us; was the machine out of memory?")
        return ServiceState(False, describe_status(status))

    def instance(self) -> str:
        return self._child.instance if self._child is not None else ""

    def stop(self, *, within_s: float) -> None:
        if self._child is None:
            return
        before = len(self._child.killed)
        with contextlib.suppress(HostError):  # what is left, or cannot be looked at, shows in leftovers()
            self._child.stop(within_s=within_s)
        self._killed.extend(self._child.killed[before:])

    def leftovers(self) -> Mapping[int, str]:
        """What descends from this session's starts, and what earlier sessions of this user could not end."""
        left = dict(self._child.descendants()) if self._child is not None else {}
        for p in orphans(self._host):
            why = self._refused.get(p.pid)
            left[p.pid] = f"{p.shown}: {why}" if why else p.shown
        return left

    def kill_leftovers(self) -> None:
        """One round: SIGTERM to what was not asked yet, SIGKILL to what was asked and did not go."""
        if self._child is not None and self._child.descendants():
            self.stop(within_s=_TREE_S)
        now = time.monotonic()
        found = [p.key for p in orphans(self._host)]
        late = [key for key in found if now - self._asked.get(key, now) >= _PATIENCE_S]
        new = [key for key in found if key not in self._asked]
        self._asked.update(dict.fromkeys(new, now))
        for number, keys in ((signal.SIGTERM, new), (signal.SIGKILL, late)):
            outcome = send(self._host, number, keys)
            self._killed.extend(pid for pid in outcome.signalled if pid not in self._killed)
            self._refused.update(outcome.refused)

    @property
    def killed(self) -> Sequence[int]:
        return tuple(self._killed)

    def log_tail(self, lines: int = 20) -> list[str]:
        if self._child is None:
            return []
        return [redact_text(line, self._secrets) for line in self._child.log_tail(lines)]

    def restore(self) -> None:
        self.stop(within_s=_RESTORE_S)


def describe_status(status: int) -> str:
    """``exit status 1`` or ``killed by SIGSEGV``; negative: the signal."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"
