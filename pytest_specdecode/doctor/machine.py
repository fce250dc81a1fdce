"""The roads into the machine, and what it is."""

from __future__ import annotations

from ..hosts import CommandResult
from ..hosts.scan import identify
from ..machine import Facts, hardware
from .patient import Looked, Patient, ok, some, warning, wrong

_TIMEOUT_S = 20.0
_OLDEST_PYTHON = (3, 9)
_PRINT_VERSION = "import sys; print(*sys.version_info[:2])"


def road(p: Patient) -> Looked:
    """The machine answers over its own road."""
    own = p.run.host.own
    took = own.run(["true"], timeout=_TIMEOUT_S)
    if p.target.host.ssh is None:
        yield ok("this machine")
    elif took.status != 0:
        yield wrong(f"{own.name} answers, and cannot run `true` (status {took.status}): {_said(took)}")
    else:
        yield ok(f"{own.name} answers over SSH, and its host key is the known one")


def root(p: Patient) -> Looked:
    """What needs root there can be done."""
    host, table = p.run.host, p.target
    user = host.own.run(["id", "-un"], timeout=_TIMEOUT_S).stdout.strip()
    uid = host.root.run(["id", "-u"], timeout=_TIMEOUT_S).stdout.strip()
    if uid == "0":
        yield ok(f"sudo -n works for {user}" if table.host.sudo else f"{user} there")
    elif table.service.systemd and not table.service.user:
        yield wrong(
            f"{user} there may not move a system unit; set host.sudo = true, log in as root, or say "
            "service.user = true if it is a unit of that user"
        )
    elif p.run.venue.site is not None and p.run.service.managed:
        yield warning(
            f"{user} there cannot look into other users' processes: proofs are partial; set host.sudo = true"
        )
    else:
        yield ok(f"{user} there; nothing of this target needs root")


def python(p: Patient) -> Looked:
    """A Python for the questions that we bring along."""
    host = p.run.host.root
    answer = host.run([host.python, "-c", _PRINT_VERSION], timeout=_TIMEOUT_S)
    words = answer.stdout.split()
    needed = ".".join(map(str, _OLDEST_PYTHON))
    if answer.status != 0 or len(words) != 2 or not all(word.isdigit() for word in words):
        yield wrong(f"{host.python} does not work there: {_said(answer)}; install Python {needed} or newer")
    elif (int(words[0]), int(words[1])) < _OLDEST_PYTHON:
        yield wrong(f"{host.python} there is {'.'.join(words)}; {needed} or newer is needed")
    else:
        yield ok(f"{host.python} is {'.'.join(words)}")


def hypervisor(p: Patient) -> Looked:
    """The second road, and that it leads to the same machine."""
    host, table = p.run.host, p.target.hypervisor
    if table is None or host.hypervisor is None or host.back is None:
        yield ok("none is configured; signals take the machine's own road")
        return
    host.hypervisor.run(["true"], timeout=_TIMEOUT_S)
    host.trusted_back()
    proven = f"{host.back.name} is the host (boot id and PID namespace agree)"
    if table.machine_id is not None:
        yield ok(f"{proven}, and has the pinned machine id")
        return
    there = identify(host.back).machine_id
    yield ok(f'{proven}; to kill also while its SSH is down: hypervisor.machine_id = "{there}"')


def gpus(p: Patient) -> Looked:
    """What nvidia-smi says."""
    if p.elsewhere:
        if p.target.machine is None:
            yield wrong(f'{p.target.url} is another machine; name it: machine = "…"')
        else:
            yield ok(f"{p.target.machine}, another machine that is not asked")
        return
    facts = p.run.facts
    if facts.gpu_problem:
        yield wrong(f"{facts.gpu_problem}; baselines depend on the GPUs: repair it first")
    elif facts.gpus:
        yield ok(_described(facts, p.run.machine))
    else:
        yield ok(f"nvidia-smi tells of none; {hardware(facts)}, called {p.run.machine} in baselines")


def _described(facts: Facts, name: str) -> str:
    drivers = some(sorted({gpu.driver for gpu in facts.gpus}))
    memory = {gpu.memory_mib for gpu in facts.gpus if gpu.memory_mib}
    each = f", {some(sorted(memory))} MiB each" if memory else ""
    return f"{hardware(facts)}, driver {drivers}{each}, called {name} in baselines"


def _said(answer: CommandResult) -> str:
    return (answer.stderr or answer.stdout).strip()[-200:] or f"status {answer.status}"
