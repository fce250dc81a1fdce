"""The request set: expressions, balance, the same everywhere, and its digest."""

from __future__ import annotations

import contextlib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from pytest_specdecode.config import Ratio, Workload
from pytest_specdecode.errors import ConfigError
from pytest_specdecode.load.prompts import Message, Prompt, load_prompts
from pytest_specdecode.load.requests import (
    Request,
    body,
    check_workload,
    output_lengths,
    request_count,
    request_set,
    workload_digest,
)

PROMPTS = load_prompts("builtin:mixed", Path())


@pytest.mark.parametrize(
    ("expression", "concurrency", "count"),
    [
        ("max(4c, 16)", 1, 16),
        ("max(4c, 16)", 16, 64),
        ("2 * c + 1", 4, 9),
        ("4 c", 4, 16),
        ("32", 4, 32),
        ("ceil(c / 3) + c", 4, 6),
        ("2(c + 1)", 3, 8),
        ("min(max(4c, 16), 100)", 64, 100),
        ("c * 1.5", 3, 5),
    ],
)
def test_expressions_of_the_concurrency(expression: str, concurrency: int, count: int) -> None:
    assert request_count(expression, concurrency) == count


@pytest.mark.parametrize(
    "expression",
    ["", "c +", "n", "__import__('os')", "c.real", "max()", "[c]", "c if c else 1", "9 ** 9", "1 / 0", "True",
     "max(c, key=c)", "(" * 1000, "'c'", "1e999"],
)  # fmt: skip
def test_anything_else_is_refused_with_an_example(expression: str) -> None:
    with pytest.raises(ConfigError, match=r'write for example "max\(4c, 16\)"'):
        request_count(expression, 4)


@given(st.text(max_size=12))
@example("cc")
def test_no_expression_does_anything_but_count_or_be_refused(expression: str) -> None:
    with contextlib.suppress(ConfigError):
        assert request_count(expression, 1) >= 1


def test_fewer_requests_than_run_together_are_refused() -> None:
    with pytest.raises(ConfigError, match="gives 8 requests at concurrency 16; at least 16 are needed"):
        request_count("8", 16)


@given(st.integers(8, 4096), st.integers(1, 300))
def test_output_lengths_are_spread_evenly_about_their_mean(mean: int, count: int) -> None:
    lengths = output_lengths(mean, count)
    assert len(lengths) == count
    assert abs(sum(lengths) - mean * count) <= 1
    assert min(lengths) >= 0.75 * mean - 1
    assert max(lengths) <= 1.25 * mean + 1
    assert lengths == sorted(lengths) or max(b - a for a, b in zip(lengths[1:], lengths, strict=False)) <= 1


def test_the_set_is_the_same_whenever_it_is_made() -> None:
    table = Workload(seed=3)
    assert request_set(table, PROMPTS, 16) == request_set(table, PROMPTS, 16)
    assert request_set(table, PROMPTS, 16) != request_set(Workload(seed=4), PROMPTS, 16)


def test_every_category_has_its_share() -> None:
    for concurrency in (1, 4, 64):
        requests = request_set(Workload(), PROMPTS, concurrency)
        shares = Counter(r.prompt.category for r in requests)
        assert max(shares.values()) - min(shares.values()) <= 1


def test_a_prompt_that_comes_again_is_not_the_same_prompt() -> None:
    requests = request_set(Workload(requests="100"), PROMPTS[:8], 4)
    assert len({r.prompt.text for r in requests}) == 100


@pytest.mark.parametrize("tokens", [16, 256, 2000])
def test_prompts_are_padded_or_cut(tokens: int) -> None:
    requests = request_set(Workload(input_tokens=tokens), PROMPTS, 4, chars_per_token=3.0)
    assert {len(r.prompt.text) for r in requests} == {3 * tokens}
    assert len({r.prompt.text for r in requests}) == len(requests)


def test_padding_keeps_the_other_messages() -> None:
    chat = Prompt((Message("system", "You are terse."), Message("user", "Why?")))
    (request,) = request_set(Workload(input_tokens=25, requests="1"), [chat], 1)
    assert [m.role for m in request.prompt.messages] == ["system", "user"]
    assert request.prompt.messages[1].content == "Why?"
    assert sum(len(m.content) for m in request.prompt.messages) == 100


def test_bodies_of_both_endpoints() -> None:
    request = Request(5, Prompt.of("Hello"), 40)
    fields = {"ignore_eos": True, "max_tokens": 1}
    completions = body(request, Workload(), "m", fields)
    assert completions == {
        "ignore_eos": True,
        "prompt": "Hello",
        "model": "m",
        "max_tokens": 40,
        "temperature": 0.0,
        "stream": True,
    }
    chat = body(
        request, Workload(endpoint="chat", temperature=0.7, seed=1, extra_body={"top_p": 0.9}), None, fields
    )
    assert chat["messages"] == [{"role": "user", "content": "Hello"}]
    assert (chat["seed"], chat["top_p"]) == (6, 0.9)
    assert "model" not in chat


def test_the_digest_changes_with_what_is_measured_and_with_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"prompt": "x"}\n{"prompt": "y"}\n')
    (tmp_path / "b.jsonl").write_text('{ "prompt":"x" }\n\n{"prompt": "y", "id": 1}')
    (tmp_path / "c.jsonl").write_text('{"prompt": "x"}\n{"prompt": "z"}\n')

    def digest(prompts: str = "a.jsonl", **settings: Any) -> str:
        return workload_digest(Workload(prompts=prompts, **settings), tmp_path)

    assert digest() == digest("b.jsonl") == digest(rounds=9, warmup_rounds=4)
    others = [
        digest("c.jsonl"),
        digest(seed=1),
        digest(output_tokens=256),
        digest(input_tokens=64),
        digest(temperature=0.5),
        digest(endpoint="chat"),
        digest(requests="32"),
        digest(extra_body={"top_p": 0.9}),
    ]
    assert len({digest(), *others}) == 9


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"output_tokens": 4}, "workload.output_tokens = 4 is too small; at least 8"),
        ({"rounds": 0}, "workload.rounds = 0"),
        ({"warmup_rounds": -1}, "workload.warmup_rounds = -1"),
        ({"temperature": -0.1}, "workload.temperature = -0.1"),
        ({"input_tokens": 0}, "workload.input_tokens = 0"),
        ({"requests": "2"}, "gives 2 requests at concurrency 4"),
        ({"prompts": "builtin:none"}, "there is no builtin:none"),
    ],
)
def test_what_could_not_be_measured_is_refused_beforehand(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_workload(Workload(**settings), Path(), [1, 4])


def test_a_forced_acceptance_is_another_workload_and_none_changes_no_digest(tmp_path: Path) -> None:
    plain, forced = Workload(), Workload(forced_acceptance=Ratio(0.8))
    assert workload_digest(plain, tmp_path) != workload_digest(forced, tmp_path)
    assert workload_digest(plain, tmp_path) == workload_digest(Workload(forced_acceptance=None), tmp_path)
