"""The ``specdecode`` command: what is not a test. Light to start: a subcommand is imported when it is called.

Each subcommand is a module of its name here, with ``arguments(parser)`` and ``run(args)``, which returns the
exit status.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Final, Protocol, cast

from .. import __version__
from ..errors import BaselineError, ConfigError, SpecDecodeError
from ..hosts.redaction import redact_text

PROGRAM: Final = "specdecode"
COMMANDS: Final[Mapping[str, str]] = {
    "doctor": "look at everything that a run of a target needs, and touch nothing",
    "clean": "stop a target's service, free its machine, and prove that nothing is left",
    "report": "show a stored --spec-json report: as the terminal table, HTML or markdown",
    "compare": "judge one --spec-json report against another, as if that were the baseline",
    "baseline": "show stored baselines; write floors and notes into them",
}
WRONG_SETTINGS: Final = 4
NOT_MEASURABLE: Final = 10
INTERRUPTED: Final = 130
UNREAD: Final = 141
"""As a shell says of a command whose reader has gone (SIGPIPE)."""
_STATUSES = f"""exit status: 0 all is well; 1 something regressed, or is not in order; 2 wrong usage;
{WRONG_SETTINGS} a file that cannot be used; {NOT_MEASURABLE} dirty, broken or invalid; 11 undecided;
{INTERRUPTED} interrupted"""


class Command(Protocol):
    """A module of this package."""

    def arguments(self, parser: argparse.ArgumentParser) -> None: ...
    def run(self, args: argparse.Namespace) -> int: ...


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command ``argv`` (default: the process's own); the exit status.

    :raises SystemExit: 2 for wrong usage, 0 after ``--help``, as argparse does.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    args = _parser(words).parse_args(words)
    try:
        status = _command(args.command).run(args)
        sys.stdout.flush()
    except KeyboardInterrupt:
        _complain("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # the reader (head, less) has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
    except SpecDecodeError as error:
        _complain(str(error))
        return WRONG_SETTINGS if isinstance(error, ConfigError | BaselineError) else NOT_MEASURABLE
    return status


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """The parser, which knows the arguments of the one subcommand that ``words`` call."""
    parser = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Benchmarks of speculative decoding: what is not a test (those are run by pytest).",
        epilog=_STATUSES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, summary in COMMANDS.items():
        sub = commands.add_parser(name, help=summary, description=f"{summary}.", allow_abbrev=False)
        if words and words[0] == name:
            _command(name).arguments(sub)
    return parser


def _command(name: str) -> Command:
    return cast(Command, importlib.import_module(f".{name}", __package__))


def _complain(text: str) -> None:
    sys.stderr.write(f"{PROGRAM}: {redact_text(text)}\n")
