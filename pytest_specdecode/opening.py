"""From settings to a session's state: target, baselines, run; every check that needs no collection."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from .baselines import Store, check_writable
from .config import Target, load_targets
from .counterpart import refuse_pair
from .errors import BaselineError, ConfigError
from .hosts.registry import make_host
from .journal import worker_paths
from .ledger import Ledger
from .opposite import Opposite
from .options import Settings
from .pool import Place, placed
from .reference import Recorded
from .run import Run
from .speaking import Say, speaker
from .state import State
from .workers import count_of, place_of, refuse_workers


def open_state(config: pytest.Config, settings: Settings) -> State:
    """The state of a benchmark session. Nothing is started, stopped or asked of a machine yet.

    :raises pytest.UsageError: naming what cannot be used and what to do.
    """
    _refuse_options(config)
    try:
        state = _state(config, settings, place_of(config), count_of(config))
    except (ConfigError, BaselineError) as error:
        raise pytest.UsageError(str(error)) from None
    _check_folder("--spec-json", settings.json_file)
    _check_folder("--spec-html", settings.html_file)
    _check_folder("--spec-markdown", settings.markdown_file)
    return state


def _state(config: pytest.Config, settings: Settings, place: Place, count: int) -> State:
    targets = _targets(config, settings)
    _check_workers(config, settings, targets[0], count)
    target, other = (each and placed(each, place.index) for each in targets)
    assert target is not None
    ledger, say, folder = Ledger(), speaker(config), config.rootpath
    host = make_host(target, ledger.add)
    if other is None:
        if settings.record:
            check_writable(settings.baselines_dir)
        store = Store(settings.baselines_dir, target.name)
        run = Run(target, ledger, host=host, folder=folder, say=say)
        return State(settings, run, ledger, Recorded(store, run), notes=_unused(target, count), place=place)
    run, theirs = (
        Run(each, ledger, host=host, folder=folder, say=partial(_say_of, say, each.name))
        for each in (target, other)
    )
    opposite = Opposite(run, theirs, ledger, folder)
    return State(settings, run, ledger, opposite, opposite, notes=_unused(target, count), place=place)


def _unused(target: Target, count: int) -> list[str]:
    """A line on the hosts of a pool that nothing is measured on."""
    pool = target.host.pool
    if count >= len(pool):
        return []
    return [
        f"of the pool's {len(pool)} hosts only {', '.join(pool[:count])} was used; -n{len(pool)} uses all"
    ]


def _say_of(say: Say, name: str, text: str) -> None:
    say(f"{name}: {text}")


def _refuse_options(config: pytest.Config) -> None:
    if config.getoption("benchmark_skip", False) and not config.getoption("benchmark_only", False):
        raise pytest.UsageError("--benchmark-skip leaves nothing of a benchmark session; drop one of the two")


def _check_workers(config: pytest.Config, settings: Settings, target: Target, count: int) -> None:
    """:raises ConfigError: when so many workers cannot be, or none of them left a journal to resume."""
    refuse_workers(count, target)
    if count == 1:
        return
    if settings.against is not None:
        raise ConfigError(
            f"--spec-against={settings.against} measures two targets in turns on one host, and -n{count} "
            f"asks for {count}; use -n0 or -n1"
        )
    paths = worker_paths(config.rootpath, target.name, count)
    if settings.resume and not any(path.exists() for path in paths):
        raise ConfigError(
            f"--spec-resume: there is nothing to resume with -n{count}, none of "
            f"{', '.join(map(str, paths))} exists; resume with as many workers as then"
        )


def pool_size(config: pytest.Config, settings: Settings) -> int:
    """How many workers ``-n auto`` stands for: the hosts of the target's pool.

    :raises pytest.UsageError: when the target cannot be told.
    """
    try:
        return len(_targets(config, settings)[0].host.pool) or 1
    except ConfigError as error:
        raise pytest.UsageError(str(error)) from None


def _targets(config: pytest.Config, settings: Settings) -> tuple[Target, Target | None]:
    """The target of this session, and the one of ``--spec-against``.

    :raises ConfigError: when the file cannot be used, does not say which, or they cannot be compared.
    """
    if settings.config_file is None:
        if settings.against is not None:
            raise ConfigError(
                f"--spec-against={settings.against} compares two targets of a configuration file, and there "
                f"is no specdecode.toml in {config.rootpath}; write one, or name a file with --spec-config"
            )
        from .embedded import embedded_target  # noqa: PLC0415  (needs the demo extra)

        target = embedded_target()
        if settings.target not in (None, target.name):
            raise ConfigError(
                f"--spec-target={settings.target}: there is no specdecode.toml in {config.rootpath}, only "
                f"the embedded target {target.name!r}; name a file with --spec-config"
            )
        return target, None
    targets = load_targets(settings.config_file)
    names = ", ".join(targets)
    if settings.target is None:
        if len(targets) > 1:
            raise ConfigError(
                f"{settings.config_file} has several targets ({names}); choose one with --spec-target"
            )
        target = next(iter(targets.values()))
    else:
        target = _named("--spec-target", settings.target, targets, settings)
    if settings.against is None:
        return target, None
    other = _named("--spec-against", settings.against, targets, settings)
    if other.name == target.name:
        raise ConfigError(
            f"--spec-against={other.name} is the tested target itself; name another one of {names}, or give "
            "it a second table to see how much two equal targets differ"
        )
    refuse_pair(target, other)
    return target, other


def _named(option: str, name: str, targets: Mapping[str, Target], settings: Settings) -> Target:
    if name not in targets:
        raise ConfigError(
            f"{option}={name}: {settings.config_file} has no such target; it has: {', '.join(targets)}"
        )
    return targets[name]


def _check_folder(option: str, file: Path | None) -> None:
    if file is not None and not file.parent.is_dir():
        raise pytest.UsageError(f"{option}={file}: there is no folder {file.parent}")
