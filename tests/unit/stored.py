"""Starts, cases and files to test baselines with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from pytest_specdecode.baselinefile import (
    BaselineFile,
    StoredCase,
    StoredConfig,
    StoredSession,
    StoredStart,
    file_path,
    write_file,
)
from pytest_specdecode.gating import Gate
from pytest_specdecode.model import Case, CaseStart, Round, SpecConfig

TARGET, MACHINE = "qwen", "rack7"
IDENTITY: dict[str, Any] = {
    "gpu": {"model": "RTX PRO 6000", "count": 4},
    "launch": ["--tp", "4"],
    "mig": None,
}
CONTEXT: dict[str, Any] = {
    "date": "2026-11-02",
    "driver": "580",
    "engine": "sglang",
    "engine_version": "0.5.22",
}
GATE = Gate(("tok_s",), tolerance=0.05, margin=0.01, confidence=0.99)


def case(steps: int = 2, concurrency: int = 16) -> Case:
    return Case(TARGET, SpecConfig.of(steps, algorithm="EAGLE"), concurrency)


def measured(
    speed: float, number: int = 3, *, night: str = "n", reasons: Sequence[str] = ()
) -> list[CaseStart]:
    """``number`` starts around ``speed`` tok/s that differ a little, five rounds each."""
    return [
        CaseStart(
            f"{night}-{i}",
            tuple(
                Round(
                    {"tok_s": speed * (1 + 0.002 * (i % 3) + 0.001 * r), "step_ms": 20.0}, 1.0, tuple(reasons)
                )
                for r in range(5)
            ),
        )
        for i in range(number)
    ]


def stored(
    of: Case, speed: float | None = 100.0, *, identity: dict[str, Any] | None = None, **more: Any
) -> StoredCase:
    """A recorded case; ``speed`` None: nothing but what ``more`` says."""
    if speed is None:
        return StoredCase(config=StoredConfig.of(of.config), concurrency=of.concurrency, **more)
    starts = [
        StoredStart(id=s.start_id, rounds=[dict(r.metrics) for r in s.rounds])
        for s in measured(speed, night="stored")
    ]
    return StoredCase(
        config=StoredConfig.of(of.config),
        concurrency=of.concurrency,
        identity=IDENTITY if identity is None else identity,
        sessions=[StoredSession(context=CONTEXT, starts=starts)],
        **more,
    )


def save(folder: Path, cases: Iterable[StoredCase], *, machine: str = MACHINE) -> Path:
    path = file_path(folder, TARGET, machine)
    write_file(path, BaselineFile(schema=1, target=TARGET, machine=machine, cases=list(cases)))
    return path
