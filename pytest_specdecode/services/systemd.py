"""A systemd unit whose speculation flags are replaced by a runtime drop-in: ``service.systemd``."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from ..config import Target
from ..engines.registry import load_engine
from ..errors import BrokenError, HostError, SpecDecodeError, UnknownRunError
from ..hosts import Host
from ..hosts.reaper import Reaper
from ..hosts.redaction import redact_text
from ..hosts.roads import RoadHost
from ..hosts.scan import Scan, Scanner, Seen
from ..procfs import PROTECTED
from . import ServiceState
from .execstart import ExecStart
from .guard import Found, Guard, guard_of
from .launchline import Strip, dropin_text
from .ownership import Ownership
from .systemctl import DROPIN, Systemctl
from .unitline import UnitLine
from .units import UnitState

_POLL_S = 0.02
_LAUNCH_WITHIN_S = 60.0
_IDLE_S = 2.0
"""Neither started nor about to for so long: it will not."""
_RESTORE_WITHIN_S = 120.0


class SystemdService:
    """Implements :class:`pytest_specdecode.services.Service`.

    The unit on disk is never edited. ``permit`` is asked before anything is changed, ``guard`` started before
    the first stop.
    """

    keys: ClassVar[tuple[str, ...]] = ("systemd",)
    kind = "systemd"
    managed = True

    def __init__(
        self,
        ctl: Systemctl,
        scanner: Scanner,
        reaper: Reaper,
        *,
        strip: Strip,
        replace: Sequence[str] | None = None,
        extra_args: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        permit: Callable[[], None] = lambda: None,
        guard: Callable[[], Guard | None] = lambda: None,
        secrets: Sequence[str] = (),
        protect: Sequence[str] = (),
    ) -> None:
        """``protect``: names of executables that are spared though they are the unit's."""
        self._ctl = ctl
        self._scanner = scanner
        self._reaper = reaper
        self._env = dict(env or {})
        self._permit = permit
        self._make_guard = guard
        self._secrets = frozenset(secrets)
        self._ours = Ownership((*PROTECTED, *protect))
        self._line = UnitLine(ctl, strip, replace=replace, extra_args=extra_args)
        self._found: UnitState | None = None
        self._guard: Guard | None = None
        self._started = ""

    @classmethod
    def of(cls, target: Target, host: Host) -> SystemdService:
        """The target's unit. Needs the roads of :func:`~pytest_specdecode.hosts.registry.make_host`."""
        roads = host if isinstance(host, RoadHost) else RoadHost(host)
        table = target.service
        secret = os.environ.get(target.api_key_env) if target.api_key_env else None
        engine = load_engine(target.engine)
        silence_s = float(table.guard_after)
        return cls(
            Systemctl(roads.own if table.user else roads, table.systemd or "", user=table.user),
            roads.scanner(target.cleanup.devices),
            roads.reaper(),
            strip=engine.without_speculation,
            replace=table.exec,
            extra_args=table.extra_args,
            env=table.env,
            permit=roads.lease.ensure,
            guard=lambda: guard_of(roads, user=table.user, silence_s=silence_s),
            secrets=[secret] if secret else (),
            protect=target.cleanup.protect,
        )

    # -- what it runs ---------------------------------------------------------------------------------

    @property
    def unit(self) -> str:
        return self._ctl.unit

    def own_command(self) -> tuple[str, ...]:
        """What the unit runs of itself, its speculation flags included."""
        return self._line.own().argv

    def command(self, flags: Sequence[str], port: int) -> tuple[str, ...]:
        return self._line.planned(flags, port).argv

    # -- start, state, stop ---------------------------------------------------------------------------

    def start(self, flags: Sequence[str], port: int, env: Mapping[str, str] | None = None) -> None:
        planned = self._line.planned(flags, port)
        self.take_over()
        self._permit()
        try:
            self._install(planned, env or {})
            before = self._ctl.show().invocation
            self._ctl.reset_failed()
            self._ctl.do("start", "--no-block")
            self._wait_launched(before)
        except HostError as error:
            raise BrokenError(f"{self.unit} could not be started: {error}") from error
        finally:
            self._scanner.forget()

    def take_over(self) -> None:
        """Remember how the unit was found, and start the guard, once."""
        if self._found is not None:
            return
        self._line.own()
        found = self._ctl.show()
        guard = self._make_guard()
        if guard is not None:
            self._permit()
            wanted = Found(self.unit, found.active, self._ctl.dropin, self._ctl.manager)
            guard.start(wanted, self._ctl.prefix("systemd-run"), self._ctl.prefix("systemctl"))
        self._guard = guard
        self._found = found
        self._ours.remember(found)

    @property
    def left_changed(self) -> bool:
        """Whether a run that died without its guard has left its drop-in."""
        return DROPIN in self._ctl.show()["DropInPaths"]

    def adopt(self) -> None:
        """Remove a drop-in of a run that died without its guard, and read the unit's own command anew."""
        if self.left_changed:
            self._permit()
            self._ctl.remove_dropin()
            self._ctl.do("daemon-reload", unit=False)
        self._line.forget()

    def _install(self, planned: ExecStart, env: Mapping[str, str]) -> None:
        self._ctl.write_dropin(dropin_text(planned, {**self._env, **env}))
        self._ctl.do("daemon-reload", unit=False)
        will_run = self._ctl.exec_start()
        if will_run != (planned,):
            others = [p for p in self._ctl.show()["DropInPaths"].split() if not p.endswith(DROPIN)]
            raise BrokenError(
                f"{self.unit}: systemd would run {' ; '.join(map(str, will_run))[:500]!r} "
                f"instead of "
                f"{str(planned)[:500]!r}; look at its drop-ins: {', '.join(others) or 'none'}"
            )

    def _wait_launched(self, before: str) -> None:
        begin = time.monotonic()
        while True:
            state = self._ctl.show()
            fresh = bool(state.invocation) and state.invocation != before
            if fresh:
                self._started = state.invocation
                self._ours.remember(state)
            if fresh and state.active:
                return
            waited = time.monotonic() - begin
            if state.stopped and (fresh or waited > _IDLE_S):
                raise BrokenError(f"{self.unit} did not start: {state.ending()}{self._last_words()}")
            if waited > _LAUNCH_WITHIN_S:
                raise BrokenError(
                    f"{self.unit} was not launched within {_LAUNCH_WITHIN_S:g} s: {state.ending()}, "
                    f"job {state['Job'] or 'none'}{self._last_words()}"
                )
            time.sleep(_POLL_S)

    def _last_words(self) -> str:
        lines = self.log_tail(12)
        return "\nlast log lines:\n" + "\n".join(f"  {line}" for line in lines) if lines else ""

    def state(self) -> ServiceState:
        state = self._ctl.show()
        if state.active and not state.respawning and state.invocation == (self._started or state.invocation):
            return ServiceState(True)
        if state.active:
            return ServiceState(not self._started, "it was restarted by somebody else, or restarts by itself")
        return ServiceState(False, state.ending())

    def instance(self) -> str:
        return self._ctl.show().invocation

    def stop(self, *, within_s: float) -> None:
        """Ask systemd, wait until the unit is down and its cgroup empty, or time is up."""
        self.take_over()
        state = self._ctl.show()
        self._ours.remember(state)
        if state.active:
            self.record()
        self._permit()
        self._started = ""
        with contextlib.suppress(UnknownRunError):  # whether it arrived shows below
            self._ctl.do("stop", "--no-block")
        deadline = time.monotonic() + within_s
        while not self._ctl.show().stopped and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        self._scanner.forget()

    # -- what is left ---------------------------------------------------------------------------------

    def record(self) -> None:
        """Remember what descends from the unit now: a child that renames itself and leaves is still ours."""
        self._scanner.forget()
        self._ours.record(self._scanner.look())

    def owned(self, scan: Scan) -> tuple[Seen, ...]:
        return self._ours.owned(scan)

    def left_in_memory(self, scan: Scan) -> tuple[str, ...]:
        return self._ours.left_in_memory(scan)

    def leftovers(self) -> Mapping[int, str]:
        state, scan = self._ctl.show(), self._scanner.look()
        left = {p.pid: self._reaper.describe(p, scan).partition(": ")[2] for p in self.owned(scan)}
        if not state.stopped:
            doing = f"{self.unit} is {state['ActiveState']} ({state['SubState']})"
            left[state.main_pid] = "; ".join(filter(None, [left.get(state.main_pid), doing]))
        return left

    def kill_leftovers(self) -> None:
        self._permit()
        if not self._ctl.show().stopped:
            self._ctl.do("stop", "--no-block")
        scan = self._scanner.look()
        self._reaper.press(self.owned(scan))
        self._scanner.forget()

    @property
    def killed(self) -> Sequence[int]:
        return tuple(self._reaper.killed)

    def log_tail(self, lines: int = 20) -> list[str]:
        with contextlib.suppress(HostError):
            found = self._ctl.journal(self._started or self._ctl.show().invocation, lines)
            return [redact_text(line, self._secrets) for line in found]
        return []

    # -- what it would do -----------------------------------------------------------------------------

    def stop_plan(self) -> list[tuple[str, ...]]:
        """Commands of the first stop, the guard's start included."""
        self._ours.remember(self._ctl.show())
        guard = (*self._ctl.prefix("systemd-run"), "--unit=specdecode-guard-…", "/bin/sh", "guard", self.unit)
        return [guard, self._ctl.words("stop", "--no-block")]

    def start_plan(self, flags: Sequence[str], port: int) -> list[tuple[str, ...]]:
        """Commands of a start; the drop-in is shown as what it makes systemd run."""
        line = self._line.planned(flags, port)
        return [
            ("write", self._ctl.dropin, f"ExecStart={line}"),
            self._ctl.words("daemon-reload", unit=False),
            self._ctl.words("reset-failed"),
            self._ctl.words("start", "--no-block"),
        ]

    def restore_plan(self) -> list[tuple[str, ...]]:
        """Commands that leave the unit as it is now."""
        back = [self._ctl.words("start", "--no-block")] if self._ctl.show().active else []
        return [
            ("rm", self._ctl.dropin),
            self._ctl.words("daemon-reload", unit=False),
            self._ctl.words("stop", "--no-block"),
            *back,
        ]

    # -- as it was found ------------------------------------------------------------------------------

    def restore(self) -> None:
        """The drop-in goes and the unit is as it was found; where that fails, the guard does it."""
        if self._found is None:
            return
        with contextlib.suppress(SpecDecodeError):
            self._permit()
            self._put_back()
            if self._guard is not None:
                self._guard.stop(self.unit, self._ctl.prefix("systemctl"))
            self._found = self._guard = None

    def _put_back(self) -> None:
        assert self._found is not None
        self._ctl.remove_dropin()
        self._ctl.do("daemon-reload", unit=False)
        state = self._ctl.show()
        untouched = self._found.active and state.invocation == self._found.invocation
        if not state.stopped and not untouched:  # whatever was started since runs a benchmark's flags
            self.stop(within_s=_RESTORE_WITHIN_S)
        self._ctl.reset_failed()
        if self._found.active:
            self._ctl.do("start", "--no-block")


__all__ = ["SystemdService"]
