"""llama-server's flags: the names a setting has had, and the reading of a command line and of ``--help``.

A setting is known by its current long name without dashes (``spec-draft-n-max``), in ``args`` and here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath


@dataclass(frozen=True, slots=True)
class Flag:
    """One setting: all spellings it has or had, current long name first, and how many values it takes."""

    spellings: tuple[str, ...]
    values: int = 1

    @property
    def name(self) -> str:
        return self.spellings[0].lstrip("-")


def _table(*rows: str, values: int = 1) -> tuple[Flag, ...]:
    return tuple(Flag(tuple(row.split()), values) for row in rows)


MODEL = Flag(("--model", "-m"))
HF_REPO = Flag(("--hf-repo", "-hf", "-hfr"))
HOST = Flag(("--host",))
PORT = Flag(("--port",))
RPC = Flag(("--rpc",))
TYPE = Flag(("--spec-type",))
DRAFT_MODEL = Flag(("--spec-draft-model", "--model-draft", "-md"))
LEGACY_DEPTH = Flag(("--draft-max", "--draft-n", "--draft"))

DEPTHS = (
    LEGACY_DEPTH,
    *_table(
        "--spec-draft-n-max",
        "--spec-ngram-mod-n-max",
        "--spec-ngram-simple-size-m",
        "--spec-ngram-map-k-size-m",
        "--spec-ngram-map-k4v-size-m",
        "--spec-ngram-size-m",
    ),
)
"""Flags of the longest draft: what ``steps`` sets, per speculation type and age of the server."""

SPECULATION = (
    TYPE,
    DRAFT_MODEL,
    *DEPTHS,
    *_table(
        "--spec-draft-hf --hf-repo-draft -hfd -hfrd",
        "--spec-draft-n-min",
        "--spec-draft-p-split --draft-p-split",
        "--spec-draft-p-min --draft-p-min",
        "--spec-draft-sampling",
        "--spec-draft-threads --threads-draft -td",
        "--spec-draft-threads-batch --threads-batch-draft -tbd",
        "--spec-draft-cpu-mask --cpu-mask-draft -Cd",
        "--spec-draft-cpu-range --cpu-range-draft -Crd",
        "--spec-draft-cpu-strict --cpu-strict-draft",
        "--spec-draft-prio --prio-draft",
        "--spec-draft-poll --poll-draft",
        "--spec-draft-cpu-mask-batch --cpu-mask-batch-draft -Cbd",
        "--spec-draft-cpu-range-batch --cpu-range-batch-draft -Crbd",
        "--spec-draft-cpu-strict-batch --cpu-strict-batch-draft",
        "--spec-draft-prio-batch --prio-batch-draft",
        "--spec-draft-poll-batch --poll-batch-draft",
        "--spec-draft-type-k --cache-type-k-draft -ctkd",
        "--spec-draft-type-v --cache-type-v-draft -ctvd",
        "--spec-draft-override-tensor --override-tensor-draft -otd",
        "--spec-draft-n-cpu-moe --spec-draft-ncmoe --n-cpu-moe-draft -ncmoed",
        "--spec-draft-device --device-draft -devd",
        "--spec-draft-ngl --n-gpu-layers-draft --gpu-layers-draft -ngld",
        "--spec-synth-len",
        "--spec-synth-rates",
        "--spec-ngram-mod-n-min",
        "--spec-ngram-mod-n-match",
        "--spec-ngram-simple-size-n",
        "--spec-ngram-simple-min-hits",
        "--spec-ngram-map-k-size-n",
        "--spec-ngram-map-k-min-hits",
        "--spec-ngram-map-k4v-size-n",
        "--spec-ngram-map-k4v-min-hits",
        "--lookup-cache-static -lcs",
        "--lookup-cache-dynamic -lcd",
        # gone from current servers
        "--draft-min --draft-n-min",
        "--ctx-size-draft -cd",
        "--spec-ngram-size-n",
        "--spec-ngram-check-rate",
        "--spec-ngram-min-hits",
    ),
    *_table(
        "--spec-draft-cpu-moe --cpu-moe-draft -cmoed",
        "--spec-draft-backend-sampling",
        "--no-spec-draft-backend-sampling",
        "--spec-default",
        values=0,
    ),
    Flag(("--spec-replace",), values=2),
)

NOT_IDENTITY = (
    HOST,
    PORT,
    *_table(
        "--api-key",
        "--api-key-file",
        "--ssl-key-file",
        "--ssl-cert-file",
        "--log-file",
        "--log-prompts-dir",
        "--log-verbosity --verbosity -lv",
    ),
    *_table(
        "--log-verbose --verbose -v",
        "--log-disable",
        "--log-prefix",
        "--no-log-prefix",
        "--log-timestamps",
        "--no-log-timestamps",
        "--log-jsonl",
        "--no-log-jsonl",
        values=0,
    ),
)
"""What may differ between two runs of one baseline: where it listens, what it logs, its keys."""

_BY_SPELLING: Mapping[str, Flag] = {
    spelling: flag
    for flag in (*SPECULATION, *NOT_IDENTITY, MODEL, HF_REPO, RPC)
    for spelling in flag.spellings
}
_PROGRAM = re.compile(r"llama[-_]?server.*|server|serve")


@dataclass(frozen=True, slots=True)
class Piece:
    """A known flag with its values, or one other argument (``flag`` None)."""

    flag: Flag | None
    tokens: tuple[str, ...]

    @property
    def value(self) -> str | None:
        return self.tokens[1] if len(self.tokens) > 1 else None


def normal(token: str) -> str:
    """A flag as llama-server looks it up: in long ones ``_`` is ``-``."""
    return token.replace("_", "-") if token.startswith("--") else token


def known(name: str) -> Flag | None:
    """The flag that a key of ``args`` means: any spelling, without dashes, ``_`` or ``-``."""
    stem = name.lstrip("-").replace("_", "-")
    return _BY_SPELLING.get(f"--{stem}") or _BY_SPELLING.get(f"-{stem}")


def pieces(argv: Sequence[str]) -> Iterator[Piece]:
    """A command line, its known flags together with their values."""
    at = 0
    while at < len(argv):
        flag = _BY_SPELLING.get(normal(argv[at]))
        size = 1 if flag is None else 1 + flag.values
        yield Piece(flag, tuple(argv[at : at + size]))
        at += size


def program(argv: Sequence[str]) -> tuple[str, ...]:
    """The leading part of a launch command that names the server: wrappers and Python's own part included.

    Without a recognisable server it is the first element.
    """
    for at, part in enumerate(argv):
        under_python = at > 0 and PurePath(argv[at - 1]).name.startswith("python")
        if under_python and part == "-m":
            return tuple(argv[: at + 2])
        if (under_python and part.endswith(".py")) or _PROGRAM.fullmatch(PurePath(part).name):
            return tuple(argv[: at + 1])
    return tuple(argv[:1])


@dataclass(frozen=True, slots=True)
class Help:
    """What ``--help`` says: flags that work → their text. Empty: unknown, so current names are assumed."""

    flags: Mapping[str, str]

    @classmethod
    def read(cls, text: str) -> Help:
        """Entries begin with ``-`` in the first column; those "removed" are listed still, but do not work."""
        entries = re.findall(r"^-\S.*(?:\n[ \t]+\S.*)*", text, re.MULTILINE)
        flags = {
            spelling: entry
            for entry in entries
            if "argument has been removed" not in " ".join(entry.split())
            for spelling in _spellings(entry)
        }
        return cls(flags if "--ctx-size" in flags and "--model" in flags else {})

    def spell(self, flag: Flag) -> str | None:
        """A spelling that works; None when this server has none."""
        if not self.flags:
            return flag.spellings[0]
        return next((spelling for spelling in flag.spellings if spelling in self.flags), None)

    def types(self) -> frozenset[str]:
        """Speculation types that ``--spec-type`` takes; empty when unknown or when there is no such flag."""
        head = re.match(r"--spec-type\s+\[?(\S+?)\]?\s", self.flags.get("--spec-type", "") + " ")
        return frozenset(re.split(r"[,|]", head[1])) if head else frozenset()


def _spellings(entry: str) -> Iterable[str]:
    """The flags at the head of a help entry: ``-t,    --threads N     number of …``."""
    head = re.match(r"(?:--?[A-Za-z][\w.-]*(?:,\s*|\s|$))+", entry)
    return re.findall(r"--?[A-Za-z][\w.-]*", head[0]) if head else ()
