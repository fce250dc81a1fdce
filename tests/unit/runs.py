"""A run's report as plain data, made from a ledger as a session makes it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pytest_specdecode.ledger import CaseMeasured, CommandRecord, Ledger, TargetRecord, TestRecord
from pytest_specdecode.model import Case, CaseStart, Outcome, Round, ServerStart, SpecConfig
from pytest_specdecode.report.compare import bounder, comparer
from pytest_specdecode.report.grid import grid
from pytest_specdecode.report.jsonfile import report
from pytest_specdecode.verdict import Verdict

ABOUT = {"hardware": "4 × RTX PRO 6000", "engine": "sglang 0.5.23", "workload": "output 512 tok"}
WHY = {
    "cause": "tokens",
    "time_per_token": 1.18,
    "tokens_per_step": {"ratio": 0.85, "low": 0.83, "high": 0.87, "change": "worse"},
    "step_ms": {"ratio": 1.004, "low": 0.99, "high": 1.02, "change": "unchanged"},
    "changes": ["sglang 0.5.22 → 0.5.23", "driver 580 → 590"],
}
LOG = 'last log lines:\n  <script>alert("x")</script> & \x1b[31mred'


def config(steps: int) -> SpecConfig:
    return SpecConfig.of(steps, algorithm="EAGLE")


def ledger(
    steps: Sequence[int] = (1, 2, 3),
    levels: Sequence[int] = (1, 4, 16),
    *,
    starts: int = 2,
    rounds: int = 3,
    commands: int = 20,
    target: str = "qwen",
) -> Ledger:
    """All cases pass but two: with the most steps, 16 requests together are slower and 4 broke the engine."""
    found = Ledger(seconds=2460.0)
    found.add(
        TargetRecord(target, "4x-rtx-pro-6000", {"gpu": "x"}, {"date": "2026-11-30T00:00:00+00:00"}, ABOUT)
    )
    for s in steps:
        for r in range(1, starts + 1):
            at = f"2026-11-30T0{(s * starts + r) % 10}:00:00+00:00"
            found.add(
                ServerStart(f"s{s}-{r}", target, config(s), r, at, 412.0, "0.5.23", {"a": 1}, ("serve",))
            )
    for s in steps:
        for level in levels:
            _case(found, Case(target, config(s), level), starts, rounds, last=s == steps[-1])
    found.add(
        TestRecord("test_q.py::test_crossover", target, Outcome.MEASURED, failed=True, reason="assert 2 == 3")
    )
    for i in range(commands):
        at = f"2026-11-30T0{i % 10}:00:{i % 60:02d}.000+00:00"
        killed = (4242,) if i == 7 else ()
        found.add(
            CommandRecord(at, "rack7", ("kill", "-s", "TERM", str(i)), 0, 0.08, LOG if i == 3 else "", killed)
        )
    return found


def _case(found: Ledger, case: Case, starts: int, rounds: int, *, last: bool) -> None:
    speed = 123.0 * (1 + 0.3 * case.config.steps) / (1 + 0.02 * case.concurrency)
    for r in range(1, starts + 1):
        made = [
            Round(
                {
                    "tok_s": speed * (1 + 0.002 * r + 0.001 * i),
                    "total_tok_s": speed * case.concurrency * 0.9,
                    "tokens_per_step": 1 + 0.5 * case.config.steps,
                    "step_ms": 1000 * (1 + 0.5 * case.config.steps) / speed,
                    **{f"accept_rate_pos_{p}": 0.8 / (p + 1) for p in range(case.config.steps)},
                },
                9.0,
            )
            for i in range(rounds)
        ]
        found.add(CaseMeasured(case, CaseStart(f"s{case.config.steps}-{r}", tuple(made), {"warmup_s": 4.0})))
    regressed = last and case.concurrency == 16
    outcome = (
        Outcome.REGRESSED if regressed else Outcome.BROKEN if last and case.concurrency == 4 else Outcome.PASS
    )
    ratio = 0.85 if regressed else 1.004
    word = "regressed" if regressed else "pass"
    verdict = Verdict(word, ratio, ratio - 0.01, ratio + 0.01, regressed, "shown so")  # type: ignore[arg-type]
    found.add(
        TestRecord(
            "test_q.py::test_gate",
            case.target,
            outcome,
            case.config,
            case.concurrency,
            starts,
            LOG if outcome is Outcome.BROKEN else "",
            {} if outcome is Outcome.BROKEN else {"tok_s": asdict(verdict)},
            outcome is not Outcome.PASS,
            WHY if regressed else None,
            {"tok_s": speed / ratio, "tokens_per_step": 2.9, "step_ms": 16.0},
            12,
        )
    )


def plain(found: Ledger, target: str = "qwen") -> dict[str, Any]:
    """The report as a file gives it back."""
    cases = found.cases
    grids = [
        grid(cases, name, compare=comparer(cases, name), bounds=bounder(cases, name))
        for name in ("tok_s", "total_tok_s")
    ]
    made = report(found, target=target, machine="", grids=grids, args=["--spec-steps=1-3"])
    content: dict[str, Any] = json.loads(json.dumps(made))
    return content
