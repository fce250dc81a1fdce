"""The three markers, as values. Their arguments are checked here, by name and type."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import model
from .errors import ConfigError
from .marker_help import DOCS
from .model import Scalar, SpecConfig
from .units import Ratio, parse_quantity


@dataclass(frozen=True, slots=True)
class SpeculativeMark:
    """``@pytest.mark.speculative``: the configurations of a test."""

    steps: tuple[int, ...]
    algorithm: str | None = None
    topk: int | None = None
    draft_tokens: int | None = None
    args: Mapping[str, Scalar] = field(default_factory=dict)

    @classmethod
    def parse(cls, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> SpeculativeMark:
        given = dict(kwargs)
        if args:
            _at_most_one("speculative", args, "steps")
            if "steps" in given:
                raise ConfigError(f"speculative: steps given twice; {_usage('speculative')}")
            given["steps"] = args[0]
        if "steps" not in given:
            raise ConfigError(f"speculative: steps is missing; {_usage('speculative')}")
        steps = given.pop("steps")
        algorithm = given.pop("algorithm", None)
        if algorithm is not None and not isinstance(algorithm, str):
            raise ConfigError(
                f"speculative: algorithm={algorithm!r} is not a string; {_usage('speculative')}"
            )
        topk, draft_tokens = (given.pop(name, None) for name in ("topk", "draft_tokens"))
        for name, value in (("topk", topk), ("draft_tokens", draft_tokens)):
            if value is not None:
                _whole("speculative", name, value, least=1)
        for name, value in given.items():
            if not isinstance(value, str | int | float | bool):
                raise ConfigError(
                    f"speculative: {name}={value!r} is not a plain value; {_usage('speculative')}"
                )
        numbers = [steps] if isinstance(steps, int) else steps
        return cls(_levels("speculative", "steps", numbers, least=0), algorithm, topk, draft_tokens, given)


@dataclass(frozen=True, slots=True)
class ConcurrencyMark:
    """``@pytest.mark.concurrency``: the concurrency levels of a test."""

    levels: tuple[int, ...]

    @classmethod
    def parse(cls, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> ConcurrencyMark:
        if kwargs:
            raise ConfigError(
                f"concurrency: unknown argument {next(iter(kwargs))!r}; {_usage('concurrency')}"
            )
        if not args:
            raise ConfigError(f"concurrency: no level given; {_usage('concurrency')}")
        return cls(_levels("concurrency", "level", args, least=1))


@dataclass(frozen=True, slots=True)
class GateMark:
    """``@pytest.mark.gate``: what differs from the target's gate. None: as the target has it."""

    tolerance: float | None = None
    margin: float | None = None
    metrics: tuple[str, ...] | None = None
    floor: Mapping[str, float] = field(default_factory=dict)

    @classmethod
    def parse(cls, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> GateMark:
        if args:
            raise ConfigError(f"gate: give its arguments by name; {_usage('gate')}")
        unknown = set(kwargs) - {"tolerance", "margin", "metric", "floor"}
        if unknown:
            raise ConfigError(f"gate: unknown argument {min(unknown)!r}; {_usage('gate')}")
        return cls(
            _share("tolerance", kwargs.get("tolerance")),
            _share("margin", kwargs.get("margin")),
            _metrics(kwargs.get("metric")),
            _floor(kwargs.get("floor", {})),
        )


def _usage(marker: str) -> str:
    return f"valid is {DOCS[marker].split('): ')[0]})"


def _at_most_one(marker: str, args: tuple[Any, ...], name: str) -> None:
    if len(args) > 1:
        raise ConfigError(
            f"{marker}: one positional argument ({name}), a number or a list, not {len(args)}; "
            f"{_usage(marker)}"
        )


def _whole(marker: str, name: str, value: object, *, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ConfigError(
            f"{marker}: {name}={value!r} is not a whole number of at least {least}; {_usage(marker)}"
        )
    return value


def _levels(marker: str, name: str, values: object, *, least: int) -> tuple[int, ...]:
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise ConfigError(f"{marker}: {name}={values!r} is not a number or a list of them; {_usage(marker)}")
    found = tuple(_whole(marker, name, value, least=least) for value in values)
    if not found:
        raise ConfigError(f"{marker}: the list of {name} is empty; {_usage(marker)}")
    if len(set(found)) < len(found):
        raise ConfigError(f"{marker}: a {name} is named twice in {list(found)}")
    return found


def _share(name: str, value: object) -> float | None:
    if value is None:
        return None
    try:
        return float(parse_quantity(Ratio, value))
    except ConfigError as error:
        raise ConfigError(f"gate: {name}: {error}; {_usage('gate')}") from None


def _metrics(value: object) -> tuple[str, ...] | None:
    if value is None:
        return None
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not names or not all(isinstance(n, str) for n in names):
        raise ConfigError(f"gate: metric={value!r} is not a name or a list of names; {_usage('gate')}")
    return tuple(model.metric(name).name for name in names)


def _floor(value: object) -> dict[str, float]:
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"gate: floor={value!r} is not a mapping such as {{'tok_s': 180}}; {_usage('gate')}"
        )
    for name, number in value.items():
        model.metric(name)
        if isinstance(number, bool) or not isinstance(number, int | float) or not number > 0:
            raise ConfigError(f"gate: floor of {name} = {number!r} is not a number above 0")
    return {name: float(number) for name, number in value.items()}


def configurations(mark: SpeculativeMark, defaults: Defaults) -> tuple[SpecConfig, ...]:
    """The configurations of a marker, with the target's own words where it is silent."""
    return tuple(
        SpecConfig.of(
            steps,
            algorithm=mark.algorithm or defaults.algorithm,
            topk=mark.topk or defaults.topk,
            draft_tokens=mark.draft_tokens or defaults.draft_tokens,
            args={**defaults.args, **mark.args} if steps else {},
        )
        for steps in mark.steps
    )


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a target says of speculation, for tests that do not."""

    algorithm: str | None = None
    topk: int | None = 1
    draft_tokens: int | None = None
    args: Mapping[str, Scalar] = field(default_factory=dict)
