"""The commands with which a unit is looked at and moved. No decisions."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import BrokenError, NotRunError
from ..hosts import CommandResult, Runner
from .execstart import ExecStart, object_path, parse_exec_start
from .units import PROPERTIES, UnitState, parse_show

_TIMEOUT_S = 20.0
_BUS = "org.freedesktop.systemd1"
DROPIN = "zzz-specdecode.conf"
"""Sorts last: drop-ins are read by file name, wherever they lie, and the last ExecStart= wins."""


class Systemctl:
    """One unit of one manager: the system's, or with ``user`` the one of the user that ``host`` logs in
    as.
    """

    def __init__(self, host: Runner, unit: str, *, user: bool = False) -> None:
        self.host = host
        self.unit = unit if "." in unit else f"{unit}.service"
        self._user = user
        self._runtime: str | None = None

    @property
    def manager(self) -> tuple[str, ...]:
        return ("--user",) if self._user else ()

    def prefix(self, program: str) -> tuple[str, ...]:
        """``program`` with the right manager; an SSH command has no session that would name it."""
        if not self._user:
            return (program,)
        return ("env", f"XDG_RUNTIME_DIR={self.runtime}", program, "--user")

    @property
    def runtime(self) -> str:
        """The folder under which runtime units lie."""
        if self._runtime is None:
            self._runtime = "/run"
            if self._user:
                self._runtime = "/run/user/" + self._run("id", "-u").stdout.strip()
        return self._runtime

    @property
    def dropin(self) -> str:
        kind = "user" if self._user else "system"
        return f"{self.runtime}/systemd/{kind}/{self.unit}.d/{DROPIN}"

    def show(self) -> UnitState:
        """:raises HostError: when nobody could be asked."""
        result = self._run(*self.prefix("systemctl"), "show", "-p", ",".join(PROPERTIES), "--", self.unit)
        if result.status != 0:
            raise BrokenError(
                f"{self.host.name}: systemd does not answer about {self.unit}: {_said(result)}"
                + (" (is the user's manager running? loginctl enable-linger)" if self._user else "")
            )
        return parse_show(result.stdout)

    def exec_start(self) -> tuple[ExecStart, ...]:
        """What systemd will run, as it has it in memory: quotes and all (``systemctl show`` drops them)."""
        for name in ("ExecStartEx", "ExecStart"):
            result = self._property("Service", name)
            if result.status == 0:
                return parse_exec_start(result.stdout)
        raise BrokenError(f"{self.host.name}: ExecStart of {self.unit} cannot be read: {_said(result)}")

    def environment(self) -> str:
        """``Environment=`` of the unit and of the manager, as ``NAME=value`` lines."""
        import json  # noqa: PLC0415

        own = self._property("Service", "Environment")
        lines = json.loads(own.stdout)["data"] if own.status == 0 else []
        manager = self._run(*self.prefix("systemctl"), "show-environment")
        return "\n".join([*manager.stdout.splitlines(), *lines])

    def _property(self, interface: str, name: str) -> CommandResult:
        return self._run(
            *self.prefix("busctl"),
            "--json=short",
            "get-property",
            _BUS,
            object_path(self.unit),
            f"{_BUS}.{interface}",
            name,
        )

    def write_dropin(self, text: str) -> None:
        """:raises BrokenError: when it could not be written whole; nothing is left of it then."""
        script = (
            'umask 022; mkdir -p "${1%/*}" && cat > "$1.new" && mv -f "$1.new" "$1" '
            '|| { s=$?; rm -f "$1.new"; exit $s; }'
        )
        result = self._run("sh", "-c", script, "sh", self.dropin, stdin=text.encode())
        if result.status != 0:
            raise BrokenError(
                f"{self.host.name}: the drop-in {self.dropin} could not be written: {_said(result)}"
            )

    def remove_dropin(self) -> None:
        """Ours, and its folder when that is empty now."""
        script = 'rm -f "$1" "$1.new" && { rmdir "${1%/*}" 2>/dev/null || true; }'
        result = self._run("sh", "-c", script, "sh", self.dropin)
        if result.status != 0:
            raise BrokenError(
                f"{self.host.name}: the drop-in {self.dropin} could not be removed: {_said(result)}"
            )

    def words(self, *verb: str, unit: bool = True) -> tuple[str, ...]:
        """The command that :meth:`do` runs."""
        return (*self.prefix("systemctl"), *verb, *(("--", self.unit) if unit else ()))

    def do(self, *verb: str, unit: bool = True) -> CommandResult:
        """``systemctl VERB [UNIT]``; :class:`BrokenError` when it fails."""
        result = self._run(*self.words(*verb, unit=unit))
        if result.status != 0:
            raise BrokenError(f"{self.host.name}: systemctl {' '.join(verb)} failed: {_said(result)}")
        return result

    def reset_failed(self) -> None:
        """Forget failures and counted starts; a unit that is not loaded has none, and says so with status
        1.
        """
        self._run(*self.prefix("systemctl"), "reset-failed", "--", self.unit)

    def journal(self, invocation: str, lines: int) -> list[str]:
        """The last lines that this start, and systemd about it, have written."""
        if not invocation or lines <= 0:
            return []
        field = "USER_INVOCATION_ID" if self._user else "INVOCATION_ID"
        which = [f"_SYSTEMD_INVOCATION_ID={invocation}", "+", f"{field}={invocation}"]
        argv = ["journalctl", "--no-pager", "-q", "-o", "cat", "-n", str(lines), *which]
        return self._run(*argv).stdout.splitlines()[-lines:]

    def read(self, *argv: str) -> str | None:
        """What a command printed; None when it failed."""
        try:
            result = self._run(*argv)
        except NotRunError:
            return None
        return result.stdout if result.status == 0 else None

    def run(self, argv: Sequence[str]) -> CommandResult:
        return self._run(*argv)

    def _run(self, *argv: str, stdin: bytes = b"") -> CommandResult:
        return self.host.run(argv, timeout=_TIMEOUT_S, stdin=stdin)


def _said(result: CommandResult) -> str:
    text = (result.stderr or result.stdout).strip()
    return text[-400:] or f"status {result.status}"
