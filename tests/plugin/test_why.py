"""Which part of its decode time a regressed case lost: tokens per step, step time, or both."""

from __future__ import annotations

import copy
import json
from typing import Any

from .conftest import Project

UNEVEN = (0.96, 1.04, 1.0)
"""How the stored starts differ: a machine that is busy while this runs shows nothing by itself."""


def remembered(case: dict[str, Any], concurrency: int, **factors: float | None) -> dict[str, Any]:
    """The stored case at another concurrency, its metrics times so much; None: never measured."""
    found = copy.deepcopy(case) | {"concurrency": concurrency}
    for start, uneven in zip(found["sessions"][0]["starts"], UNEVEN, strict=True):
        for values in start["rounds"]:
            for name in ("tok_s", "tokens_per_step", "step_ms"):
                values[name] *= (factors.get(name, 1.0) or 0.0) * uneven
                if name in factors and factors[name] is None:
                    del values[name]
    return found


def test_each_regressed_case_says_which_part_it_lost(recorded: Project) -> None:
    (file,) = (recorded.pytester.path / "baselines").glob("fake@*.json")
    content = json.loads(file.read_text())
    off, one = content["cases"]
    content["cases"] = [
        off,
        remembered(one, 1, tok_s=2.0, tokens_per_step=2.0),
        remembered(one, 2, tok_s=2.0, step_ms=0.5),
        remembered(one, 3, tok_s=4.0, tokens_per_step=2.0, step_ms=0.5),
        remembered(one, 4, tok_s=2.0, step_ms=None),
    ]
    for case in content["cases"]:
        case["sessions"][0]["context"]["engine_version"] = "b1"
    file.write_text(json.dumps(content))
    result = recorded.run("--spec-steps=1", "--spec-concurrency=1-4", "--spec-json=report.json")
    cases = json.loads((recorded.pytester.path / "report.json").read_text())["cases"]
    assert [case["outcome"] for case in cases] == ["regressed"] * 4
    assert [case["why"].get("cause") for case in cases] == ["tokens", "step time", "both", None]
    assert 0.35 < cases[0]["why"]["tokens_per_step"]["ratio"] < 0.65
    assert all(case["why"]["changes"][0].startswith("llamacpp b1 → b11434") for case in cases)
    result.stdout.fnmatch_lines(
        [
            "E*decode time per token +*: tokens per step -* ±*: drafts fit worse: model, prompts or *",
            "E*step time * ±*",
            "E*decode time per token +*: step time +* ±*: steps take longer: kernels, clocks or *",
        ]
    )
