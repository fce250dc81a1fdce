"""Wiring only. Without a benchmark session nothing heavy is imported."""

from __future__ import annotations

from collections.abc import Generator
from typing import Final

import pytest

from . import fixtures, hookspecs
from .marker_help import DOCS
from .options import Settings, add_options, add_short_option

BENCHMARK: Final = "spec_target"
SETTINGS = pytest.StashKey[Settings]()

spec_target = fixtures.spec_target
spec_host = fixtures.spec_host
spec_config = fixtures.spec_config
_spec_restart = fixtures._spec_restart
_spec_concurrency = fixtures._spec_concurrency
clean_environment = fixtures.clean_environment
spec_server = fixtures.spec_server
measurement = fixtures.measurement
_spec_gated = fixtures._spec_gated
baseline = fixtures.baseline
_spec_sweep = fixtures._spec_sweep
sweep = fixtures.sweep


def pytest_addhooks(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.add_hookspecs(hookspecs)


def pytest_addoption(parser: pytest.Parser) -> None:
    add_options(parser)


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(parser: pytest.Parser) -> Generator[None, None, None]:
    yield
    add_short_option(parser)  # after the conftests, so that one of theirs by that name stays


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config: pytest.Config) -> None:
    """A worker of pytest-xdist that crashed is not replaced: its host may not be as it was found."""
    if hasattr(config.option, "maxworkerrestart") and Settings.from_config(config).benchmark_session:
        config.option.maxworkerrestart = "0"


@pytest.hookimpl(optionalhook=True, tryfirst=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int | None:
    """``-n auto`` in a benchmark session: one worker a host."""
    settings = Settings.from_config(config)
    if not settings.benchmark_session:
        return None
    from .opening import pool_size  # noqa: PLC0415

    return pool_size(config, settings)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    for doc in DOCS.values():
        config.addinivalue_line("markers", doc)
    entries = (
        fixtures.BenchmarkEntries
        if config.pluginmanager.hasplugin("benchmark")
        else fixtures.NoBenchmarkEntries
    )
    config.pluginmanager.register(entries(), "specdecode-entries")
    settings = config.stash[SETTINGS] = Settings.from_config(config)
    if settings.benchmark_session:
        from .session import BenchmarkSession  # noqa: PLC0415

        config.pluginmanager.register(BenchmarkSession.open(config, settings), "specdecode-session")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    settings = item.config.stash[SETTINGS]
    if not settings.benchmark_session and BENCHMARK in getattr(item, "fixturenames", ()):
        pytest.skip("benchmark: pass --spec-steps")
