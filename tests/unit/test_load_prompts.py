"""Prompts: the built-in ones, and files of every form people have."""

from __future__ import annotations

import itertools
import json
import re
import statistics
from collections import Counter
from pathlib import Path

import pytest

from pytest_specdecode.errors import ConfigError
from pytest_specdecode.load.prompts import Message, load_prompts

CATEGORIES = ["code", "chat", "math", "summary", "rewriting"]


@pytest.mark.parametrize("category", CATEGORIES)
def test_every_builtin_category_has_enough_prompts(category: str, tmp_path: Path) -> None:
    prompts = load_prompts(f"builtin:{category}", tmp_path)
    assert len(prompts) >= 8
    assert len({p.text for p in prompts}) == len(prompts)
    assert {p.category for p in prompts} == {category}


@pytest.mark.parametrize("category", CATEGORIES)
def test_builtin_prompts_repeat_themselves_so_that_ngram_drafts_find_something(
    category: str, tmp_path: Path
) -> None:
    """More than a fifth of all pairs of neighbouring tokens occur again in the same prompt."""
    shares = []
    for prompt in load_prompts(f"builtin:{category}", tmp_path):
        tokens = re.findall(r"\w+|[^\w\s]", prompt.text)
        pairs = Counter(itertools.pairwise(tokens))
        shares.append(sum(n for n in pairs.values() if n > 1) / pairs.total())
    assert statistics.fmean(shares) > 0.2


def test_mixed_is_all_categories(tmp_path: Path) -> None:
    prompts = load_prompts("builtin:mixed", tmp_path)
    assert {p.category for p in prompts} == set(CATEGORIES)


@pytest.mark.parametrize(
    ("content", "texts"),
    [
        ('{"prompt": "one"}\n\n{"prompt": "two"}\n', ["one", "two"]),
        ('{"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi"}]}',
         ["be brief\n\nhi"]),
        ('{"question_id": 81, "category": "writing", "turns": ["first", "second"]}', ["first"]),
        (json.dumps([{"id": "x", "conversations": [{"from": "gpt", "value": "ok"},
                                                   {"from": "human", "value": "why?"}]},
                     {"id": "y", "conversations": []}]), ["why?"]),
        ('{"conversations": [{"from": "human", "value": "line"}]}', ["line"]),
    ],
    ids=["jsonl", "messages", "mt-bench", "sharegpt", "sharegpt-lines"],
)  # fmt: skip
def test_files_of_the_usual_forms(content: str, texts: list[str], tmp_path: Path) -> None:
    (tmp_path / "prompts").write_text(content, encoding="utf-8")
    assert [p.text for p in load_prompts("prompts", tmp_path)] == texts


def test_categories_of_spec_bench_are_kept(tmp_path: Path) -> None:
    (tmp_path / "q.jsonl").write_text('{"category": "qa", "turns": ["q"]}')
    (prompt,) = load_prompts("q.jsonl", tmp_path)
    assert prompt.category == "qa"
    assert prompt.messages == (Message("user", "q"),)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"prompt": "ok"}\n{"prompt": \n', "line 2: not JSON"),
        ('{"text": "no"}', 'line 1: an object with "prompt", "messages"'),
        ('"just text"', "line 1: an object with"),
        ('{"prompt": 7}', 'line 1: "prompt" is not as expected'),
        ('{"messages": [{"role": "user"}]}', 'line 1: "messages" is not as expected'),
        ('{"messages": []}', 'line 1: "messages" is not as expected'),
        ('{"turns": []}', 'line 1: "turns" is not as expected'),
        ('[{"conversations": [{"from": "human"}]}]', 'entry 1: "conversations" is not as expected'),
        ('[{"conversations": []}]', "has no prompt in it"),
        ("[1, 2", "not JSON"),
        ("\n\n", "has no prompt in it"),
        ('{"prompt": "\udcff"}', "not JSON"),
    ],
)
def test_a_file_that_cannot_be_used_names_file_and_line(content: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigError) as caught:
        load_prompts("bad.jsonl", tmp_path)
    assert said in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_file_or_category_names_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot read .*absent\.jsonl.*builtin:mixed"):
        load_prompts("absent.jsonl", tmp_path)
    with pytest.raises(ConfigError, match="no builtin:poems; there are: builtin:mixed, builtin:code"):
        load_prompts("builtin:poems", tmp_path)
