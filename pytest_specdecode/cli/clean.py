"""``specdecode clean``: the clean room alone. What it stops stays stopped."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Callable, Iterator

from ..cleanroom import CleanProof
from ..errors import ConfigError, HostError, SpecDecodeError
from ..hosts.lease import FREE_AFTER_S, ask
from ..planning import clean_up_lines
from ..report.text import duration
from ..run import Run
from ..units import seconds
from .project import Project, add_files, open_run, progress, say_lines, secrets_of


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", nargs="?", metavar="TARGET", help="needed where there are several")
    parser.add_argument(
        "--plan", action="store_true", help="say what would be stopped and killed; touch nothing"
    )
    parser.add_argument(
        "--wait-lease",
        "--spec-wait-lease",
        metavar="DURATION",
        type=_duration,
        default=0.0,
        help="wait so long for a host that a run holds, such as 10min (default: not at all)",
    )
    add_files(parser)


def _duration(text: str) -> float:
    try:
        return float(seconds(text))
    except ConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def run(args: argparse.Namespace) -> int:
    project = Project.of(args)
    target = project.target(args.target, make=False)
    if target.service.external:
        raise ConfigError(f"target {target.name} is external: nothing of it is ours to stop or kill")
    shown = progress()
    room = open_run(target, project, shown.say)
    if args.plan:
        try:
            say_lines(clean_up_lines(room), secrets_of(target))
        finally:
            room.venue.close()
        return 0
    say_lines(_clean(room, args.wait_lease, shown.clear), secrets_of(target))
    return 0


def _clean(room: Run, wait_s: float, quiet: Callable[[], None]) -> list[str]:
    """Clean, and what there is to say of it. Interrupted, the service is put back as it was found.

    :raises CaseError: what is left, or why nothing was done; the service is then left as it is.
    """
    try:
        room.venue.claim(room.service, wait_s=wait_s, say=room.say)
        ran = room.service.state().running
        proof = room.clean()
    except SpecDecodeError:
        quiet()
        say_lines([_as_it_is(room)])
        _leave(room)
        raise
    except BaseException:
        quiet()
        room.close()
        raise
    quiet()
    return [*proof_lines(room, proof), _left(room, ran)]


def _left(room: Run, ran: bool) -> str:
    """Give the machine back; how the service is left."""
    name = room.target.service.systemd or "the service"
    if not _leave(room):
        guard_s = duration(float(room.target.service.guard_after))
        return f"the lease could not be freed: the guard there may put {name} back within {guard_s}"
    if ran:
        return f"{name} was running and is left stopped: starting it again is yours to do"
    return f"{name} was not running, and is left so"


def proof_lines(room: Run, proof: CleanProof) -> Iterator[str]:
    yield f"{room.target.name} on {room.host.name}: clean after {duration(proof.seconds)}"
    yield from (f"  {clause}" for clause in proof.proven)
    if proof.killed:
        yield f"  signalled: pid {', '.join(map(str, proof.killed))}"
    yield from (f"  note: {note}" for note in proof.notes)


def _as_it_is(room: Run) -> str:
    try:
        state = room.service.state()
    except SpecDecodeError as error:
        return f"not clean; how the service is cannot be seen: {error}"
    return f"not clean; the service is left as it is now: {'running' if state.running else 'not running'}"


def _leave(room: Run) -> bool:
    """Give the machine back without putting the service back; whether that is known to have worked.

    The guard ends by itself once the lease is freed.
    """
    lease, freed = room.host.lease, True
    if lease.taken:
        lease.release(as_it_is=True)
        freed = False
        with contextlib.suppress(HostError):
            holder = ask(room.host, "peek", f"{FREE_AFTER_S:g}").holder
            freed = holder is None or holder.who.get("pid") != os.getpid()
    room.venue.close()
    return freed
