"""The request set of one round: the same in every round, restart, configuration and night."""

from __future__ import annotations

import ast
import hashlib
import math
import operator
import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec

from ..config import Workload
from ..errors import ConfigError
from .prompts import Prompt, load_prompts

CHARS_PER_TOKEN = 4.0
"""English text in the vocabularies of today's models, where the engine's own tokenizer was not asked."""

SPREAD = 0.25
"""Output lengths lie within ± this share of ``output_tokens``, so that requests do not end in lock-step."""

MIN_OUTPUT_TOKENS = 8
"""Below, a request's decode time is a few steps and its speed a ratio of small numbers."""

_SCHEME = 1
"""Raised when the same settings give another request set: baselines of the old one are then incomparable."""

_SHAPING = ("endpoint", "input_tokens", "output_tokens", "temperature", "extra_body", "requests", "seed")

_OPERATORS: Mapping[type[ast.AST], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}
_FUNCTIONS: Mapping[str, Callable[..., float]] = {"max": max, "min": min, "ceil": math.ceil}
_IMPLICIT_PRODUCT = re.compile(r"(\d)\s*(?=[c(])")


@dataclass(frozen=True, slots=True)
class Request:
    """One request of the set: ``number`` from 0, the tokens it shall generate."""

    number: int
    prompt: Prompt
    output_tokens: int


def request_count(expression: str, concurrency: int) -> int:
    """The number of requests of a round, from an expression such as ``"max(4c, 16)"`` (c: concurrency).

    :raises ConfigError: for anything but numbers, ``c``, ``+ - * / //``, max, min and ceil; and when fewer
        requests come out than run together.
    """
    try:
        tree = ast.parse(_IMPLICIT_PRODUCT.sub(r"\1*", expression.strip()), mode="eval")
        count = math.ceil(_evaluate(tree.body, concurrency))
    except (SyntaxError, ValueError, TypeError, ArithmeticError, RecursionError, MemoryError) as exc:
        raise ConfigError(
            f'workload.requests = "{expression}" cannot be read ({exc}); '
            'write for example "max(4c, 16)", where c is the concurrency'
        ) from exc
    if count < concurrency:
        raise ConfigError(
            f'workload.requests = "{expression}" gives {count} requests at concurrency {concurrency}; '
            f"at least {concurrency} are needed for so many to run together"
        )
    return count


def check_workload(workload: Workload, rootdir: Path, concurrency: Iterable[int]) -> None:
    """Raise :class:`ConfigError` now for what :func:`request_set` could not use later, at these levels."""
    least = {
        "output_tokens": MIN_OUTPUT_TOKENS,
        "input_tokens": 1,
        "temperature": 0,
        "rounds": 1,
        "warmup_rounds": 0,
    }
    for name, minimum in least.items():
        value = getattr(workload, name)
        if value is not None and value < minimum:
            raise ConfigError(f"workload.{name} = {value} is too small; at least {minimum}")
    for level in concurrency:
        request_count(workload.requests, level)
    load_prompts(workload.prompts, rootdir)


def _evaluate(node: ast.expr, c: int) -> float:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return number
        case ast.Name(id="c"):
            return c
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            return _OPERATORS[type(op)](_evaluate(left, c), _evaluate(right, c))
        case ast.Call(func=ast.Name(id=name), args=[_, *_] as args, keywords=[]) if name in _FUNCTIONS:
            values = [_evaluate(arg, c) for arg in args]
            return _FUNCTIONS[name](*values) if len(values) > 1 or name == "ceil" else values[0]
    raise ValueError(f"{ast.unparse(node)!r} is not allowed")


def request_set(
    workload: Workload,
    prompts: Sequence[Prompt],
    concurrency: int,
    *,
    chars_per_token: float = CHARS_PER_TOKEN,
) -> tuple[Request, ...]:
    """The round's requests, in the order in which workers take them. Deterministic.

    Balanced: every category of prompts has its share, output lengths are spread evenly over ± 25% (their mean
    is ``output_tokens``), and which prompt has which length depends on the seed alone. A prompt that occurs a
    second time carries a number at its head, so that it is not the first one's cache that is measured.
    """
    count = request_count(workload.requests, concurrency)
    rng = random.Random(workload.seed)  # noqa: S311 (a reproducible order, not a secret)
    ordered = _in_turn(prompts, rng)
    lengths = output_lengths(workload.output_tokens, count)
    rng.shuffle(lengths)
    requests = []
    for number, length in enumerate(lengths):
        again, place = divmod(number, len(ordered))
        prompt = ordered[place]
        if workload.input_tokens is not None:
            prompt = _resized(ordered, place, round(workload.input_tokens * chars_per_token))
        if again:
            prompt = headed(prompt, f"{again + 1}. ")
        requests.append(Request(number, prompt, length))
    return tuple(requests)


def output_lengths(mean: int, count: int) -> list[int]:
    """``count`` lengths spread evenly over ``mean`` ± 25%, shortest first; their sum is ``count * mean``."""
    exact = [mean * (1 - SPREAD + 2 * SPREAD * (i + 0.5) / count) for i in range(count)]
    lengths, rest = [], 0.0
    for value in exact:
        lengths.append(round(value + rest))
        rest += value - lengths[-1]
    return lengths


def tokens_needed(workload: Workload, concurrency: int) -> int:
    """Of the longest request, as far as the workload says: prompts count where their length is set."""
    lengths = output_lengths(workload.output_tokens, request_count(workload.requests, concurrency))
    return lengths[-1] + (workload.input_tokens or 0)


def headed(prompt: Prompt, head: str) -> Prompt:
    """The prompt with ``head`` before everything else, so that no prefix of it was seen before."""
    return prompt.with_first(head + prompt.messages[0].content)


def body(
    request: Request, workload: Workload, model: str | None, fields: Mapping[str, Any]
) -> dict[str, Any]:
    """The JSON body: the engine's ``fields`` first, then the workload's, then the user's ``extra_body``."""
    if workload.endpoint == "chat":
        asked: dict[str, Any] = {
            "messages": [{"role": m.role, "content": m.content} for m in request.prompt.messages]
        }
    else:
        asked = {"prompt": request.prompt.text}
    if model is not None:
        asked["model"] = model
    if workload.temperature > 0:
        asked["seed"] = workload.seed + request.number
    return {
        **fields,
        **asked,
        "max_tokens": request.output_tokens,
        "temperature": workload.temperature,
        "stream": True,
        **workload.extra_body,
    }


def workload_digest(workload: Workload, rootdir: Path) -> str:
    """Names what is measured: 16 hex digits over the prompts and every setting that shapes a request.

    How often it is measured (rounds, warm-up), where the prompts lie and how many processes send them is not
    part of it: a client that is quick enough does not show in the numbers, one that is not makes the round
    invalid.
    """
    prompts = load_prompts(workload.prompts, rootdir)
    shape = {
        "scheme": _SCHEME,
        "prompts": [[p.category, [(m.role, m.content) for m in p.messages]] for p in prompts],
        **{name: getattr(workload, name) for name in _SHAPING},
    }
    if workload.forced_acceptance is not None:
        shape["forced_acceptance"] = float(workload.forced_acceptance)
    return hashlib.sha256(msgspec.json.encode(shape, order="sorted")).hexdigest()[:16]


def _in_turn(prompts: Sequence[Prompt], rng: random.Random) -> list[Prompt]:
    """Shuffled within each category, categories taken in turn."""
    by_category: dict[str, list[Prompt]] = {}
    for prompt in prompts:
        by_category.setdefault(prompt.category, []).append(prompt)
    for group in by_category.values():
        rng.shuffle(group)
    return [p for row in zip_longest(*by_category.values()) for p in row if p is not None]


def _resized(prompts: Sequence[Prompt], place: int, chars: int) -> Prompt:
    """A prompt of about ``chars`` characters: cut at its end, or preceded by the texts that follow it."""
    prompt = prompts[place]
    first, *rest = prompt.messages
    room = max(1, chars - sum(len(m.content) for m in rest))
    if len(first.content) >= room:
        return prompt.with_first(first.content[:room])
    before: list[str] = []
    missing = room - len(first.content)
    step = 1
    while missing > 0:
        text = prompts[(place + step) % len(prompts)].text + "\n\n"
        before.append(text[:missing])
        missing -= len(text)
        step += 1
    return prompt.with_first("".join(before) + first.content)
