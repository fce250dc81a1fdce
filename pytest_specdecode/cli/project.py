"""What the subcommands share: where a project's files are, and a target's run without pytest around it."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..config import Target, load_targets
from ..errors import ConfigError
from ..hosts.redaction import redact_text
from ..hosts.registry import make_host
from ..ledger import Ledger
from ..report.progress import Progress
from ..run import Run

FILE: Final = "specdecode.toml"


@dataclass(frozen=True, slots=True)
class Project:
    """``file`` None: there is no configuration file, and the target is the embedded one."""

    folder: Path
    file: Path | None
    baselines: Path

    @classmethod
    def of(cls, args: argparse.Namespace) -> Project:
        """The one that ``--config`` names, else the nearest folder upwards that has a specdecode.toml."""
        here = Path.cwd()
        file = Path(args.config).absolute() if args.config else _nearest(here)
        folder = file.parent if file is not None else here
        return cls(folder, file, Path(args.baselines) if args.baselines else folder / "baselines")

    @property
    def shown(self) -> str:
        return str(self.file) if self.file else f"no {FILE} in {self.folder} or above: the embedded target"

    def target(self, name: str | None, *, make: bool = True) -> Target:
        """The target called ``name``; the only one, where there is one.

        :param make: whether the embedded target's model is made where it is missing
        :raises ConfigError: when the file cannot be used, or does not say which.
        """
        if self.file is None:
            return self._embedded(name, make)
        targets = load_targets(self.file)
        if name is None and len(targets) > 1:
            raise ConfigError(f"{self.file} has several targets; name one of: {', '.join(targets)}")
        if name is not None and name not in targets:
            raise ConfigError(f"{self.file} has no target {name!r}; it has: {', '.join(targets)}")
        return targets[name] if name is not None else next(iter(targets.values()))

    def _embedded(self, name: str | None, make: bool) -> Target:
        from ..embedded import NAME, embedded_target  # noqa: PLC0415  (needs the demo extra)

        if name not in (None, NAME):
            raise ConfigError(
                f"there is no target {name!r}: no {FILE} in {self.folder} or above, only the embedded target "
                f"{NAME!r}; name a file with --config"
            )
        return embedded_target(make=make)


def _nearest(here: Path) -> Path | None:
    return next((file for folder in (here, *here.parents) if (file := folder / FILE).is_file()), None)


def add_files(parser: argparse.ArgumentParser) -> None:
    """``--config`` and ``--baselines``."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        help=f"configuration file (default: {FILE} here or in the nearest folder above; else the embedded "
        "CPU target). Defaults in pytest's ini file are not read",
    )
    parser.add_argument(
        "--baselines", metavar="DIR", help="folder of the stored baselines (default: baselines/ beside it)"
    )


def open_run(target: Target, project: Project, say: Callable[[str], None]) -> Run:
    """The target's run; nothing connects yet. The caller closes it."""
    ledger = Ledger()
    return Run(target, ledger, host=make_host(target, ledger.add), folder=project.folder, say=say)


def say_lines(lines: Iterable[str], secrets: Iterable[str] = ()) -> None:
    """Lines for a person, free of what looks like a secret and of ``secrets``."""
    hidden = tuple(secrets)
    for line in lines:
        sys.stdout.write(f"{redact_text(line, hidden)}\n")
    sys.stdout.flush()


def progress() -> Progress:
    """Where a command says what it is doing: on stderr, so that its result can be piped."""
    return Progress(_write_now, live=sys.stderr.isatty(), width=lambda: shutil.get_terminal_size().columns)


def _write_now(text: str) -> None:
    sys.stderr.write(redact_text(text))
    sys.stderr.flush()


def secrets_of(target: Target) -> tuple[str, ...]:
    """Values that must never be shown."""
    value = os.environ.get(target.api_key_env) if target.api_key_env else None
    return (value,) if value else ()
