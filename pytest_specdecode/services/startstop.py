"""An engine that the user's own commands start and stop (Docker, Slurm, ``qm``)."""

from __future__ import annotations

import contextlib
import os
import shlex
from collections.abc import Mapping, Sequence
from typing import ClassVar

from ..config import Target
from ..errors import BrokenError, HostError, NotRunError, SpecDecodeError, UnknownRunError
from ..hosts import CommandResult, Host
from ..hosts.processes import port_use
from ..hosts.redaction import redact, redact_text, secrets_in
from . import ServiceState
from .portwatch import PortWatch, local_port
from .template import PORT, check, expand


class StartStopService:
    """``start`` must return once the engine is launched. What it launched is the user's own: only ``stop``
    ends it, nothing kills it."""

    keys: ClassVar[tuple[str, ...]] = ("start", "stop")
    kind = "start+stop"
    managed = True

    def __init__(
        self,
        host: Host,
        start: Sequence[str],
        stop: Sequence[str],
        *,
        port: int | None = None,
        extra_args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        start_within_s: float = 900.0,
        secrets: Sequence[str] = (),
        key: str = "service",
    ) -> None:
        """``port``: where it listens before the first start, when that is known.

        :raises ConfigError: for a command whose ``{flags}`` cannot be spliced.
        """
        check(start, key=f"{key}.start")
        check(stop, key=f"{key}.stop")
        self._host = host
        self._start, self._stop = tuple(start), tuple(stop)
        self._port = port
        self._extra = tuple(extra_args)
        self._env = dict(env or {})
        self._start_within_s = start_within_s
        self._secrets = frozenset(secrets) | secrets_in(self._env)
        self._key = key
        self._watch = PortWatch(host)
        self._launched = False
        self._found_running: bool | None = None
        self._said: list[str] = []
        self._stop_said = ""

    @classmethod
    def of(cls, target: Target, host: Host) -> StartStopService:
        table = target.service
        secret = os.environ.get(target.api_key_env) if target.api_key_env else None
        return cls(
            host,
            table.start or (),
            table.stop or (),
            port=local_port(target.url),
            extra_args=table.extra_args,
            env=table.env,
            start_within_s=float(table.ready_within),
            secrets=[secret] if secret else (),
            key=f"target.{target.name}.service",
        )

    def command(self, flags: Sequence[str], port: int) -> tuple[str, ...]:
        return expand(self._start, flags, port, key=f"{self._key}.start", extra=self._extra)

    def _with_env(self, argv: Sequence[str], env: Mapping[str, str] | None = None) -> tuple[str, ...]:
        assignments = [f"{name}={value}" for name, value in {**self._env, **(env or {})}.items()]
        return ("env", *assignments, *argv) if assignments else tuple(argv)

    def _run(
        self, argv: Sequence[str], timeout: float, env: Mapping[str, str] | None = None
    ) -> CommandResult:
        result = self._host.run(self._with_env(argv, env), timeout=timeout)
        self._said += [
            f"$ {shlex.join(redact(argv))}",
            *result.stdout.splitlines(),
            *result.stderr.splitlines(),
        ]
        return result

    def start(self, flags: Sequence[str], port: int, env: Mapping[str, str] | None = None) -> None:
        argv = self.command(flags, port)
        shown = shlex.join(redact(argv))
        use = port_use(self._host, port)
        if not use.closed:
            raise BrokenError(f"port {port} is taken by {use}; stop that, or give the target another port")
        self._port = port
        self._watch.follow(port)
        self._launched = True
        try:
            result = self._run(argv, self._start_within_s, env)
        except NotRunError as error:
            self._launched = False
            raise BrokenError(f"the engine could not be launched: {error}") from error
        except UnknownRunError as error:
            raise BrokenError(
                f"{error}. service.start must return once the engine is launched; a program that stays in "
                "the foreground belongs into service.command"
            ) from error
        if result.status != 0:
            said = "\n".join(f"  {line}" for line in self.log_tail(10)[1:])
            raise BrokenError(f"`{shown}` failed with status {result.status}:\n{said}")

    def state(self) -> ServiceState:
        if self._launched:
            return self._watch.state()
        if self._port is None:
            return ServiceState(False, "not started")
        use = port_use(self._host, self._port)
        if use.closed:
            return ServiceState(False, "not started")
        said = f" ({self._stop_said})" if self._stop_said else ""
        return ServiceState(True, f"port {self._port} is held by {use}{said}")

    def instance(self) -> str:
        return self._watch.instance()

    def stop(self, *, within_s: float) -> None:
        """Run ``stop``. Whether it worked shows at the port, whatever its exit status says."""
        if self._found_running is None:
            self._found_running = not self._launched and self._listens()
        if not self._launched and not self._listens():
            return
        argv = expand(self._stop, (), self._port, key=f"{self._key}.stop")
        try:
            result = self._run(argv, within_s)
            self._stop_said = f"service.stop ended with status {result.status}"
        except HostError as error:
            self._stop_said = str(error)
            self._said.append(str(error))
        self._launched = False
        self._watch.follow(None)

    def stop_plan(self) -> list[tuple[str, ...]]:
        """Its command, where something listens now."""
        return (
            [self._with_env(expand(self._stop, (), self._port, key=f"{self._key}.stop"))]
            if self._listens()
            else []
        )

    def start_plan(self, flags: Sequence[str], port: int) -> list[tuple[str, ...]]:
        return [self._with_env(self.command(flags, port))]

    def restore_plan(self) -> list[tuple[str, ...]]:
        """The last start's end, and where one runs now, that again without speculation flags."""
        stop = self._with_env(expand(self._stop, (), self._port or PORT, key=f"{self._key}.stop"))
        runs = self._port is not None and self._listens()
        return [stop, *([self._with_env(self.command((), self._port or 0))] if runs else [])]

    def _listens(self) -> bool:
        return self._port is not None and not port_use(self._host, self._port).closed

    def leftovers(self) -> Mapping[int, str]:
        return {}

    def kill_leftovers(self) -> None:
        """Nothing: its processes are the user's own."""

    @property
    def killed(self) -> Sequence[int]:
        return ()

    def log_tail(self, lines: int = 20) -> list[str]:
        """What the start and stop commands said; the engine's own log is where the user's commands put it."""
        return [redact_text(line, self._secrets) for line in self._said[-lines:]] if lines > 0 else []

    def restore(self) -> None:
        """Stopped, or, where it ran when we came, launched again without speculation flags."""
        with contextlib.suppress(SpecDecodeError):
            if self._launched:
                self.stop(within_s=self._start_within_s)
            if self._found_running and self._port is not None:
                self._found_running = False
                self._run(self.command((), self._port), self._start_within_s)
