"""What a session leaves beside its terminal output: the files that were asked for, and what GitHub shows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from .errors import ConfigError
from .hosts.redaction import HIDDEN
from .options import Settings
from .report.jsonfile import write_report
from .report.output import append_summary, write_file

Plain = Mapping[str, Any]
_T = TypeVar("_T")


def write_files(settings: Settings, data: Plain) -> list[str]:
    """Write each report that the options ask for; what could not be written, and why."""
    return [problem for problem in _written(settings, data) if problem]


def _written(settings: Settings, data: Plain) -> Iterator[str]:
    if settings.json_file is not None:
        yield _tried(write_report, settings.json_file, data)
    if settings.markdown_file is not None:
        from .report.markdown import render_markdown  # noqa: PLC0415

        write = functools.partial(write_file, "--spec-markdown")
        yield _tried(write, settings.markdown_file, render_markdown(data))
    if settings.html_file is not None:
        from .report.html import render_html  # noqa: PLC0415  (Jinja2)

        yield _tried(functools.partial(write_file, "--spec-html"), settings.html_file, render_html(data))


def _tried(write: Callable[[Path, _T], None], path: Path, content: _T) -> str:
    try:
        write(path, content)
    except ConfigError as error:
        return str(error)
    return ""


def on_github(data: Plain, *, root: Path, environment: Mapping[str, str]) -> list[str]:
    """Lines that become annotations on GitHub Actions, and a note where its summary could not be written.

    :param root: pytest's rootdir
    :param environment: of this process; without GitHub's variables nothing is written and said
    """
    lines: list[str] = []
    if summary := environment.get("GITHUB_STEP_SUMMARY"):
        from .report.markdown import STEP_SUMMARY_BYTES, render_markdown  # noqa: PLC0415

        note = append_summary(Path(summary), render_markdown(data), limit=STEP_SUMMARY_BYTES)
        lines += [note] if note else []
    if environment.get("GITHUB_ACTIONS") == "true":
        from .report.annotations import workflow_commands  # noqa: PLC0415

        workspace = Path(environment.get("GITHUB_WORKSPACE") or root).resolve()
        lines += workflow_commands(data, root=root, workspace=workspace)
    return lines


def without(value: Any, secret: str) -> Any:
    """Plain data in which no text holds ``secret``."""
    if isinstance(value, str):
        return value.replace(secret, HIDDEN)
    if isinstance(value, Mapping):
        return {without(name, secret): without(inner, secret) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [without(inner, secret) for inner in value]
    return value
