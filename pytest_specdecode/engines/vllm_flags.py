"""vLLM's command line, as its parser takes it: the flags that matter here, in every way they can be written.

``--x v``, ``--x=v``, ``_`` for ``-``, unambiguous abbreviations (``--specu``), single settings of a JSON
flag (``--speculative-config.method ngram``). A flag is known by its long name without dashes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath

FLAGS_GO_HERE = "{flags}"


@dataclass(frozen=True, slots=True)
class Flag:
    """One setting. ``shortest``: its shortest abbreviation that means nothing else among the 430 options of
    vLLM 0.32; ``values``: how many follow, None for all up to the next flag."""

    spellings: tuple[str, ...]
    shortest: str
    values: int | None = 1

    @property
    def name(self) -> str:
        return self.spellings[0].removeprefix("--")


def _table(*rows: str, values: int | None = 1) -> tuple[Flag, ...]:
    """Flags from rows of spellings, long name first; what may be left out of it is in brackets."""
    out = []
    for row in rows:
        head, *short = row.split()
        shortest = head.partition("[")[0]
        out.append(Flag((head.replace("[", "").replace("]", ""), *short), shortest, values))
    return tuple(out)


(CONFIG, METHOD, DRAFT_MODEL, TOKENS, PER_REQUEST) = SPECULATION = _table(
    "--specu[lative-config] -sc",
    "--spec-me[thod]",
    "--spec-mo[del]",
    "--spec-t[okens]",
    "--per-[request-spec-decode-metrics]",
)
"""What makes speculation. vLLM refuses the last one where there is none, so it comes and goes with it."""

(HOST, PORT) = _table("--ho[st]", "--por[t]")
(MODEL,) = _table("--model")
(NODES, DP_SIZE, DP_LOCAL, DP_BACKEND, EXECUTOR, MAX_SEQS, MAX_ACTIVE, MAX_LENGTH) = MEANING = _table(
    "--nn[odes] -n",
    "--data-parallel-size -dp",
    "--data-parallel-size-[local] -dpl",
    "--data-parallel-b[ackend] -dpb",
    "--distributed-e[xecutor-backend]",
    "--max-num-se[qs]",
    "--max-num-a[ctive-seqs]",
    "--max-m[odel-len]",
)
(EXTERNAL_LB, HYBRID_LB) = BALANCING = _table(
    "--data-parallel-e[xternal-lb] -dpe", "--data-parallel-h[ybrid-lb] -dph", values=0
)
(NO_STATS,) = _table("--disable-log-st[ats]", values=0)

NOT_IDENTITY = (
    HOST,
    PORT,
    *_table(
        "--ud[s]",
        "--ssl-k[eyfile]",
        "--ssl-certf[ile]",
        "--ssl-ca[-certs]",
        "--uv[icorn-log-level]",
        "--log-c[onfig-file]",
        "--log-lev[el]",
        "--max-log-[len]",
        "--disable-access-log-for-endpoints",
        "--master-p[ort]",
        "--data-parallel-rp[c-port] -dpp",
    ),
    *_table("--api-k[ey]", values=None),
    *_table(
        "--disable-u[vicorn-access-log]",
        "--no-disable-u[vicorn-access-log]",
        "--enable-log-r[equests]",
        "--no-enable-log-r[equests]",
        "--disable-log-r[equests]",
        "--enable-log-o[utputs]",
        "--no-enable-log-o[utputs]",
        "--enable-log-d[eltas]",
        "--no-enable-log-d[eltas]",
        "--log-e[rror-stack]",
        "--no-log-e[rror-stack]",
        "--ag[gregate-engine-logging]",
        values=0,
    ),
)
"""What may differ between two runs of one baseline: where it listens, what it logs, its keys."""

_KNOWN = (*SPECULATION, MODEL, *MEANING, *BALANCING, NO_STATS, *NOT_IDENTITY)
_BY_SPELLING: Mapping[str, Flag] = {spelling: flag for flag in _KNOWN for spelling in flag.spellings}


@dataclass(frozen=True, slots=True)
class Piece:
    """A known flag with its values, or one other argument (``flag`` None).

    ``key``: what follows the flag's name in ``--speculative-config.method``.
    """

    flag: Flag | None
    tokens: tuple[str, ...]
    values: tuple[str, ...] = ()
    key: str = ""

    @property
    def value(self) -> str | None:
        return self.values[0] if self.values else None


def normal(token: str) -> str:
    """A flag's name as vLLM looks it up: ``_`` is ``-`` up to the first dot or equals sign."""
    name, equals, value = token.partition("=")
    stem, dot, key = name.partition(".")
    return (stem.replace("_", "-") if stem.startswith("--") else stem) + dot + key + equals + value


def known(name: str) -> Flag | None:
    """The flag that ``name`` means: with its dashes, abbreviated or not, ``_`` or ``-``."""
    spelled = normal(name)
    if spelled in _BY_SPELLING:
        return _BY_SPELLING[spelled]
    if not spelled.startswith("--"):
        return None
    return next(
        (f for f in _KNOWN if f.spellings[0].startswith(spelled) and spelled.startswith(f.shortest)), None
    )


def pieces(argv: Sequence[str]) -> Iterator[Piece]:
    """A command line, its known flags together with their values."""
    at = 0
    while at < len(argv):
        token = argv[at]
        at += 1
        name, equals, attached = token.partition("=")
        stem, dot, key = name.partition(".")
        flag = known(stem) if token.startswith("-") else None
        if flag is None:
            yield Piece(None, (token,))
            continue
        values = (attached,) if equals else _following(argv[at:], 1 if dot else flag.values)
        at += 0 if equals else len(values)
        yield Piece(flag, (token, *(() if equals else values)), values, key)


def _following(words: Sequence[str], count: int | None) -> tuple[str, ...]:
    """The values after a flag: ``count`` of them, or all up to the next flag."""
    if count is not None:
        return tuple(words[:count])
    end = next((i for i, w in enumerate(words) if w.startswith("-") or w == FLAGS_GO_HERE), len(words))
    return tuple(words[:end])


def program(argv: Sequence[str]) -> tuple[str, ...]:
    """The leading part of a launch command that names the server: wrappers, Python's own part, ``serve``.

    Without a recognisable server it is the first element.
    """
    end = _program_end(argv)
    if end is None:
        return tuple(argv[:1])
    return tuple(argv[: end + 1 if tuple(argv[end : end + 1]) == ("serve",) else end])


def is_vllm(argv: Sequence[str]) -> bool:
    """Whether ``argv`` starts vLLM itself, so that what it does not say has vLLM's defaults."""
    head = program(argv)
    return len(head) > 0 and (head[-1] == "serve" or head[-1].startswith("vllm."))


def positional_model(argv: Sequence[str]) -> str | None:
    """The model of ``vllm serve MODEL``: the word after ``serve``."""
    head = program(argv)
    following = argv[len(head) : len(head) + 1]
    if head[-1:] != ("serve",) or not following or following[0].startswith("-"):
        return None
    return following[0] if following[0] != FLAGS_GO_HERE else None


def identity_words(tokens: Sequence[str]) -> tuple[str, ...]:
    """Tokens of one argument in one spelling, whichever was used."""
    head = normal(tokens[0])
    if head.startswith("--") and "=" in head:
        name, _, value = head.partition("=")
        return (name, value, *tokens[1:])
    return (head, *tokens[1:])


def _program_end(argv: Sequence[str]) -> int | None:
    """Where the server's own arguments begin, ``serve`` not yet passed."""
    python = False
    for at, part in enumerate(argv):
        name = PurePath(part).name
        if python and part == "-m":
            return at + 2
        if name == "vllm" or (python and part.endswith(".py")):
            return at + 1
        python = name.startswith("python") or (python and part.startswith("-"))
    return None
