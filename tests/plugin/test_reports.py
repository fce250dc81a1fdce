"""What a session leaves for people and for programs."""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ET
from typing import Any

from .conftest import Project


def report(project: Project) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((project.pytester.path / "report.json").read_text())
    return content


def test_the_table_and_the_summary_line(recorded: Project) -> None:
    recorded.engine(tok_s={"0": 400, "1": 600})
    result = recorded.run("--spec-steps=0,1")
    result.stdout.fnmatch_lines(
        [
            "fake on *llamacpp b11434*output 16 tok*tok/s per request",
            "*concurrency*off*steps=1*best*",
            "*1 * +[45]?% *1*",
        ]
    )
    result.stdout.fnmatch_lines(["PASS 2 *REGRESSED 0 *INVALID 0 *DIRTY 0 *2 server starts, *"])


def test_json_is_complete_and_versioned(recorded: Project) -> None:
    assert recorded.run("--spec-steps=1", "--spec-json=report.json").ret == 0
    content = report(recorded)
    assert content["schema"] == 1
    assert {"target", "machine", "identity", "context", "summary", "cases", "starts", "audit"} <= set(content)
    (case,) = content["cases"]
    assert case["config"]["steps"] == 1
    assert abs(case["metrics"]["tok_s"] - 400) < 40
    assert abs(case["baseline"]["tok_s"] - 400) < 40
    assert content["args"][-2:] == ["--spec-steps=1", "--spec-json=report.json"]
    (described,) = content["targets"]
    assert described["about"]["engine"].startswith("llamacpp b11434")
    cell = content["tables"][0]["rows"][0]["cells"][0]
    assert (cell["value"], cell["baseline"]) == (case["metrics"]["tok_s"], case["baseline"]["tok_s"])
    (test,) = case["tests"]
    assert test["line"] == 1
    assert test["id"] == "test_bench.py::test_gate"
    assert test["verdicts"]["tok_s"]["outcome"] == "pass"
    assert {"ratio", "low", "high", "slower"} <= set(test["verdicts"]["tok_s"])
    (start,) = case["starts"]
    assert [r["valid"] for r in start["rounds"]] == [True, True]
    assert content["starts"][0]["id"] == start["id"]
    assert content["summary"]["pass"] == 1
    assert content["summary"]["starts"] == 1
    assert any("server.py" in " ".join(command["argv"]) for command in content["audit"])


def test_a_hook_receives_the_report(recorded: Project) -> None:
    recorded.pytester.makeconftest(
        "def pytest_specdecode_report(config, report):\n    print('hook saw', report['summary']['pass'])\n"
    )
    recorded.run("--spec-steps=1", "-s").stdout.fnmatch_lines(["*hook saw 1"])


def test_junit_carries_scalar_metrics(recorded: Project) -> None:
    recorded.run("--spec-steps=1", "--junitxml=junit.xml", "-o", "junit_family=xunit2")
    root = ET.parse(recorded.pytester.path / "junit.xml").getroot()
    assert [root.tag, *(child.tag for child in root)] == ["testsuites", "testsuite"]
    (case,) = root.iter("testcase")
    assert set(case.attrib) == {"classname", "name", "time"}  # what GitLab and Jenkins know a test by
    (properties,) = case.findall("properties")
    assert case[0] is properties
    assert all(set(p.attrib) == {"name", "value"} and len(p) == 0 for p in properties)
    found = {p.attrib["name"]: p.attrib["value"] for p in properties}
    assert len(found) == len(properties)
    assert abs(float(found["tok_s"]) - 400) < 40
    assert found["steps"] == "1"
    assert found["concurrency"] == "1"
    assert math.isfinite(sum(float(v) for n, v in found.items() if n not in ("target", "algorithm")))


def test_the_full_comparison_is_a_report_section(recorded: Project) -> None:
    recorded.engine(tok_s=200)
    result = recorded.run("--spec-steps=1")
    result.stdout.fnmatch_lines(["*- specdecode -*", "*all metrics, stored*now:*", "*total_tok_s*"])


def test_progress_is_told_in_plain_lines(recorded: Project) -> None:
    result = recorded.run("--spec-steps=1")
    result.stdout.fnmatch_lines(["*starting steps=1*"])


def test_quiet_is_quiet(recorded: Project) -> None:
    result = recorded.run("--spec-steps=1", "-q")
    result.stdout.no_fnmatch_line("*starting steps*")


def test_no_secret_gets_into_any_file(recorded: Project, monkeypatch: Any) -> None:
    monkeypatch.setenv("FAKE_API_KEY", "s3cr3t-value")
    file = recorded.pytester.path / "specdecode.toml"
    text = file.read_text().replace(
        'engine = "llamacpp"', 'engine = "llamacpp"\napi_key_env = "FAKE_API_KEY"'
    )
    file.write_text(text.replace('"--metrics"', '"--metrics", "--api-key", "s3cr3t-value"'))
    result = recorded.run(
        "--update-baselines", "--spec-steps=1", "--spec-json=report.json", "--junitxml=j.xml", "-v"
    )
    assert result.ret == 0
    written = [p for p in recorded.pytester.path.rglob("*") if p.suffix in (".json", ".xml")]
    assert len(written) >= 3
    assert not [p for p in written if "s3cr3t" in p.read_text()]
    assert "s3cr3t" not in result.stdout.str()


def test_pages_for_people_hold_the_numbers_of_the_json(recorded: Project, monkeypatch: Any) -> None:
    recorded.engine(tok_s=200)
    summary = recorded.pytester.path / "summary.md"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    monkeypatch.setenv("GITHUB_WORKSPACE", str(recorded.pytester.path))
    wanted = ("--spec-json=report.json", "--spec-html=out.html", "--spec-markdown=out.md")
    result = recorded.run("--spec-steps=1", *wanted)
    assert result.ret == 1
    (cell,) = report(recorded)["tables"][0]["rows"][0]["cells"]
    page, text = ((recorded.pytester.path / f"out.{kind}").read_text() for kind in ("html", "md"))
    for shown in (f"{cell['value']:.0f}", f"{cell['baseline']:.0f}"):
        assert shown in page
        assert shown in text
    assert summary.read_text() == text
    result.stdout.fnmatch_lines(
        ["::error file=test_bench.py,line=1,title=regressed%3A fake steps=1 c=1::tok_s -[45]?%25, *"]
    )
