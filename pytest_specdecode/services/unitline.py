"""What a systemd unit runs, and what it is to run instead: its command, read back exactly and rewritten."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import BrokenError, ConfigError
from .execstart import ExecStart, literal, parse_environment_file
from .launchline import Strip, check_program, check_variables, sole
from .systemctl import Systemctl
from .template import FLAGS, expand
from .units import UnitState, environment_files


class UnitLine:
    """The command of one unit. Reads, and changes nothing.

    :param strip: takes the speculation flags out of a command
    :param replace: what to run instead of the unit's own command, where that is a wrapper script
    """

    def __init__(
        self,
        ctl: Systemctl,
        strip: Strip,
        *,
        replace: Sequence[str] | None = None,
        extra_args: Sequence[str] = (),
    ) -> None:
        self._ctl = ctl
        self._strip = strip
        self._replace = replace
        self._extra = tuple(extra_args)
        self._line: ExecStart | None = None

    def forget(self) -> None:
        """Read the command anew when it is next asked for."""
        self._line = None

    def own(self) -> ExecStart:
        """The unit's own command, read once, before anything is changed.

        :raises ConfigError: when its flags cannot be rewritten safely, with what to do about it.
        """
        if self._line is None:
            self._line = self._read_line()
        return self._line

    def _read_line(self) -> ExecStart:
        state = self._ctl.show()
        if not state.known:
            why = state["LoadError"] or state["LoadState"] or "unknown"
            raise BrokenError(
                f"{self._ctl.host.name} has no usable unit {self._ctl.unit} ({why}); check service.systemd"
            )
        if state["Id"] and state["Id"] != self._ctl.unit:
            self._ctl.unit = state["Id"]
        if state["Type"] == "oneshot":
            raise ConfigError(f"{self._ctl.unit} is of Type=oneshot, which is no running service")
        if self._replace is not None:
            argv = tuple(w for w in self._replace if w != FLAGS)
            return ExecStart(argv[0], argv)
        line = sole(self._ctl.unit, self._ctl.exec_start())
        head = self._ctl.read("head", "-c", "200", "--", line.path) or ""
        check_program(self._ctl.unit, line, head.split("\n", 1)[0])
        check_variables(self._ctl.unit, line, self._environment(state), self._strip)
        return line

    def _environment(self, state: UnitState) -> dict[str, str]:
        found = parse_environment_file(self._ctl.environment())
        for path in environment_files(state["EnvironmentFiles"]):
            found |= parse_environment_file(self._ctl.read("cat", "--", path) or "")
        return found

    def planned(self, flags: Sequence[str], port: int) -> ExecStart:
        """The command with these flags. Words of ours are literal, the unit's own keep their ``$VAR``."""
        line = self.own()
        if self._replace is not None:
            argv = expand(self._replace, (*self._extra, *flags), port, key="service.exec")
            escaped = tuple(map(literal, argv))
            return ExecStart(escaped[0], escaped)
        own = [literal(word) if line.expands else word for word in (*self._extra, *flags)]
        return ExecStart(line.path, (*self._strip(line.argv), *own), line.flags)
