"""Start and stop what we measure. One file a kind of service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class ServiceState:
    """``running`` False with ``detail`` for the reader ("exit status 1", "killed by SIGSEGV", …)."""

    running: bool
    detail: str = ""


class Service(Protocol):
    """What is measured, as something that can be started with flags and stopped.

    The launch command is a template in which ``{flags}`` and ``{port}`` are replaced.
    """

    kind: str

    @property
    def managed(self) -> bool:
        """False: it runs whatever we do (external); never stopped, never started."""
        ...

    def command(self, flags: Sequence[str], port: int) -> tuple[str, ...]:
        """The launch command with everything replaced; empty where it is unknown."""
        ...

    def start(self, flags: Sequence[str], port: int, env: Mapping[str, str] | None = None) -> None:
        """Launch it; returns once it is launched, not once it is ready.

        :param env: environment variables of this start, beside the service's own

        :raises BrokenError: when the launch itself fails.
        """
        ...

    def state(self) -> ServiceState: ...

    def instance(self) -> str:
        """Names the running instance; another value later means that it was restarted in between."""
        ...

    def stop(self, *, within_s: float) -> None:
        """Ask it to end and wait; what is left then shows in :meth:`leftovers`."""
        ...

    def leftovers(self) -> Mapping[int, str]:
        """Processes of earlier starts that still live: pid → command line."""
        ...

    def kill_leftovers(self) -> None:
        """End what :meth:`leftovers` names, by (pid, start time); nothing else."""
        ...

    @property
    def killed(self) -> Sequence[int]:
        """Pids that stopping and killing have signalled so far, over all starts."""
        ...

    def log_tail(self, lines: int = 20) -> list[str]: ...

    def restore(self) -> None:
        """Leave everything as it was found. Never raises."""
        ...


@runtime_checkable
class TakingOver(Protocol):
    """A service that remembers how it was found before its first stop."""

    def take_over(self) -> None:
        """Remember it, and make sure that it is put back whatever happens to us. Only the first call counts.

        :raises BrokenError: when that cannot be made sure.
        """
        ...
