"""How steps become drafts: a configuration → SGLang's speculation flags and environment.

``steps`` are the draft tokens in a row that one verification can accept. SGLang counts that in three ways:

======== =============================================== =================================================
family   algorithms                                      its own settings
======== =============================================== =================================================
chain    EAGLE, EAGLE3, NEXTN, STANDALONE, FROZEN_KV_MTP ``num_steps`` = steps; draft tokens count the
                                                         root: at top-k 1 steps + 1, else a budget apart
ngram    NGRAM                                           draft tokens = steps + 1; ``num_steps`` means
                                                         nothing
block    DFLASH, DSPARK                                  draft tokens = steps + 1; ``num_steps`` is 1
======== =============================================== =================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING

from ..errors import ConfigError
from ..model import Scalar, SpecConfig
from . import acceptance_by_position
from . import sglang_flags as f

if TYPE_CHECKING:
    from ..config import Speculation


class Family(Enum):
    CHAIN = "chain"
    NGRAM = "ngram"
    BLOCK = "block"


ALGORITHMS: Mapping[str, Family] = {
    "EAGLE": Family.CHAIN,
    "EAGLE3": Family.CHAIN,
    "NEXTN": Family.CHAIN,
    "STANDALONE": Family.CHAIN,
    "FROZEN_KV_MTP": Family.CHAIN,
    "NGRAM": Family.NGRAM,
    "DFLASH": Family.BLOCK,
    "DSPARK": Family.BLOCK,
}

NEEDS_DRAFT_MODEL: Mapping[str, str] = {
    "STANDALONE": "without one SGLang starts and drafts with the model itself",
    "DFLASH": "without one SGLang does not start",
}

NGRAM_BREADTH = 10
NGRAM_DRAFT_TOKENS = 12
"""What SGLang takes where the command says nothing."""

RUNNING_CAP = 48
"""To this many requests together SGLang limits itself when it speculates and nothing else is said."""

_OURS: Mapping[str, str] = {
    f.ALGORITHM: "algorithm",
    f.STEPS: "steps",
    f.TOPK: "topk",
    f.BREADTH: "topk",
    f.DRAFT_TOKENS: "draft_tokens",
    "speculative-dflash-block-size": "draft_tokens",
    "speculative-dspark-block-size": "steps",
    f.DRAFT_MODEL: "draft_model",
}
"""Flags that come from settings of their own → which."""

_FORCED_LENGTH, _FORCED_METHOD, _FORCED_TOKENS = (
    f"SGLANG_SIMULATE_ACC_{name}" for name in ("LEN", "METHOD", "TOKEN_MODE")
)
_CANNOT_FORCE = "DSPARK"


def family_of(algorithm: str | None) -> Family | None:
    return ALGORITHMS.get((algorithm or "").upper())


def longest_draft(family: Family | None, steps: int | None, draft_tokens: int | None) -> int | None:
    """``steps`` in our sense, from SGLang's own numbers."""
    if family in (Family.NGRAM, Family.BLOCK):
        return None if draft_tokens is None else draft_tokens - 1
    return steps


def draft_flags(
    config: SpecConfig, speculation: Speculation, offered: frozenset[str], forced_acceptance: float | None
) -> tuple[str, ...]:
    """Speculation flags of one configuration; args that are no speculation flags hold with steps 0 too.

    ``args`` keys are flags without dashes, with ``_`` or ``-``; True is ``--x``, False leaves it out. Args of
    the configuration come before those of the target.

    :param offered: flags that this SGLang has; empty: unknown
    :raises ConfigError: for what SGLang cannot do, or would do otherwise than asked.
    """
    args = {f.canonical(k): v for k, v in {**speculation.args, **dict(config.args)}.items()}
    if config.off:
        plain = {k: v for k, v in args.items() if not f.Piece(k, (), ()).speculation}
        return _spelled(plain, offered)
    algorithm = _algorithm(config, speculation)
    _check_args(args)
    if forced_acceptance is not None and algorithm == _CANNOT_FORCE:
        raise ConfigError(
            f"workload.forced_acceptance: SGLang forces acceptance with {algorithm} in some of its modes "
            "only; leave it out, or use another algorithm"
        )
    draft_model = speculation.draft_model
    if draft_model is None and algorithm in NEEDS_DRAFT_MODEL:
        raise ConfigError(
            f"algorithm {algorithm} needs a draft model: set draft_model under speculation "
            f"({NEEDS_DRAFT_MODEL[algorithm]})"
        )
    ours: dict[str, Scalar] = {f.ALGORITHM: algorithm, f.DRAFT_MODEL: draft_model}
    return _spelled({**ours, **_numbers(algorithm, config), **args}, offered)


def forced_environment(config: SpecConfig, rate: float | None) -> dict[str, str]:
    """Variables that make SGLang accept ``1 + sum(rate ** i for i in 1 … steps)`` tokens a step on average.

    Each step accepts that length, rounded up or down at random, the same for all requests that are verified
    together. Accepted tokens are those drafted where SGLang can (a chain at top-k 1), else always the same
    one.
    """
    if rate is None or config.off:
        return {}
    length = 1 + sum(acceptance_by_position(rate, config.steps))
    drafted = family_of(config.algorithm) in (Family.CHAIN, Family.BLOCK) and config.topk in (1, None)
    return {
        _FORCED_LENGTH: f"{length:.6g}",
        _FORCED_METHOD: "match-expected",
        _FORCED_TOKENS: "real-draft-token" if drafted else "fixed",
    }


def _algorithm(config: SpecConfig, speculation: Speculation) -> str:
    named = config.algorithm or speculation.algorithm
    if named is None:
        raise ConfigError(
            f"{config.steps} steps need an algorithm: set algorithm under speculation to one of "
            f"{', '.join(ALGORITHMS)} (without one SGLang starts and does not speculate)"
        )
    if family_of(named) is None:
        raise ConfigError(f"algorithm {named!r} is unknown here; there are: {', '.join(ALGORITHMS)}")
    return named.upper()


def _check_args(args: Mapping[str, Scalar]) -> None:
    for name, key in _OURS.items():
        if name in args:
            raise ConfigError(f"args.{name}: {key} sets it; leave it out of args")
    if args.get(f.ADAPTIVE):
        raise ConfigError(
            f"args.{f.ADAPTIVE}: it changes the number of steps while it runs, so no number would belong to "
            "steps; take it out of the launch command, or set it to false under speculation.args"
        )


def _numbers(algorithm: str, config: SpecConfig) -> dict[str, Scalar]:
    steps, topk, draft_tokens = config.steps, config.topk or 1, config.draft_tokens
    family = ALGORITHMS[algorithm]
    if family is Family.CHAIN and topk > 1:
        return {f.STEPS: steps, f.TOPK: topk, f.DRAFT_TOKENS: _tree(steps, topk, draft_tokens)}
    if draft_tokens not in (None, steps + 1):
        raise ConfigError(
            f"draft_tokens = {draft_tokens}: with {algorithm} and {steps} steps{_at(family, topk)} there are "
            f"{steps + 1}, the steps and the token before them"
            f"{' (SGLang would change it)' if family is Family.CHAIN else ''}; leave draft_tokens out"
        )
    if family is Family.CHAIN:
        return {f.STEPS: steps, f.TOPK: topk, f.DRAFT_TOKENS: steps + 1}
    if family is Family.NGRAM:
        return {f.DRAFT_TOKENS: steps + 1, f.BREADTH: topk}
    if topk > 1:
        raise ConfigError(f"topk = {topk}: {algorithm} drafts one token a position; leave topk out")
    return {f.DRAFT_TOKENS: steps + 1}


def _at(family: Family, topk: int) -> str:
    return f" at topk {topk}" if family is Family.CHAIN else ""


def _tree(steps: int, topk: int, draft_tokens: int | None) -> int:
    most = 1 + topk + (steps - 1) * topk**2
    if draft_tokens is None:
        raise ConfigError(
            f"topk = {topk}: a tree needs draft_tokens, how many of it are verified in one step (2 to {most} "
            f"with {steps} steps, its root included)"
        )
    if not 2 <= draft_tokens <= most:
        raise ConfigError(
            f"draft_tokens = {draft_tokens}: a tree of {steps} steps at topk {topk} has 2 to {most}, its "
            "root included"
        )
    return draft_tokens


def _spelled(settings: Mapping[str, Scalar], offered: frozenset[str]) -> tuple[str, ...]:
    out: list[str] = []
    for name, value in settings.items():
        flag = f"no-{name}" if value is False else name
        if value is None or (value is False and flag not in f.SWITCHES):
            continue  # a switch that is not set
        if offered and flag not in offered:
            raise ConfigError(f"this SGLang has no flag --{flag} (see its --help)")
        out += [f"--{flag}"] if isinstance(value, bool) else [f"--{flag}", str(value)]
    return tuple(out)
