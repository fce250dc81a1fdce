"""Reference tables from the code itself: what a table says is what the code does.

One directive a table, ``{specdecode} options``; each function below returns it as Markdown.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import pytest
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.pycode import ModuleAnalyzer
from sphinx.util.docutils import SphinxDirective

from pytest_specdecode import config, fixtures, model, options
from pytest_specdecode.errors import SpecDecodeError
from pytest_specdecode.exitstatus import ExitStatus
from pytest_specdecode.load.validity import CHECKS
from pytest_specdecode.marker_help import DOCS as MARKERS
from pytest_specdecode.strict import type_words
from pytest_specdecode.units import Bytes, Ratio, Seconds

Row = Sequence[str]


def table(head: Row, rows: Iterator[Row] | Sequence[Row]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(c) for c in line) + " |" for line in lines) + "\n"


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def command_line() -> str:
    """Every option of the plugin, as ``--help`` has it."""
    return table(["option", "meaning"], [(f"`{_spelled(o)}`", o["help"]) for o in _options()])


def _spelled(option: dict[str, Any]) -> str:
    return option["name"] + (f"={option['metavar']}" if option["metavar"] else "")


def _options() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []

    class Group:
        def addoption(self, name: str, **said: Any) -> None:
            found.append({"name": name, "metavar": said.get("metavar"), "help": said["help"]})

    class Parser:
        def getgroup(self, name: str, description: str = "") -> Group:
            del name, description
            return Group()

        def addini(self, name: str, text: str, **said: Any) -> None:
            del said
            found.append({"name": name, "metavar": None, "help": text, "ini": True})

        def parse_known_and_unknown_args(self, args: list[str]) -> tuple[None, list[str]]:
            return None, args

    parser: Any = Parser()
    options.add_options(parser)
    options.add_short_option(parser)
    return found


def configuration() -> str:
    """Every key of ``specdecode.toml``: table by table, with type, default and meaning."""
    return "\n".join(_tables(config.TargetTable, "target.NAME"))


def _tables(kind: type[config.Table], key: str) -> Iterator[str]:
    docs = _attribute_docs(kind)
    rows, inner = [], []
    for field in msgspec.structs.fields(kind):
        table_kind = _table_of(field.type)
        if table_kind is not None:
            inner.append((table_kind, f"{key}.{field.name}"))
            continue
        rows.append((f"`{field.name}`", type_words(field.type), _default(field), docs.get(field.name, "")))
    yield f"### `[{key}]`\n\n{inspect.getdoc(kind) or ''}\n"
    yield table(["key", "type", "default", "meaning"], rows)
    for kind_, key_ in inner:
        yield from _tables(kind_, key_)


def _table_of(annotation: Any) -> type[config.Table] | None:
    for candidate in (annotation, *getattr(annotation, "__args__", ())):
        if inspect.isclass(candidate) and issubclass(candidate, config.Table):
            return candidate
    return None


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.required:
        return "required"
    value = field.default_factory() if field.default is msgspec.NODEFAULT else field.default  # type: ignore[misc]
    return "" if value is None else f"`{_written(value)}`"


def _written(value: Any) -> str:
    """A default as the file would have it."""
    match value:
        case Ratio():
            return f'"{100 * value:g}%"'
        case Seconds():
            return f'"{value:g}s"'
        case Bytes():
            return f'"{value / 2**30:g}GiB"'
    return json.dumps(value)


def _attribute_docs(kind: type) -> dict[str, str]:
    docs = ModuleAnalyzer.for_module(kind.__module__).find_attr_docs()
    return {name: " ".join(text) for (owner, name), text in docs.items() if owner == kind.__name__}


def metrics() -> str:
    """Every metric with its unit and which way is better."""
    return table(
        ["metric", "unit", "better", "meaning"],
        [
            (f"`{m.name}`", m.unit, "up" if m.higher_is_better else "down", m.meaning)
            for m in model.METRICS.values()
        ],
    )


def outcomes() -> str:
    """Every outcome, from best to worst."""
    docs = _attribute_docs(model.Outcome)
    return table(["outcome", "meaning"], [(f"`{o.value}`", docs[o.name]) for o in model.Outcome])


def statuses() -> str:
    """Exit statuses of a benchmark session that are not pytest's own."""
    docs = _attribute_docs(ExitStatus)
    return table(["exit status", "meaning"], [(str(s.value), docs[s.name]) for s in ExitStatus])


def markers() -> str:
    return table(["marker", "meaning"], [_split(text) for text in MARKERS.values()])


def _split(text: str) -> Row:
    signature, _, meaning = text.partition("): ")
    return f"`{signature})`", meaning


def fixture_table() -> str:
    """The fixtures that tests may ask for: those without a leading underscore."""
    found = [
        (name, value)
        for name, value in vars(fixtures).items()
        if isinstance(value, _FIXTURE) and not name.startswith("_")
    ]
    return table(
        ["fixture", "meaning"], [(f"`{name}`", inspect.getdoc(value) or "") for name, value in found]
    )


_FIXTURE = type(pytest.fixture(lambda: None))


def validity() -> str:
    """Every check of a round, in the order in which reasons are given."""
    return table(
        ["check", "a round is invalid when"],
        [(f"`{check.__name__}`", (inspect.getdoc(check) or "").split("\n\n")[0]) for check in CHECKS],
    )


TABLES: dict[str, Callable[[], str]] = {
    "options": command_line,
    "configuration": configuration,
    "metrics": metrics,
    "outcomes": outcomes,
    "statuses": statuses,
    "markers": markers,
    "fixtures": fixture_table,
    "validity": validity,
}


class Reference(SphinxDirective):
    """``{specdecode} NAME``: one of :data:`TABLES`."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        name = self.arguments[0]
        if name not in TABLES:
            raise self.error(f"there is no table {name!r}; there are: {', '.join(TABLES)}")
        try:
            text = TABLES[name]()
        except SpecDecodeError as error:
            raise self.error(str(error)) from error
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("specdecode", Reference)
    return {"parallel_read_safe": True}
