"""After a change of engine or driver the first start fills caches, and its numbers are thrown away."""

from __future__ import annotations

import json

from .conftest import Project


def test_a_new_engine_version_costs_one_start_that_counts_for_nothing(recorded: Project) -> None:
    (file,) = (recorded.pytester.path / "baselines").glob("*.json")
    content = json.loads(file.read_text())
    for case in content["cases"]:
        for session in case["sessions"]:
            session["context"]["engine_version"] = "b1"
    file.write_text(json.dumps(content))
    result = recorded.run("--spec-steps=0,1", "--spec-json=report.json", "-q")
    assert result.ret == 0
    assert len(recorded.starts) == 3
    result.stdout.fnmatch_lines(["PASS 2 *3 server starts (one thrown away)*"])
    report = json.loads((recorded.pytester.path / "report.json").read_text())
    first, *others = report["starts"]
    assert first["discarded"].startswith("priming: llamacpp b1 → ")
    assert not any(start["discarded"] for start in others)
    measured_on = {start["id"] for case in report["cases"] for start in case["starts"]}
    assert measured_on == {start["id"] for start in others}
