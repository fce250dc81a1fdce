"""What GitHub shows beside the code: a workflow command for each case that did not end well. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..model import Outcome
from . import view

_LEVELS = {Outcome.REGRESSED: "error", Outcome.MEASURED: "error"}
"""Of an outcome; any other is a warning: it says nothing against the code."""


def workflow_commands(data: Mapping[str, Any], *, root: Path, workspace: Path) -> list[str]:
    """``::error file=…,line=…,title=…::…`` for regressions and failed asserts, ``::warning …`` for the rest.

    The worst come first, since GitHub shows ten of each kind.

    :param root: what the tests' file names are relative to
    :param workspace: the checkout, which GitHub's names are relative to; tests outside of it have no place
    """
    return [_annotation(problem, root, workspace) for problem in view.problems(data)]


def _annotation(problem: view.Problem, root: Path, workspace: Path) -> str:
    place = {}
    file = (root / problem.file).resolve()
    if file.is_relative_to(workspace):
        place["file"] = str(file.relative_to(workspace))
        if problem.line is not None:
            place["line"] = str(problem.line)
    word = "failed" if problem.outcome is Outcome.MEASURED else problem.outcome.value
    properties = place | {"title": f"{word}: {problem.case or problem.test}"}
    given = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{_LEVELS.get(problem.outcome, 'warning')} {given}::{_message(problem.gist)}"


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
