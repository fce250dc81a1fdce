"""From settings to a session's state: target, baselines, run; every check that needs no collection."""

from __future__ import annotations

from pathlib import Path

import pytest

from .baselines import Store, check_writable
from .config import Target, load_targets
from .errors import BaselineError, ConfigError
from .hosts.registry import make_host
from .ledger import Ledger
from .options import Settings
from .run import Run
from .speaking import speaker
from .state import State


def open_state(config: pytest.Config, settings: Settings) -> State:
    """The state of a benchmark session. Nothing is started, stopped or asked of a machine yet.

    :raises pytest.UsageError: naming what cannot be used and what to do.
    """
    _refuse_options(config)
    try:
        target = _target(config, settings)
        if settings.record:
            check_writable(settings.baselines_dir)
        store = Store(settings.baselines_dir, target.name)
        ledger = Ledger()
        run = Run(
            target, ledger, host=make_host(target, ledger.add), folder=config.rootpath, say=speaker(config)
        )
    except (ConfigError, BaselineError) as error:
        raise pytest.UsageError(str(error)) from None
    _check_folder("--spec-json", settings.json_file)
    _check_folder("--spec-html", settings.html_file)
    _check_folder("--spec-markdown", settings.markdown_file)
    return State(settings, run, ledger, store)


def _refuse_options(config: pytest.Config) -> None:
    workers = config.getoption("numprocesses", None)
    if (isinstance(workers, int) and workers > 1) or len(config.getoption("tx", None) or ()) > 1:
        raise pytest.UsageError(
            f"a benchmark session runs with one worker, since several would measure each other: "
            f"-n{workers} cannot be; use -n0 or -n1"
        )
    if config.getoption("benchmark_skip", False) and not config.getoption("benchmark_only", False):
        raise pytest.UsageError("--benchmark-skip leaves nothing of a benchmark session; drop one of the two")


def _target(config: pytest.Config, settings: Settings) -> Target:
    """The one target of this session.

    :raises ConfigError: when the file cannot be used, or does not say which.
    """
    if settings.config_file is None:
        from .embedded import embedded_target  # noqa: PLC0415  (needs the demo extra)

        target = embedded_target()
        if settings.target not in (None, target.name):
            raise ConfigError(
                f"--spec-target={settings.target}: there is no specdecode.toml in {config.rootpath}, only "
                f"the embedded target {target.name!r}; name a file with --spec-config"
            )
        return target
    targets = load_targets(settings.config_file)
    names = ", ".join(targets)
    if settings.target is None:
        if len(targets) > 1:
            raise ConfigError(
                f"{settings.config_file} has several targets ({names}); choose one with --spec-target"
            )
        return next(iter(targets.values()))
    if settings.target not in targets:
        raise ConfigError(
            f"--spec-target={settings.target}: {settings.config_file} has no such target; it has: {names}"
        )
    return targets[settings.target]


def _check_folder(option: str, file: Path | None) -> None:
    if file is not None and not file.parent.is_dir():
        raise pytest.UsageError(f"{option}={file}: there is no folder {file.parent}")
