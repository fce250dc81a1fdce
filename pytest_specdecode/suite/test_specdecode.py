"""For those who write no test: every configuration and concurrency of the target, against its baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytest_specdecode.measurement import Baseline, Measurement


def test_no_slower_than_baseline(measurement: Measurement, baseline: Baseline) -> None:
    assert measurement >= baseline
