"""The load's side: prompts, and whether this machine can carry the client."""

from __future__ import annotations

from ..load import eventloop
from ..load.headroom import cores_for_client
from ..load.requests import check_workload
from .patient import Looked, Patient, ok, warning


def prompts(p: Patient) -> Looked:
    """They can be read, and make a load."""
    workload = p.target.workload
    check_workload(workload, p.folder, p.target.concurrency)
    yield ok(workload.prompts)


def capacity(p: Patient) -> Looked:
    """Cores for client processes, and how much an event costs."""
    cores = cores_for_client(engine_here=p.target.host.ssh is None and not p.elsewhere)
    wanted = p.target.workload.client_processes
    loop = eventloop.name()
    hint = '; pip install "pytest-specdecode[fast]" makes events cheaper' if loop == "asyncio" else ""
    have = f"{cores} core{'s' * (cores != 1)} for the client (client_processes = {wanted})"
    if isinstance(wanted, int) and wanted > cores:
        yield warning(f"{have}: its processes would measure each other; lower workload.client_processes")
    else:
        yield ok(f"{have}, event loop of {loop}{hint}")
