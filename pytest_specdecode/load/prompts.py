"""Where prompts come from: the built-in ones, or a file of one of the usual forms.

=============== ==================================================================================
``builtin:X``   code, chat, math, summary, rewriting, or mixed (all of them in turn)
JSONL           a line each: ``{"prompt": "…"}`` or ``{"messages": [{"role": …, "content": …}, …]}``
ShareGPT        a JSON list of ``{"conversations": [{"from": "human", "value": "…"}, …]}``
Spec-Bench,     JSONL with ``{"turns": ["…", …], "category": "…"}``; of several turns the first is used,
MT-Bench        since the later ones need the model's own answers
=============== ==================================================================================
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import msgspec

from ..errors import ConfigError

BUILTIN = "builtin:"
MIXED = "mixed"
_HUMAN = frozenset({"human", "user"})
_FORMS = '"prompt", "messages", "turns" or "conversations"'


@dataclass(frozen=True, slots=True)
class Message:
    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Prompt:
    """What a request asks. ``category`` is empty where the source has none."""

    messages: tuple[Message, ...]
    category: str = ""

    @classmethod
    def of(cls, text: str, category: str = "") -> Prompt:
        return cls((Message("user", text),), category)

    @property
    def text(self) -> str:
        """As one text, for the completions endpoint: the contents of the messages, a blank line between."""
        return "\n\n".join(m.content for m in self.messages)

    def with_first(self, content: str) -> Prompt:
        """The same with other content in the first message."""
        first, *rest = self.messages
        return Prompt((Message(first.role, content), *rest), self.category)


def load_prompts(source: str, rootdir: Path) -> tuple[Prompt, ...]:
    """The prompts of ``source``; a relative path is looked up in ``rootdir``.

    :raises ConfigError: naming file and line: no such file or category, unreadable, no prompt in it.
    """
    if source.startswith(BUILTIN):
        return _builtin_category(source.removeprefix(BUILTIN))
    path = rootdir / Path(source).expanduser()
    try:
        data = path.read_bytes()
    except OSError as exc:
        raise ConfigError(
            f"workload.prompts: cannot read {path}: {exc.strerror}; "
            f"give a file or one of {', '.join(BUILTIN + c for c in _categories())}"
        ) from exc
    prompts = tuple(_parse_list(data, path) if data.lstrip()[:1] == b"[" else _parse_lines(data, path))
    if not prompts:
        raise ConfigError(f"workload.prompts: {path} has no prompt in it (expected {_FORMS})")
    return prompts


@lru_cache(maxsize=1)
def _builtin() -> tuple[Prompt, ...]:
    data = resources.files(__package__).joinpath("builtin.jsonl").read_bytes()
    return tuple(_parse_lines(data, Path("builtin.jsonl")))


def _categories() -> list[str]:
    return [MIXED, *dict.fromkeys(p.category for p in _builtin())]


def _builtin_category(name: str) -> tuple[Prompt, ...]:
    if name not in _categories():
        known = ", ".join(BUILTIN + c for c in _categories())
        raise ConfigError(f"workload.prompts: there is no {BUILTIN + name}; there are: {known}")
    return tuple(p for p in _builtin() if name in {MIXED, p.category})


def _parse_lines(data: bytes, path: Path) -> Iterator[Prompt]:
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            place = f"{path}, line {number}"
            yield from _prompt_of(_decode(line, place), place)


def _parse_list(data: bytes, path: Path) -> Iterator[Prompt]:
    """A JSON list, such as ShareGPT's. Conversations without a human's turn occur there and are left out."""
    for number, entry in enumerate(_decode(data, str(path)), 1):
        yield from _prompt_of(entry, f"{path}, entry {number}")


def _decode(data: bytes, place: str) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise ConfigError(f"workload.prompts: {place}: not JSON ({exc})") from exc


def _prompt_of(entry: Any, place: str) -> Iterator[Prompt]:
    if isinstance(entry, dict):
        category = entry.get("category")
        category = category if isinstance(category, str) else ""
        for key, read in _READERS.items():
            if key in entry:
                try:
                    messages = read(entry[key])
                except (TypeError, KeyError, AttributeError, IndexError) as exc:
                    raise ConfigError(
                        f'workload.prompts: {place}: "{key}" is not as expected ({exc!r})'
                    ) from exc
                if messages:
                    yield Prompt(messages, category)
                return
    raise ConfigError(f"workload.prompts: {place}: an object with {_FORMS} was expected")


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"text expected, not {value!r:.60}")
    return value


def _from_prompt(value: object) -> tuple[Message, ...]:
    return (Message("user", _text(value)),)


def _from_messages(value: list[Mapping[str, object]]) -> tuple[Message, ...]:
    if not value:
        raise TypeError("no message in it")
    return tuple(Message(_text(m["role"]), _text(m["content"])) for m in value)


def _from_turns(value: list[object]) -> tuple[Message, ...]:
    if not value:
        raise TypeError("no turn in it")
    return (Message("user", _text(value[0])),)


def _from_conversations(value: list[Mapping[str, object]]) -> tuple[Message, ...]:
    for turn in value:
        if turn.get("from") in _HUMAN:
            return (Message("user", _text(turn["value"])),)
    return ()


_READERS: Mapping[str, Callable[[Any], tuple[Message, ...]]] = {
    "prompt": _from_prompt,
    "messages": _from_messages,
    "turns": _from_turns,
    "conversations": _from_conversations,
}
