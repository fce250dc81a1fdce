"""What is started: the unit or command, its program, and the flags of each configuration."""

from __future__ import annotations

import shlex

from ..hosts.redaction import redact
from .patient import Looked, Patient, ok, warning, wrong

_SHOWN = 140


def unit(p: Patient) -> Looked:
    """It exists, and its command can be rewritten."""
    run, table = p.run, p.target.service
    if not run.service.managed:
        count = len(p.target.steps)
        if count > 1:
            yield wrong(f"external, so it runs one configuration; steps has {count}: keep the one that runs")
        else:
            yield ok("external: measured as it runs, never stopped or started")
        return
    if run.launch.nodes > 1:
        yield wrong("an engine over several nodes is not supported")
        return
    own = getattr(run.service, "own_command", None)
    argv = own() if own is not None else run.service.command((), run.fixed_port() or 0)
    state = "runs now" if p.running else "does not run now"
    name = table.systemd or run.service.kind
    yield ok(f"{name} {state}, and can be given flags: {_short(argv)}")
    if getattr(run.service, "left_changed", False):
        yield warning(f"{name} still has the drop-in of a run that died; the next run, or clean, removes it")


def program(p: Patient) -> Looked:
    """The engine's program answers ``--help``, which says how its flags are spelled."""
    answer = p.run.help()
    if answer is None:
        yield ok(f"the command of {p.run.service.kind} is not known; flags are spelled as the latest does")
        return
    shown = _short(answer.argv)
    if answer.status == 127:
        yield wrong(f"`{shown}`: no such program: {answer.stderr.strip()[-200:]}")
    elif answer.status != 0 or not answer.stdout + answer.stderr:
        last = (answer.stderr or answer.stdout).strip().splitlines()[-1:]
        said = last[0][-200:] if last else "it says nothing"
        yield wrong(f"`{shown}` ends with status {answer.status}: {said}; run it there by hand")
    else:
        yield ok(f"`{shown}` answers")


def flags(p: Patient) -> Looked:
    """Each configured step can be said in the engine's words."""
    if not p.run.service.managed:
        yield ok("external: what it runs is read back from the engine")
        return
    for config in p.configs:
        name = "off" if config.off else f"steps={config.steps}"
        if config.steps and config.algorithm is None:
            yield wrong(f"{name}: neither speculation.algorithm nor the launch command names an algorithm")
            continue
        words = p.run.flags(config)
        p.run.service.command(words, p.run.fixed_port() or 0)
        yield ok(f"{name}: {_short(words) or 'no speculation flags'}")


def _short(argv: tuple[str, ...]) -> str:
    text = shlex.join(redact(argv))
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
