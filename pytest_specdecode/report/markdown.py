"""``--spec-markdown``: the report for a pull request, made from the plain data of ``--spec-json``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import view
from .text import percent

STEP_SUMMARY_BYTES = 1024 * 1024
"""What GitHub takes of one step's summary."""
_CUT = (
    "\n\n*Cut here: GitHub shows no more than {} KiB. The whole report is in --spec-json or --spec-html.*\n"
)
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>|~$&]|^[-+#=]|(?<=^\d)[.)])")
_MENTION = re.compile(r"@(?=\w)")
_LONGEST_REASON = 2000
_LONGEST_FENCE = 20
_CLOSING_BYTES = _LONGEST_FENCE + 20


def render_markdown(data: Mapping[str, Any]) -> str:
    """The report as markdown, a heading first.

    :param data: what ``--spec-json`` writes, of this version or an earlier one; keys may be absent.
    """
    data = view.printable(data)
    problems = view.problems(data)
    regressed = [p for p in problems if p.outcome == "regressed"]
    others = view.alike([p for p in problems if p.outcome != "regressed"])
    parts = [
        _heading(data),
        *(_table(table) for table in view.tables(data)),
        *(_regressed(problem) for problem in regressed),
        *(_others(group) for group in others),
        _verdicts(data),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def fitted(text: str, size: int = STEP_SUMMARY_BYTES) -> str:
    """``text`` in at most ``size`` bytes of UTF-8: cut at a line's end, with a note that says so."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= size:
        return raw.decode()
    note = _CUT.format(size // 1024)
    room = size - len(note.encode()) - _CLOSING_BYTES
    kept = raw[:room].decode("utf-8", "ignore").rpartition("\n")[0]
    return kept + _closing(kept) + note


def _closing(text: str) -> str:
    """What ends the fence and the fold that ``text`` is cut in; there is one of each at most."""
    fence, folded = "", False
    for line in text.splitlines():
        if fence:
            fence = "" if line == fence else fence
        elif line.startswith("```"):
            fence = line.removesuffix("text")
        elif line.startswith("<details>"):
            folded = True
        elif line == "</details>":
            folded = False
    return (f"\n{fence}" if fence else "") + ("\n\n</details>" if folded else "")


def escaped(text: str) -> str:
    """``text`` as literal markdown in one line: nothing in it is markup, a mention or HTML."""
    return _MENTION.sub("@&#8203;", _SPECIAL.sub(r"\\\1", " ".join(text.split())))


def _heading(data: Mapping[str, Any]) -> str:
    counts = " · ".join(
        f"{_mark(outcome) if n else ''}{outcome.upper()} {n}" for outcome, n in view.counts(data)
    )
    lines = "  \n".join(escaped(line) for line in view.headings(data))
    title = f"### Speculative decoding: {escaped(view.subject(data))}"
    return f"{title}\n\n{lines}\n\n**{counts}** · {view.took(data)}"


def _mark(outcome: str) -> str:
    return {"regressed": "❌ ", "pass": "✅ "}.get(outcome, "")


def _table(table: view.Table) -> str:
    heads = ["concurrency", *map(escaped, table.labels), "best"]
    rows = [
        [str(level), *(_cell(cell) for cell in cells), escaped(best)] for level, cells, best in table.rows
    ]
    title = f"**{escaped(table.target)}: {escaped(table.unit)}**"
    under = f", change over {escaped(table.reference)} ± its 95% interval" if table.reference else ""
    align = ["---:", *["---:"] * len(table.labels), "---"]
    return f"{title}{under}\n\n{_rows([heads, align, *rows])}"


def _cell(cell: view.Cell) -> str:
    words = " ".join(part for part in (cell.text, cell.change, cell.spread) if part)
    return f"{words} *{cell.flag}*" if cell.flag else words


def _regressed(problem: view.Problem) -> str:
    commands = [problem.reproduce, problem.record]
    title = "measure it again, or accept it" if problem.record else "measure it again"
    lines = [
        f"#### ❌ regressed: {escaped(problem.case)}",
        "",
        escaped(problem.gist),
        "",
        *(f"- {escaped(line)}" for line in problem.why),
        *([f"- since the baseline: {escaped(problem.since)}"] if problem.since else []),
        "",
        *_folded(title, _code(commands)),
    ]
    return "\n".join(lines)


def _others(group: Sequence[view.Problem]) -> str:
    first = group[0]
    word = "failed" if first.outcome == "measured" else str(first.outcome)
    cases = ", ".join(escaped(p.case or p.test) for p in group)
    commands = [p.record or p.reproduce for p in group if p.record or p.reproduce]
    reason = first.reason[:_LONGEST_REASON]
    lines = [f"#### {word}: {cases}", "", escaped(reason.partition("\n")[0])]
    if "\n" in reason:
        lines += ["", *_folded("all of it", _code(reason.splitlines()))]
    if commands:
        lines += ["", *_folded("record it" if first.record else "measure it again", _code(commands))]
    return "\n".join(lines)


def _verdicts(data: Mapping[str, Any]) -> str:
    """Every verdict with its interval, folded."""
    labels = view.labels_of(data)
    rows = [
        [
            escaped(view.case_name(case, labels)),
            escaped(v.metric),
            v.outcome,
            v.old or "–",
            v.now or "–",
            percent(v.ratio),
            v.interval,
        ]
        for case in data.get("cases", ())
        for test in case.get("tests", ())
        for v in view.judged(test, case)
    ]
    if not rows:
        return ""
    heads = ["case", "metric", "verdict", "baseline", "now", "change", "interval of the ratio"]
    align = ["---", "---", "---", "---:", "---:", "---:", "---"]
    return "\n".join(_folded(f"all verdicts ({len(rows)})", _rows([heads, align, *rows]).splitlines()))


def _rows(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _folded(title: str, lines: Sequence[str]) -> Iterator[str]:
    yield f"<details><summary>{title}</summary>"
    yield ""
    yield from lines
    yield ""
    yield "</details>"


def _code(lines: Sequence[str]) -> list[str]:
    """A fence longer than any run of backticks inside."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    fence = "`" * max(3, min(longest + 1, _LONGEST_FENCE))
    return [f"{fence}text", *(line for line in lines if line), fence]
