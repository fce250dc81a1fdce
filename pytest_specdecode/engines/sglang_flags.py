"""SGLang's command line as its argparse reads it: abbreviations, ``--x=y``, aliases, the names flags had.

A flag is known by its current long name without dashes (``speculative-num-steps``), in ``args`` and here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import PurePath

ALGORITHM = "speculative-algorithm"
STEPS = "speculative-num-steps"
TOPK = "speculative-eagle-topk"
DRAFT_TOKENS = "speculative-num-draft-tokens"
DRAFT_MODEL = "speculative-draft-model-path"
BREADTH = "speculative-ngram-max-bfs-breadth"
ADAPTIVE = "speculative-adaptive"
MAX_RUNNING = "max-running-requests"
METRICS = "enable-metrics"

_PLACEHOLDER = "{flags}"
_SPECULATIVE = "speculative-"


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ALIASES: Mapping[str, str] = {
    "speculative-draft-model": DRAFT_MODEL,
    "speculative-draft": DRAFT_MODEL,  # what the name was abbreviated to while that was unambiguous
    "model": "model-path",
}

_OF_SPECULATION = frozenset(["enable-multi-layer-eagle", "uno-lora-path", "decrypted-draft-config-file"])
"""Flags of speculation that are not called so."""

SWITCHES = _names(
    """
    speculative-adaptive speculative-use-rejection-sampling speculative-use-block-verification
    speculative-dspark-align-verify-tokens-to-graph-tier speculative-enable-w4a4-mxfp4-megamoe
    no-speculative-enable-w4a4-mxfp4-megamoe enable-multi-layer-eagle enable-metrics log-requests
    show-time-cost help
    """
)
"""Flags without a value."""

_LISTS = frozenset(["log-requests-target", "uvicorn-access-log-exclude-prefixes"])

NOT_IDENTITY = _names(
    """
    host port nccl-port grpc-port api-key admin-api-key ssl-keyfile ssl-certfile ssl-ca-certs
    ssl-keyfile-password log-level log-level-http log-requests log-requests-level log-requests-format
    log-requests-target decode-log-interval uvicorn-access-log-exclude-prefixes crash-dump-folder
    show-time-cost
    """
)
"""What may differ between two runs of one baseline: where it listens, what it logs, its keys."""

_SPECULATION = _OF_SPECULATION | {
    _SPECULATIVE + name
    for name in _names(
        """
        accept-threshold-acc accept-threshold-single adaptive adaptive-config algorithm attention-mode
        dflash-block-size domino-candidate-pool-size draft-attention-backend draft-kv-cache-dtype
        draft-load-format draft-model-path draft-model-quantization draft-model-revision draft-sink-size
        draft-window-size dsa-topk-backend dspark-align-verify-tokens-to-graph-tier dspark-block-size
        dspark-confidence-sts-path dspark-sps-table-path eagle-topk enable-w4a4-mxfp4-megamoe
        moe-a2a-backend moe-runner-backend ngram-capacity ngram-external-corpus-max-tokens
        ngram-external-corpus-path ngram-external-sam-budget ngram-match-type ngram-max-bfs-breadth
        ngram-max-trie-depth ngram-min-bfs-breadth num-draft-tokens num-steps token-map
        use-block-verification use-rejection-sampling
        """
    )
}
"""As of 0.5.23. Any other ``--speculative-…`` is taken for one of speculation, with one value."""

_KNOWN = _SPECULATION | NOT_IDENTITY | SWITCHES | {"model-path", "nnodes", "node-rank", MAX_RUNNING}
_FLAG = re.compile(r"--?[A-Za-z]")
_WRAPPERS = frozenset({"env", "nice", "ionice", "numactl", "taskset", "chrt", "setsid", "stdbuf"})


@dataclass(frozen=True, slots=True)
class Piece:
    """A flag with its values, or one other word (``name`` empty). ``tokens``: as they were written."""

    name: str
    values: tuple[str, ...]
    tokens: tuple[str, ...]

    @property
    def speculation(self) -> bool:
        return self.name.removeprefix("no-").startswith(_SPECULATIVE) or self.name in _OF_SPECULATION


def canonical(name: str) -> str:
    """The current name of a flag, however it is written: with dashes or without, ``_``, an alias or a
    unique beginning of it."""
    stem = name.lstrip("-").replace("_", "-")
    stem = _ALIASES.get(stem, stem)
    if stem in _KNOWN:
        return stem
    meant = {_ALIASES.get(known, known) for known in (*_KNOWN, *_ALIASES) if known.startswith(stem)}
    return meant.pop() if len(meant) == 1 else stem


def pieces(words: Sequence[str]) -> Iterator[Piece]:
    """A command line without its program, flags together with their values."""
    at = 0
    while at < len(words):
        word = words[at]
        if not _FLAG.match(word):
            yield Piece("", (word,), (word,))
            at += 1
            continue
        flag, equals, value = word.partition("=")
        name = _full_name(flag)
        values = [value] if equals else []
        end = at + 1
        while not equals and end < len(words) and _is_value(words[end]) and len(values) < _most_values(name):
            values.append(words[end])
            end += 1
        yield Piece(name, tuple(values), tuple(words[at:end]))
        at = end


def _most_values(name: str) -> float:
    if name in SWITCHES:
        return 0
    one = name in _KNOWN - _LISTS or name.startswith(_SPECULATIVE)
    return 1 if one else inf


def _full_name(flag: str) -> str:
    """argparse abbreviates long flags only, and takes ``_`` for what it is."""
    if not flag.startswith("--") or "_" in flag:
        return flag.lstrip("-")
    return canonical(flag)


def _is_value(word: str) -> bool:
    return not _FLAG.match(word) and word != _PLACEHOLDER


def said(words: Sequence[str]) -> dict[str, str | bool]:
    """What a command line sets: name → value, True for a flag without one. The last of two holds."""
    return {p.name: p.values[0] if p.values else True for p in pieces(words) if p.name}


def program(argv: Sequence[str]) -> tuple[str, ...]:
    """The leading part of a launch command that names the server: wrappers and Python's own part included.

    Without a recognisable server it is the first element.
    """
    for at, word in enumerate(argv):
        before = PurePath(argv[at - 1]).name if at else ""
        if word == "-m" and before.startswith("python"):
            return tuple(argv[: at + 2])
        if before.startswith("python") and word.endswith(".py"):
            return tuple(argv[: at + 1])
        if word == "serve" and before == "sglang":
            return tuple(argv[: at + 1])
    return tuple(argv[:1])


def runs_here(argv: Sequence[str]) -> bool:
    """Whether the program is SGLang itself behind harmless wrappers: its ``--help`` starts nothing else."""
    words = program(argv)
    if not any("sglang" in word for word in words[-2:]):
        return False
    first = PurePath(words[0]).name if words else ""
    return first in _WRAPPERS or first.startswith("python") or first == "sglang"


def offered(help_text: str) -> frozenset[str]:
    """Names of the flags that ``--help`` lists; empty when it is not SGLang's help."""
    names = frozenset(re.findall(r"(?:^  |, )--([a-z][\w-]*)", help_text, re.MULTILINE))
    return names if {"model-path", "tp-size"} & names and "mem-fraction-static" in names else frozenset()
