"""What must stay true of Qwen3.5-122B-A10B with speculative decoding."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pytest_specdecode.measurement import Baseline, Measurement
    from pytest_specdecode.sweep import Sweep


@pytest.mark.speculative(steps=[1, 2, 3])
@pytest.mark.concurrency(1, 4, 16, 32, 64)
def test_no_slower_than_baseline(measurement: Measurement, baseline: Baseline) -> None:
    assert measurement >= baseline


@pytest.mark.speculative(steps=2)
@pytest.mark.concurrency(1)
def test_single_request_floor(measurement: Measurement) -> None:
    assert measurement.tok_s >= 180


def test_crossover(sweep: Sweep) -> None:
    """Runs last, over all that this session measured."""
    assert sweep.best(concurrency=1).steps == 2
