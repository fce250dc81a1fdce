"""Who is on the machine: holders of its devices, its memory, its port, and other runs."""

from __future__ import annotations

from ..cleanroom import fuser
from ..hosts.lease import FREE_AFTER_S, ask
from ..hosts.processes import port_use
from .patient import Looked, Patient, ok, some, warning, wrong

OWN = "a machine of our own, without devices: only what runs have started is looked at"


def devices(p: Patient) -> Looked:
    """The device files are there."""
    site = p.run.venue.site
    if site is None or not p.run.service.managed:
        yield ok(OWN if p.run.service.managed else "external: nothing is freed or proven")
        return
    scan, patterns = site.scanner.look(), list(p.target.cleanup.devices)
    if not scan.devices:
        if p.run.facts.gpus:
            yield wrong(f"no device matches cleanup.devices = {patterns}: holders of the GPUs cannot be seen")
        else:
            yield ok(f"none matches cleanup.devices = {patterns}, and there is no GPU")
        return
    yield ok(some(scan.devices, 8))
    if fuser.ask(p.run.host, scan.devices) is None:
        yield warning("fuser is not installed there (psmisc): the look over /proc alone decides")
    if not scan.root or scan.unreadable:
        yield warning(f"{scan.unreadable} processes of others cannot be looked into: proofs are partial")


def holders(p: Patient) -> Looked:
    """Who holds the devices, and what a run would do with them."""
    site = p.run.venue.site
    if site is None or not p.run.service.managed:
        yield ok("none is looked for")
        return
    p.know_service()
    found = site.sorted(p.run.service)
    policy = f"cleanup.kill = {list(site.policy.kill)}"
    if found.kill:
        others = not p.running or set(site.policy.kill) - {"service"}
        say = warning if others else ok
        yield say(f"a run would kill, as {policy} says: {some(found.kill)}")
    if found.allowed:
        yield ok(f"allowed to hold devices: {some(found.allowed)}")
    if found.foreign:
        yield wrong(
            f"would make the environment dirty, since {policy} does not name them: {some(found.foreign)}; "
            "end them, or say that they may be killed (cleanup.kill) or stay (cleanup.protect)"
        )
    if not (found.kill or found.allowed or found.foreign):
        yield ok(f"nobody; nothing would be killed ({policy})")


def memory(p: Patient) -> Looked:
    """GPU memory can be read, and is free where nothing of ours runs."""
    site = p.run.venue.site
    if site is None or not p.run.service.managed or not p.run.facts.gpus:
        yield ok("no GPU memory is looked at")
        return
    used = site.memory()
    if used and not p.running:
        yield wrong(f"{some(used)}, and the service does not run: end who holds it")
    else:
        yield ok("in use while the service runs" if used else "free")


def lease(p: Patient) -> Looked:
    """No other run is on the machine."""
    if p.run.venue.site is None or not p.run.service.managed:
        yield ok("none is needed")
        return
    holder = ask(p.run.host, "peek", f"{FREE_AFTER_S:g}").holder
    if holder is None:
        yield ok("free")
    else:
        yield wrong(f"in use by {holder}; wait for it with --spec-wait-lease=10min")


def port(p: Patient) -> Looked:
    """It is closed, or the service's own."""
    number = p.run.fixed_port()
    if number is None:
        yield ok("a free one is taken at each start")
    elif p.elsewhere:
        yield ok(f"{number}, on another machine that is not asked")
    else:
        use = port_use(p.run.host, number)
        if use.closed:
            yield ok(f"{number} is closed")
        elif p.running or not p.run.service.managed:
            yield ok(f"{number} is held by {use}")
        else:
            yield wrong(f"{number} is held by {use}, and the service does not run; stop that, or change url")
