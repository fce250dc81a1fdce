"""Which ExecStart lines can be rewritten safely. Decides, asks nobody."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ..errors import ConfigError
from ..hosts.redaction import redact_text
from .execstart import ExecStart, quote, variables

_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ash", "ksh", "fish", "busybox"})
_CONTAINERS = frozenset({"docker", "podman", "nerdctl", "kubectl", "srun", "sbatch"})
Strip = Callable[[Sequence[str]], tuple[str, ...]]
"""A launch command without its speculation flags."""


def advice(unit: str) -> str:
    return (
        'say what to run instead: [target.….service] exec = ["python3", "-m", "…", "{flags}"] (the command '
        f"that {unit} runs in the end, with the flags it always has)"
    )


def sole(unit: str, lines: Sequence[ExecStart]) -> ExecStart:
    """The one command of the unit.

    :raises ConfigError: when there is none, or several.
    """
    if len(lines) != 1:
        raise ConfigError(
            f"{unit} has {len(lines)} ExecStart lines, so it is unclear which one takes the flags; "
            f"{advice(unit)}"
        )
    return lines[0]


def check_program(unit: str, line: ExecStart, shebang: str) -> None:
    """Refuse what would not hand the flags on. ``shebang``: the first line of the program, as far as it is
    text.

    :raises ConfigError: for shells, shell scripts and container clients.
    """
    name = line.path.rpartition("/")[2]
    words = [name, *line.argv[1:]]
    if name == "env":
        words = [w for w in line.argv[1:] if "=" not in w and not w.startswith("-")] or words
        name = words[0].rpartition("/")[2]
    if name in _SHELLS:
        what = "a shell line" if "-c" in words[:4] else "a shell script"
        raise ConfigError(
            f"{unit} starts {what} ({str(line)[:200]}), whose flags cannot be rewritten "
            f"safely; {advice(unit)}"
        )
    if name in _CONTAINERS:
        raise ConfigError(
            f"{unit} starts {name}, and what it launches is not in the unit's cgroup; use service.start and "
            "service.stop instead of service.systemd"
        )
    interpreter = shebang.removeprefix("#!").split()[:3] if shebang.startswith("#!") else []
    if any(part.rpartition("/")[2] in _SHELLS for part in interpreter):
        raise ConfigError(
            f"{unit} starts {line.path}, a wrapper script ({shebang.strip()}), whose flags cannot be "
            f"rewritten "
            f"safely; {advice(unit)}"
        )


def check_variables(unit: str, line: ExecStart, environment: Mapping[str, str], strip: Strip) -> None:
    """Refuse variables that bring speculation flags of their own.

    :raises ConfigError: naming the variable.
    """
    if not line.expands:
        return
    for name in variables(strip(line.argv)):
        words = tuple(environment.get(name, "").split())
        if words and tuple(strip((line.argv[0], *words))) != (line.argv[0], *words):
            raise ConfigError(
                f"{unit} takes speculation flags from the variable ${name} "
                f"({redact_text(environment[name])[:200]}), "
                f"where they cannot be "
                f"rewritten safely; take them out of it, or {advice(unit)}"
            )


def dropin_text(line: ExecStart, env: Mapping[str, str] | None = None) -> str:
    """The runtime drop-in: what is run, no restarts behind our back, no limit on starts."""
    settings = "".join(f"Environment={quote(f'{name}={value}')}\n" for name, value in (env or {}).items())
    return (
        "# Written by pytest-specdecode for a benchmark; removed when that ends.\n"
        "[Unit]\nStartLimitIntervalSec=0\n"
        f"[Service]\nExecStart=\nExecStart={line.line()}\nRestart=no\n{settings}"
    )
