"""--spec-html: one file, everything escaped, every number the report's own."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from typing import Any

import pytest

from pytest_specdecode.report.html import render_html
from pytest_specdecode.report.html.svg import Scale, ticks
from pytest_specdecode.report.text import number, percent

from .runs import ABOUT, LOG, ledger, plain

VOID = {"meta", "br", "hr", "img", "input", "link"}


class Page(HTMLParser):
    """Its text, attributes and elements; fails where a tag is not closed, or closed twice."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.attributes: list[tuple[str, str]] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    return plain(ledger())


@pytest.fixture(scope="module")
def page(data: dict[str, Any]) -> str:
    return render_html(data)


def test_the_page_is_one_file_that_asks_nobody_for_anything(page: str) -> None:
    read = Page(page)
    assert not read.tags & {"script", "link", "img", "iframe", "object", "audio", "video", "use", "image"}
    references = [v for n, v in read.attributes if n in ("href", "src", "xlink:href", "action", "srcset")]
    assert [value for value in references if not value.startswith("#")] == []
    assert not [name for name, _ in read.attributes if name.startswith("on")]
    assert not re.search(r"url\(|@import|https?://", page)
    anchors = {value for name, value in read.attributes if name == "id"}
    assert {value[1:] for value in references} <= anchors


def test_what_a_log_says_stays_text(page: str) -> None:
    assert "<script>" not in page
    assert "&lt;script&gt;alert(&#34;x&#34;)&lt;/script&gt; &amp;" in page
    assert "\x1b" not in page


def test_hostile_names_stay_text() -> None:
    hostile = "<img src=x onerror=alert(1)>"
    found = plain(ledger(target=hostile), target=hostile)
    for case in found["cases"]:
        case["tests"][0]["id"] = "test_<b>.py::test_\"'><script>"
        case["config"]["algorithm"] = "]]>--><script>"
    found["audit"][0]["argv"] = ["\ud800<script>", "</pre></details>"]
    found["starts"][0]["settings"] = {"</pre><script>": "</style>"}
    read = Page(render_html(found))
    assert not read.tags & {"img", "script", "b>"}
    assert "test_<b>.py::test_\"'><script>" in read.text
    render_html(found).encode()


def test_pictures_are_well_formed_and_say_in_words_what_they_show(page: str) -> None:
    pictures = [svg for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL) if 'role="img"' in svg]
    assert len(pictures) == 5  # two metrics, acceptance, step time, timeline
    for picture in pictures:
        svg = ET.fromstring(picture)
        title, words = svg[0], svg[1]
        assert (title.tag, words.tag) == ("title", "desc")
        assert svg.get("aria-labelledby") == f"{title.get('id')} {words.get('id')}"
        assert len(words.text or "") > 20


def test_the_numbers_are_those_of_the_report(page: str, data: dict[str, Any]) -> None:
    text = Page(page).text
    for table in data["tables"]:
        for row in table["rows"]:
            shown = []
            for cell in row["cells"]:
                if cell["value"] is not None:
                    shown.append(number(cell["value"]))
                if cell["ratio"] is not None:
                    shown.append(f"{percent(cell['ratio'])} ±{cell['half_width'] * 100:.0f}%")
                if cell["outcome"] in ("broken", "regressed"):
                    shown.append(cell["outcome"])
            assert " ".join([str(row["concurrency"]), *shown]) in text
    for case in data["cases"]:
        for start in case["starts"]:
            for i, made in enumerate(start["rounds"], 1):
                figures = " ".join(number(made["metrics"][name]) for name in case["metrics"])
                assert f"{start['id']}, {i} {figures}".rstrip() in text
    assert "0.850, 0.840 to 0.860" in text
    assert f"{ABOUT['hardware']} · {ABOUT['engine']} · {ABOUT['workload']}" in text
    assert "6 server starts, 41 min" in text


def test_a_regression_says_why_and_what_changed(page: str) -> None:
    text = Page(page).text
    assert "tokens per step -15% (-17% to -13%): drafts fit worse" in text
    assert "Since the baseline: sglang 0.5.22 → 0.5.23, driver 580 → 590" in text
    assert "pytest --spec-steps=3 --spec-concurrency=16 --update-baselines --spec-accept-slower" in text


def test_the_audit_trail_is_whole(page: str, data: dict[str, Any]) -> None:
    text = Page(page).text
    assert all(" ".join(command["argv"]) in text for command in data["audit"])
    assert "20 commands, 1 processes killed" in text
    assert " ".join(LOG.splitlines()[0].split()) in text


def test_two_targets_in_one_report_do_not_mix() -> None:
    one, other = plain(ledger((1, 2))), plain(ledger((0, 5), target="rival"), target="rival")
    for name in ("cases", "targets", "tables", "starts"):
        one[name] = [*one[name], *other[name]]
    text = Page(render_html(one)).text
    assert "qwen: tok/s per request concurrency steps=1 steps=2 best" in text
    assert "rival: tok/s per request concurrency off steps=5 best" in text
    assert "rival on 4 × RTX PRO 6000" in text


def test_a_report_of_an_earlier_version_still_makes_a_page(data: dict[str, Any]) -> None:
    """The names of the first schema alone, as the contract shows them."""
    cases = [
        {
            name: case[name]
            for name in ("config", "concurrency", "target", "outcome", "metrics", "tests", "starts")
        }
        for case in data["cases"]
    ]
    for case in cases:
        test = case["tests"][0]
        case["tests"] = [{n: test[n] for n in ("id", "outcome", "reason", "verdicts")}]
    early = {n: data[n] for n in ("schema", "target", "machine", "identity", "context", "summary", "audit")}
    text = Page(render_html({**early, "cases": cases, "starts": data["starts"]})).text
    assert "regressed" in text
    assert "230 tok_s" in text


def test_a_run_that_got_nowhere_still_makes_a_page() -> None:
    empty = {
        "schema": 1,
        "target": "qwen",
        "machine": "",
        "summary": {},
        "cases": [],
        "starts": [],
        "audit": [],
    }
    assert "Nothing was measured." in Page(render_html(empty)).text


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 230, [0, 50, 100, 150, 200, 250]), (0, 1, [0, 0.2, 0.4, 0.6, 0.8, 1.0]), (5, 5, None)],
)
def test_ticks_are_round_and_cover_the_values(low: float, high: float, expected: list[float] | None) -> None:
    found = ticks(low, high)
    assert found[0] <= low < high <= found[-1] or low == high
    assert expected is None or found == pytest.approx(expected)
    assert len(found) < 9


def test_a_scale_of_one_value_puts_it_in_the_middle() -> None:
    assert Scale(3, 3, 0, 100)(3) == 50
