"""What tests ask for: spec_target → spec_host → clean_environment → spec_server → measurement."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

import pytest

from .state_key import STATE

if TYPE_CHECKING:
    from .cleanroom import CleanProof
    from .config import Target
    from .hosts import Host
    from .measurement import Baseline, Measurement
    from .model import SpecConfig
    from .server import Server
    from .sweep import Sweep


@pytest.fixture(scope="session")
def spec_target(pytestconfig: pytest.Config) -> Target:
    """The target of this session: what is measured. A test with this fixture is a benchmark."""
    return pytestconfig.stash[STATE].run.target


@pytest.fixture(scope="session")
def spec_host(pytestconfig: pytest.Config, spec_target: Target) -> Host:
    """The machine that the engine runs on; every command through it is in the audit trail."""
    return pytestconfig.stash[STATE].run.host


@pytest.fixture(scope="session")
def spec_config(request: pytest.FixtureRequest, spec_target: Target) -> SpecConfig:
    """The speculation settings under test."""
    return cast("SpecConfig", request.param)


@pytest.fixture(scope="session")
def _spec_restart(request: pytest.FixtureRequest, spec_target: Target) -> int:
    return cast("int", request.param)


@pytest.fixture
def _spec_concurrency(request: pytest.FixtureRequest, spec_target: Target) -> int:
    return cast("int", request.param)


@pytest.fixture(scope="session")
def clean_environment(
    pytestconfig: pytest.Config, spec_host: Host, spec_config: SpecConfig, _spec_restart: int
) -> CleanProof:
    """Proof that nothing of an earlier server is left: what was checked, and what had to be killed."""
    from .turns import clean  # noqa: PLC0415  (kept out of sessions that run no benchmark)

    return clean(pytestconfig.stash[STATE], spec_config, _spec_restart)


@pytest.fixture(scope="session")
def spec_server(
    pytestconfig: pytest.Config, clean_environment: CleanProof, spec_config: SpecConfig, _spec_restart: int
) -> Iterator[Server]:
    """The engine, ready and known to run ``spec_config``; one start per configuration and restart.

    ``.url``, ``.config``, ``.settings`` (as the engine reports them), ``.counters()``, ``.log_tail()``.
    """
    from .turns import serve  # noqa: PLC0415

    state = pytestconfig.stash[STATE]
    yield serve(state, spec_config, _spec_restart)
    state.run.stop()


@pytest.fixture
def measurement(
    request: pytest.FixtureRequest,
    pytestconfig: pytest.Config,
    spec_server: Server,
    _spec_concurrency: int,
    _spec_benchmark: Any,
) -> Measurement:
    """The case, measured: ``.tok_s`` and all other metrics, ``.config``, ``.concurrency``, ``.rounds``."""
    from .trials import conduct  # noqa: PLC0415  (kept out of sessions that run no benchmark)

    return conduct(pytestconfig.stash[STATE], request.node, spec_server, _spec_benchmark)


@pytest.fixture
def _spec_gated(measurement: Measurement) -> Measurement:
    """Marks tests that ask for this plugin's ``baseline``: they get the restart axis and a gate."""
    return measurement


@pytest.fixture
def baseline(pytestconfig: pytest.Config, _spec_gated: Measurement) -> Baseline:
    """The case's stored numbers, for ``assert measurement >= baseline``."""
    from .measurement import Baseline  # noqa: PLC0415

    return Baseline(_spec_gated.case, pytestconfig.stash[STATE].stored(_spec_gated.case))


@pytest.fixture
def _spec_sweep(spec_target: Target) -> None:
    """Marks tests that ask for this plugin's ``sweep``: they run last."""


@pytest.fixture
def sweep(pytestconfig: pytest.Config, _spec_sweep: None) -> Sweep:
    """All cases of this session together: ``.best(concurrency=…)``, ``.ratio(…)``."""
    from .sweep import Sweep  # noqa: PLC0415

    state = pytestconfig.stash[STATE]
    return Sweep(state.ledger, state.plan, state.elsewhere)


class BenchmarkEntries:
    """Registered where pytest-benchmark is: each measured case gets an entry of its own there."""

    @pytest.fixture
    def _spec_benchmark(self, benchmark: Any) -> Any:
        return benchmark


class NoBenchmarkEntries:
    """Registered where pytest-benchmark is switched off."""

    @pytest.fixture
    def _spec_benchmark(self) -> None:
        return None
