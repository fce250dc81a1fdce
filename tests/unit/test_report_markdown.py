"""--spec-markdown and what GitHub shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_specdecode.options import Settings
from pytest_specdecode.report.annotations import workflow_commands
from pytest_specdecode.report.markdown import escaped, fitted, render_markdown
from pytest_specdecode.reporting import on_github, without, write_files

from .runs import ledger, plain


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    return plain(ledger())


def test_a_pull_request_shows_counts_table_and_the_regression(data: dict[str, Any]) -> None:
    text = render_markdown(data)
    counts = "**✅ PASS 7 · MEASURED 1 · ❌ REGRESSED 1 · INVALID 0 · DIRTY 0 · BROKEN 1**"
    assert f"{counts} · 6 server starts, 41 min" in text
    assert "| 16 | 122 | 150 +23% ±0% | 178 +46% ±1% *regressed* | 3 |" in text
    assert "#### ❌ regressed: qwen steps=3 c=16" in text
    assert (
        "- tokens per step -15% (-17% to -13%): drafts fit worse: model, prompts or sampling changed" in text
    )
    assert "- since the baseline: sglang 0.5.22 → 0.5.23, driver 580 → 590" in text
    assert "\npytest --spec-steps=3 --spec-concurrency=16 --update-baselines --spec-accept-slower\n" in text
    assert text.count("<details>") == text.count("</details>")
    assert "| qwen steps=3 c=16 | tok\\_s | regressed | 208 | 178 | -15% | 0.840 to 0.860 |" in text


def test_a_log_line_is_no_markup(data: dict[str, Any]) -> None:
    lines = render_markdown(data).splitlines()
    (place,) = [i for i, line in enumerate(lines) if "<script>" in line]
    assert "```text" in lines[:place]  # inside a fence, where nothing is markup
    assert escaped("<b> *x* | [y](z) @team `c`") == "\\<b\\> \\*x\\* \\| \\[y\\](z) @&#8203;team \\`c\\`"
    assert escaped("- a\n# b") == "\\- a # b"


def test_what_is_too_long_is_cut_with_its_folds_closed(data: dict[str, Any]) -> None:
    text = render_markdown(data)
    for size in (len(text.encode()) - 300, 2300, 1700):
        cut = fitted(text, size)
        assert len(cut.encode()) <= size
        assert cut.count("<details>") == cut.count("</details>")
        assert sum(line.startswith("```") for line in cut.splitlines()) % 2 == 0
        assert "Cut here" in cut
    assert fitted(text) == text


def test_annotations_name_file_line_and_what_was_lost(data: dict[str, Any], tmp_path: Path) -> None:
    found = workflow_commands(data, root=tmp_path / "bench", workspace=tmp_path)
    assert found == [
        "::error file=bench/test_q.py,line=12,title=regressed%3A qwen steps=3 c=16::"
        "tok_s -15%25, 208 → 178 (0.840 to 0.860 of the baseline)",
        "::warning file=bench/test_q.py,line=12,title=broken%3A qwen steps=3 c=4::last log lines:",
        "::error file=bench/test_q.py,title=failed%3A test_q.py%3A%3Atest_crossover::assert 2 == 3",
    ]


def test_a_test_outside_of_the_checkout_has_no_place(data: dict[str, Any], tmp_path: Path) -> None:
    first = workflow_commands(data, root=tmp_path, workspace=tmp_path / "elsewhere")[0]
    assert first.startswith("::error title=regressed%3A qwen steps=3 c=16::")


def test_github_gets_its_summary_after_what_is_there(data: dict[str, Any], tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    assert on_github(data, root=tmp_path, environment={"GITHUB_STEP_SUMMARY": str(summary)}) == []
    assert summary.read_text() == "before\n" + render_markdown(data)
    assert on_github(data, root=tmp_path, environment={}) == []
    assert len(on_github(data, root=tmp_path, environment={"GITHUB_ACTIONS": "true"})) == 3


def test_a_summary_that_cannot_be_written_is_said(data: dict[str, Any], tmp_path: Path) -> None:
    (line,) = on_github(
        data, root=tmp_path, environment={"GITHUB_STEP_SUMMARY": str(tmp_path / "no" / "s.md")}
    )
    assert "the summary cannot be written: No such file" in line
    full = tmp_path / "full.md"
    full.write_bytes(b"x" * (1024 * 1024 - 100))
    (line,) = on_github(data, root=tmp_path, environment={"GITHUB_STEP_SUMMARY": str(full)})
    assert "no room" in line
    assert full.stat().st_size == 1024 * 1024 - 100


def test_a_secret_is_taken_out_wherever_it_stands() -> None:
    plain_data = {"a s3cr3t": ["x s3cr3t", {"n": 1, "s": "s3cr3t"}]}
    assert without(plain_data, "s3cr3t") == {"a ***": ["x ***", {"n": 1, "s": "***"}]}


def test_each_file_is_written_or_said_not_to_be(data: dict[str, Any], tmp_path: Path) -> None:
    page = tmp_path / "out.html"
    text = tmp_path / "out.md"
    text.mkdir()
    settings = Settings(
        benchmark_session=True, json_file=tmp_path / "out.json", html_file=page, markdown_file=text
    )
    (problem,) = write_files(settings, data)
    assert problem.startswith(f"--spec-markdown={text}: cannot be written: ")
    assert page.read_text().startswith("<!doctype html>")
    assert (tmp_path / "out.json").exists()
