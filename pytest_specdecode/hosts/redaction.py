"""Commands and output as they may be shown and stored: without secrets. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

HIDDEN = "***"
# "tokens" is a count (--max-tokens), "token" a secret; "key" must be a word of its own (not "monkey").
_NAME = (
    r"(?<![A-Za-z0-9])(?:[A-Za-z0-9]+[_-])*(?:api[_-]?keys?|key|token|secrets?|password|passwd|credentials?)"
)
_FLAG = re.compile(rf"--?{_NAME}", re.IGNORECASE)
_ASSIGNMENT = re.compile(rf"((?:--?)?{_NAME}=).+", re.IGNORECASE | re.DOTALL)
_INSIDE = [
    (
        re.compile(rf"""({_NAME}(?:=|["']\s*:\s*))("[^"]*"|'[^']*'|[^\s"',;)}}\]]+)""", re.IGNORECASE),
        r"\1***",
    ),
    (re.compile(rf"(--?{_NAME}\s+)(\"[^\"]*\"|'[^']*'|[^\s\"'-]\S*)", re.IGNORECASE), r"\1***"),
    # A command as a JSON list, plain or inside a JSON string: "--api-key", "value"
    (re.compile(rf"""(\\*["']--?{_NAME}\\*["']\s*,?\s*\\*["'])[^"'\\]*""", re.IGNORECASE), r"\1***"),
    (re.compile(r"(authorization\W+(?:bearer|basic|token)?\s*)[^\s\"']+", re.IGNORECASE), r"\1***"),
    (re.compile(r"(://[^/\s:@]*:)[^/\s@]+(?=@)"), r"\1***"),
]


def redact(argv: Sequence[str]) -> tuple[str, ...]:
    """``argv`` without secrets, as it may be shown and stored.

    Hidden: what follows ``--api-key`` and its like (all values, vLLM takes several), ``--api-key=…``,
    ``*_TOKEN=…``, ``*_KEY=…``, the same inside a shell line or JSON, authorization headers, URLs' passwords.
    """
    found: list[str] = []
    hide = False
    first = False
    for word in argv:
        if hide and (not word.startswith("-") or (first and not word.startswith("--"))):
            found.append(HIDDEN)
            first = False
            continue
        hide = first = _FLAG.fullmatch(word) is not None
        assignment = _ASSIGNMENT.fullmatch(word)
        found.append(assignment[1] + HIDDEN if assignment else redact_text(word))
    return tuple(found)


def redact_text(text: str, secrets: Iterable[str] = ()) -> str:
    """``text`` (a shell line, a log line) without what looks like a secret and without the given values."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, HIDDEN)
    for pattern, replacement in _INSIDE:
        text = pattern.sub(replacement, text)
    return text


def secrets_in(env: Mapping[str, str]) -> frozenset[str]:
    """Values of variables whose names say that they are secret."""
    return frozenset(v for name, v in env.items() if v and re.fullmatch(_NAME, name, re.IGNORECASE))
