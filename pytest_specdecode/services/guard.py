"""A transient unit on the host that puts the services back when we are no longer heard of."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import BrokenError, SpecDecodeError
from ..hosts import CommandResult, Runner
from ..hosts.roads import RoadHost

SILENCE_S = 60.0
_TIMEOUT_S = 20.0
_FOLDER = "/run/specdecode"
PREFIX = "specdecode-guard-"

# A shell script, since people kill every Python on such machines. It counts its own seconds while the beat
# does not change, so that no clock that is set matters. All units go down before any comes back: two services
# of one machine may not fit on it together.
_SCRIPT = r"""
folder=$1 token=$2 limit=$3
each() {
  for record in "$folder/found-$token-"*; do
    [ -e "$record" ] || continue
    { read -r unit; read -r found; read -r dropin; read -r manager; } < "$record"
    "$1"
  done
}
down() {
  rm -f "$dropin"
  rmdir "${dropin%/*}" 2>/dev/null
  systemctl $manager daemon-reload
  systemctl $manager stop "$unit"
  systemctl $manager reset-failed "$unit"
}
back() {
  [ "$found" = active ] && systemctl $manager start --no-block "$unit"
  echo "pytest-specdecode was not heard of for $limit s: $unit is back as it was found ($found)"
}
quiet=0 last=
while [ -e "$folder/beat-$token" ]; do
  seen=$(cat "$folder/beat-$token" 2>/dev/null)
  if [ "$seen" != "$last" ]; then quiet=0; last=$seen; else quiet=$((quiet + 1)); fi
  if [ "$quiet" -ge "$limit" ] || [ -e "$folder/now-$token" ]; then
    (
      flock 9
      [ -e "$folder/now-$token" ] || [ "$(cat "$folder/beat-$token" 2>/dev/null)" = "$last" ] || exit 1
      : > "$folder/guarded-$token"
    ) 9>"$folder/lock" || continue
    each down
    each back
    rm -f "$folder/found-$token-"* "$folder/beat-$token" "$folder/now-$token"
    exit 0
  fi
  sleep 1
done
"""


@dataclass(frozen=True, slots=True)
class Found:
    """What the guard puts back."""

    unit: str
    active: bool
    dropin: str
    """Path of the drop-in that it removes."""
    manager: tuple[str, ...] = ()
    """``--user`` for a user's own manager."""


class Guard:
    """The guard of the run that holds the lease ``token``: one for all units that the run has touched."""

    def __init__(
        self, host: Runner, token: str, *, folder: str = _FOLDER, silence_s: float = SILENCE_S
    ) -> None:
        self._host = host
        self._token = token
        self._folder = folder
        self._silence_s = silence_s
        self.unit = f"{PREFIX}{token}.service"

    def start(
        self, found: Found, run: Sequence[str] = ("systemd-run",), ask: Sequence[str] = ("systemctl",)
    ) -> None:
        """Have it look after one more unit.

        :raises BrokenError: when it does not run; then nothing may be stopped.
        """
        try:
            self._start(found, run, ask)
        except BaseException:  # nothing was stopped, so that there is nothing to put back
            with contextlib.suppress(SpecDecodeError):
                self.stop(found.unit, ask)
            raise

    def _start(self, found: Found, run: Sequence[str], ask: Sequence[str]) -> None:
        script = f"{self._folder}/guard-{self._token}"
        state = "active" if found.active else "inactive"
        record = "\n".join((found.unit, state, found.dropin, " ".join(found.manager), ""))
        wrote = self._write(self._record(found.unit), record)
        if wrote.status == 0:
            wrote = self._write(script, _SCRIPT)
        words = [script, self._folder, self._token, f"{self._silence_s:.0f}"]
        argv = [*run, f"--unit={self.unit}", "--collect", "--quiet", "--", "/bin/sh", *words]
        ran = self._run(argv) if wrote.status == 0 else wrote
        if ran.status != 0 and self._run([*ask, "is-active", "--quiet", self.unit]).status != 0:
            raise BrokenError(
                f"{self._host.name}: the guard that would put {found.unit} back if we were cut off could "
                f"not be "
                f"started, so nothing was stopped: {ran.stderr.strip()[-300:]}"
            )

    def stop(self, unit: str, run: Sequence[str] = ("systemctl",)) -> None:
        """That unit is back; with the last one the guard is no longer needed."""
        script = 'rm -f "$1"; for r in "${1%-"$2"}"-*; do [ -e "$r" ] && exit 1; done; exit 0'
        if self._run(["sh", "-c", script, "sh", self._record(unit), unit]).status == 0:
            self._run([*run, "stop", self.unit])

    def _record(self, unit: str) -> str:
        """Where it reads how that unit was found."""
        return f"{self._folder}/found-{self._token}-{unit}"

    def _write(self, path: str, text: str) -> CommandResult:
        """Whole or not at all: the guard may be reading."""
        script = 'umask 077; cat > "$2" && mv -f "$2" "$1"'
        new = f"{self._folder}/new-{self._token}"
        return self._run(["sh", "-c", script, "sh", path, new], stdin=text.encode())

    def _run(self, argv: Sequence[str], stdin: bytes = b"") -> CommandResult:
        return self._host.run(argv, timeout=_TIMEOUT_S, stdin=stdin)


def guard_of(roads: RoadHost, *, user: bool, silence_s: float) -> Guard | None:
    """The guard of the run that holds the lease of ``roads``; None for a run without one."""
    if not roads.lease.taken:
        return None
    return Guard(
        roads.own if user else roads, roads.lease.token, folder=roads.lease.folder, silence_s=silence_s
    )


def relieve(host: Runner, token: str, *, folder: str = _FOLDER, within_s: float = 90.0) -> None:
    """Have the guard of a run that died put everything back now, and wait until it has.

    :raises BrokenError: when it does not.
    """
    unit = f"{PREFIX}{token}.service"
    script = (
        'export XDG_RUNTIME_DIR="${XDG_RUNTIME_DIR:-/run/user/$(id -u)}"; '
        'systemctl is-active --quiet "$3" || systemctl --user is-active --quiet "$3" 2>/dev/null '
        '|| { rm -f "$1/beat-$2" "$1/now-$2" "$1/found-$2-"*; exit 3; }; : > "$1/now-$2"'
    )
    asked = host.run(["sh", "-c", script, "sh", folder, token, unit], timeout=_TIMEOUT_S)
    if asked.status == 3:
        return
    deadline = time.monotonic() + within_s
    while host.run(["test", "-e", f"{folder}/beat-{token}"], timeout=_TIMEOUT_S).status == 0:
        if time.monotonic() > deadline:
            raise BrokenError(
                f"{host.name}: an earlier run died, and its guard {unit} does not put the service back; see "
                f"journalctl -u {unit}"
            )
        time.sleep(0.2)
