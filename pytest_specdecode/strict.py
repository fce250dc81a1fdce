"""Plain data → msgspec structs, with errors that name the whole key, the value and what was expected.

msgspec alone says ``Expected `int`, got `str` - at `$[...].steps[1]` ``: neither the target nor the value.
"""

from __future__ import annotations

import difflib
import json
import types
from collections.abc import Mapping
from typing import Any, Literal, Union, cast, get_args, get_origin

import msgspec

from .errors import ConfigError
from .units import Bytes, Ratio, Seconds, parse_quantity


class Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a configuration file."""


_QUANTITIES: tuple[type, ...] = (Seconds, Ratio, Bytes)
_WORDS: dict[Any, tuple[str, str]] = {
    str: ("a string", "strings"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    bool: ("true or false", "booleans"),
}
_SECRETS = ("_KEY", "_TOKEN", "PASSWORD", "SECRET")


def decode(kind: Any, plain: object, key: str) -> Any:
    """``plain`` as a ``kind``: a :class:`Table`, a list, a dict, a quantity or a scalar.

    :param key: how the file's reader would call this place, ``target.qwen.gate``.
    :raises ConfigError: naming the key, the value and what was expected.
    """
    if isinstance(kind, type) and issubclass(kind, Table):
        return _table(kind, plain, key)
    if get_origin(kind) is dict and isinstance(plain, Mapping):
        value_kind = get_args(kind)[1]
        return {name: decode(value_kind, value, f"{key}.{name}") for name, value in plain.items()}
    if get_origin(kind) is list and isinstance(plain, list):
        item_kind = get_args(kind)[0]
        return [decode(item_kind, item, f"{key}[{i}]") for i, item in enumerate(plain)]
    if kind is Any:
        return _json(plain, key)
    try:
        return msgspec.convert(plain, kind, dec_hook=parse_quantity)
    except msgspec.ValidationError:
        raise ConfigError(f"{key}: {shown(plain, key)} is not {type_words(kind)}") from None
    except ConfigError as error:
        raise ConfigError(f"{key}: {error}") from None


def shown(value: object, key: str = "") -> str:
    """``value`` as its file has it, shortened; what ``key`` says to be a secret is not shown."""
    if key.upper().endswith(_SECRETS):
        return "the value (not shown)"
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:77]}…"


def did_you_mean(word: str, known: list[str]) -> str:
    """The end of an error message about an unknown ``word``."""
    close = difflib.get_close_matches(word, known, n=1)
    guess = f'did you mean "{close[0]}"? ' if close else ""
    return f"{guess}(there are: {', '.join(sorted(known))})"


def _table(kind: type[Table], plain: object, key: str) -> Table:
    if not isinstance(plain, Mapping):
        raise ConfigError(f"{key}: {shown(plain, key)} is not a table")
    fields = {f.name: f for f in msgspec.structs.fields(kind)}
    for name in plain:
        here = f"{key}.{name}" if key else name
        if name not in fields:
            raise ConfigError(f"{here}: unknown key; {did_you_mean(name, list(fields))}")
    values = {
        name: decode(fields[name].type, value, f"{key}.{name}" if key else name)
        for name, value in plain.items()
    }
    for name, field in fields.items():
        if field.required and name not in plain:
            raise ConfigError(f"{key}.{name}: missing; expected {type_words(field.type)}".lstrip("."))
    return kind(**values)


def _json(plain: object, key: str) -> object:
    """Anything that JSON can carry: TOML's dates and times are refused."""
    if isinstance(plain, Mapping):
        return {str(name): _json(value, f"{key}.{name}") for name, value in plain.items()}
    if isinstance(plain, list):
        return [_json(item, f"{key}[{i}]") for i, item in enumerate(plain)]
    if plain is None or isinstance(plain, str | int | float):
        return plain
    raise ConfigError(
        f"{key}: {shown(plain, key)} is not something that JSON can carry; write it as a string"
    )


def type_words(kind: Any) -> str:
    """``kind`` in words, for "expected …"."""
    if kind in _WORDS:
        return _WORDS[kind][0]
    if kind in _QUANTITIES:
        return cast(str, kind.words)
    origin, args = get_origin(kind), get_args(kind)
    if origin is list:
        return f"a list of {_WORDS[args[0]][1] if args[0] in _WORDS else 'tables'}"
    if origin is Literal:
        return "one of " + ", ".join(json.dumps(a) for a in args)
    if origin in (Union, types.UnionType):
        return " or ".join(type_words(a) for a in args if a is not type(None))
    return "a table"
