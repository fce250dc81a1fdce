"""A program under a supervisor (:mod:`pytest_specdecode.supervisor`), seen from this end of its channel."""

from __future__ import annotations

import contextlib
import json
import shlex
import threading
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..errors import HostError, NotRunError, UnknownRunError
from .processes import ProcessInfo
from .redaction import redact

_ANSWER_S = 20.0
_KILLED = -9

MODULES = ("pytest_specdecode.procfs", "pytest_specdecode.proctree", "pytest_specdecode.supervisor")


class Channel(Protocol):
    """Both ends of a supervisor's stdin and stdout, whatever lies between."""

    def send(self, data: bytes) -> None:
        """:raises OSError: when the other end is gone."""
        ...

    def line(self, timeout: float) -> bytes | None:
        """The next line; None when the other end is gone. :raises TimeoutError:"""
        ...

    def close(self, timeout: float) -> str:
        """End the supervisor's stdin, wait for it; what it wrote to stderr."""
        ...


class SupervisedChild:
    """Implements :class:`pytest_specdecode.hosts.Child`."""

    def __init__(self, channel: Channel, source: bytes, first: Mapping[str, Any], *, host: str) -> None:
        """Sends the supervisor's ``source``, then the ``first`` line of its protocol: the program starts.

        :raises NotRunError: there is no such program, or it may not be run.
        :raises UnknownRunError: the supervisor gave no answer.
        """
        self._channel = channel
        self._lock = threading.Lock()
        self._count = 0
        self._status: int | None = None
        self._gone = False
        self._killed: list[int] = []
        self._log: list[str] = []
        argv = shlex.join(redact(first["argv"]))
        try:
            channel.send(source + json.dumps(first).encode() + b"\n")
            line = channel.line(_ANSWER_S)
        except OSError as error:
            detail = channel.close(_ANSWER_S)
            raise UnknownRunError(
                f"{host}: the supervisor of `{argv}` does not answer: {error} {detail}".rstrip()
            ) from error
        except BaseException:
            channel.close(_ANSWER_S)
            raise
        answer = json.loads(line) if line else {"error": "it ended at once"}
        if "error" in answer:
            detail = channel.close(_ANSWER_S)
            kind = NotRunError if line else UnknownRunError
            raise kind(f"{host}: `{argv}` could not be started: {answer['error']} {detail}".rstrip())
        self._pid, self._start = int(answer["pid"]), int(answer["start"])

    @property
    def pid(self) -> int:
        return self._pid

    @property
    def instance(self) -> str:
        return f"{self._pid}:{self._start}"

    @property
    def killed(self) -> Sequence[int]:
        return tuple(self._killed)

    def _ask(self, do: str, extra_s: float = 0.0, **more: Any) -> Mapping[str, Any] | None:
        """One question; None when the supervisor is gone. Late answers to earlier questions are dropped."""
        with self._lock:
            if self._gone:
                return None
            timeout = _ANSWER_S + extra_s
            self._count += 1
            number = self._count
            try:
                self._channel.send(json.dumps({"id": number, "do": do, **more}).encode() + b"\n")
                while line := self._channel.line(timeout):
                    answer: Mapping[str, Any] = json.loads(line)
                    if answer["id"] == number:
                        return answer
            except TimeoutError as error:
                raise UnknownRunError(
                    f"the supervisor of pid {self._pid} did not answer within {timeout:.0f} s"
                ) from error
            except OSError:
                pass
            self._gone = True
            self._log.append("(its supervisor was killed, and the program with it)")
            return None

    def poll(self) -> int | None:
        if self._status is None:
            answer = self._ask("state")
            # The program dies with its supervisor (PR_SET_PDEATHSIG).
            self._status = _KILLED if answer is None else answer["status"]
        return self._status

    def stop(self, *, within_s: float) -> bool:
        answer = self._ask("stop", extra_s=within_s, within=within_s)
        if answer is None:
            self.close()  # its keeper ends what is left, and is waited for
            return True
        self._killed.extend(pid for pid in answer["killed"] if pid not in self._killed)
        self._status = answer["status"]
        if answer["left"]:
            return False
        self.close()
        return True

    def descendants(self) -> Mapping[int, str]:
        answer = self._ask("tree")
        processes = answer["processes"] if answer is not None else []
        return {p["pid"]: ProcessInfo.of(p).shown for p in processes}

    def log_tail(self, lines: int = 20) -> list[str]:
        answer = self._ask("log", lines=max(lines, 100))
        if answer is not None:
            self._log = answer["lines"]
        return self._log[-lines:] if lines > 0 else []

    def close(self) -> None:
        """End the program, its descendants and its supervisor; the last log lines stay readable."""
        with contextlib.suppress(HostError):
            self.poll()
            self.log_tail()
        with self._lock:
            self._gone = True
            self._channel.close(_ANSWER_S)
        self._status = _KILLED if self._status is None else self._status
