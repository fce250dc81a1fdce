"""The whole way: SGLang started, checked, measured, recorded and judged by pytest.

How fast the stand-ins are means nothing, so there must be a verdict, whichever it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .conftest import Session

STANDALONE = 'algorithm = "STANDALONE"\ndraft_model = "{folder}/models/draft"'


def cases(session: Session) -> dict[tuple[int, int], dict[str, Any]]:
    """Metrics by (steps, concurrency)."""
    return {(c["config"]["steps"], c["concurrency"]): c["metrics"] for c in session.report["cases"]}


@pytest.mark.parametrize(
    ("model", "speculation", "steps"),
    [("tiny", 'algorithm = "NGRAM"', "0-3"), ("target", STANDALONE, "1-3")],
    ids=["ngram", "standalone"],
)
def test_recorded_and_judged(
    session: Callable[..., Session], model: str, speculation: str, steps: str
) -> None:
    here = session(model, speculation)
    recorded = here.run(f"--spec-steps={steps}", "--update-baselines")
    assert recorded.returncode == 0, recorded.stdout
    judged = here.run(f"--spec-steps={steps}")
    assert judged.returncode in {0, 1, 11}, judged.stdout
    assert {c["outcome"] for c in here.report["cases"]} <= {"pass", "inconclusive", "regressed"}
    for (number, concurrency), found in cases(here).items():
        what = (number, concurrency, found)
        assert 1 <= found["tokens_per_step"] <= 1 + number, what
        assert found["step_ms"] > 0, what
        if number:
            assert 1 <= found["accept_length"] <= 1 + number, what
            assert found["accept_rate"] == pytest.approx((found["accept_length"] - 1) / number, rel=0.05), (
                what
            )
            assert f"accept_rate_pos_{number}" not in found, what
        else:
            assert found["tokens_per_step"] == 1, what
            assert "accept_length" not in found, what
    assert [s["settings"]["speculative_algorithm"] for s in here.report["starts"]].count(None) == (
        1 if steps.startswith("0") else 0
    )


def test_a_forced_acceptance_is_in_force(session: Callable[..., Session]) -> None:
    here = session("target", STANDALONE, workload='forced_acceptance = "80%"')
    ran = here.run("--spec-steps=2", "--spec-concurrency=4", "--update-baselines")
    assert ran.returncode == 0, ran.stdout
    assert cases(here)[2, 4]["accept_length"] == pytest.approx(1 + 0.8 + 0.64, abs=0.25)


@pytest.mark.parametrize(
    ("speculation", "says"),
    [
        (
            STANDALONE + "\ndraft_tokens = 7",
            "draft_tokens = 7: with STANDALONE and 2 steps at topk 1 there are 3",
        ),
        ('algorithm = "STANDALONE"', "algorithm STANDALONE needs a draft model"),
        ('algorithm = "EAGLE"\nargs = {{ speculative-no-such = 1 }}', "has no flag --speculative-no-such"),
    ],
)
def test_what_sglang_would_change_or_hide_is_refused_before_anything_starts(
    session: Callable[..., Session], speculation: str, says: str
) -> None:
    ran = session("target", speculation).run("--spec-steps=2")
    assert ran.returncode == 4, ran.stdout
    assert says in ran.stdout + ran.stderr
