"""ExecStart as systemd keeps it, and as it must be written so that systemd keeps just that.

Sources: systemd.service(5) "Command lines", systemd.unit(5) "Specifiers", org.freedesktop.systemd1(5).
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..errors import BrokenError
from ..hosts.redaction import redact

_PREFIXES: Mapping[str, str] = {
    "ignore-failure": "-",
    "privileged": "+",
    "no-setuid": "!",
    "ambient": "!!",
    "no-env-expand": ":",
}
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "%": "%%"}
_VARIABLE = re.compile(r"\$(?:\$|\{([A-Za-z_][A-Za-z0-9_]*)\}|([A-Za-z_][A-Za-z0-9_]*))")


@dataclass(frozen=True, slots=True)
class ExecStart:
    """One command of a unit. ``argv`` has specifiers expanded and quotes removed, ``$VAR`` not yet
    replaced.
    """

    path: str
    argv: tuple[str, ...]
    flags: tuple[str, ...] = ()
    """systemd's words for the prefixes: ignore-failure, privileged, no-setuid, ambient, no-env-expand."""

    @property
    def expands(self) -> bool:
        return "no-env-expand" not in self.flags

    def __str__(self) -> str:
        """For people; without secrets."""
        return shlex.join(redact(self.argv))

    def line(self) -> str:
        """The value of ``ExecStart=`` from which systemd reads exactly this."""
        prefix = "".join(_PREFIXES[flag] for flag in self.flags)
        if self.argv[0] == self.path:
            return " ".join([quote(prefix + self.path), *map(quote, self.argv[1:])])
        return " ".join([quote(prefix + "@" + self.path), *map(quote, self.argv)])


def quote(word: str) -> str:
    """``word`` in systemd's quotes; ``$`` is left for systemd to replace, ``%`` is not."""
    plain = "".join(
        _ESCAPES.get(c, c if c.isprintable() or c == " " else "".join(f"\\x{b:02x}" for b in c.encode()))
        for c in word
    )
    return f'"{plain}"'


def literal(word: str) -> str:
    """A word of our own, in which ``$`` means itself."""
    return word.replace("$", "$$")


def parse_exec_start(text: str) -> tuple[ExecStart, ...]:
    """The answer of ``busctl --json=short get-property … ExecStartEx`` (or ``ExecStart``).

    :raises BrokenError: when it is not such an answer.
    """
    try:
        rows = json.loads(text)["data"]
        return tuple(_row(row) for row in rows)
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise BrokenError(f"systemd's answer about ExecStart cannot be read: {text[:200]!r}") from error


def _row(row: Sequence[object]) -> ExecStart:
    path, argv, flags = row[0], row[1], row[2]
    if not isinstance(path, str) or not isinstance(argv, list) or not all(isinstance(a, str) for a in argv):
        raise TypeError(row)
    if isinstance(flags, list):
        unknown = [f for f in flags if f not in _PREFIXES]
        if unknown:
            raise BrokenError(
                f"ExecStart has the prefix {unknown[0]!r}, which this version cannot write back"
            )
        return ExecStart(path, tuple(argv), tuple(flags))
    return ExecStart(path, tuple(argv), ("ignore-failure",) if flags else ())


def variables(words: Sequence[str]) -> tuple[str, ...]:
    """Names of the environment variables that systemd would replace in ``words``, each once."""
    names = (found[1] or found[2] for word in words for found in _VARIABLE.finditer(word))
    return tuple(dict.fromkeys(name for name in names if name))


def object_path(unit: str) -> str:
    """The unit's object on the bus: every byte but letters and digits becomes ``_xx``; a leading digit,
    too.
    """
    label = "".join(
        chr(b) if chr(b).isascii() and chr(b).isalnum() and not (i == 0 and chr(b).isdigit()) else f"_{b:02x}"
        for i, b in enumerate(unit.encode())
    )
    return f"/org/freedesktop/systemd1/unit/{label}"


def parse_environment_file(text: str) -> dict[str, str]:
    """``NAME=value`` lines as systemd.exec(5) reads them, quotes apart: good enough to look for flags in
    it.
    """
    joined = re.sub(r"\\\n", "", text)
    found = {}
    for line in joined.splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith(("#", ";")):
            found[name.strip()] = value.strip().strip("\"'")
    return found
