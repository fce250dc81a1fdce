"""How steps become drafts: a configuration → llama-server's speculation flags, in the words it knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..errors import ConfigError
from ..model import Scalar, SpecConfig
from . import acceptance_by_position
from . import llamacpp_flags as f

if TYPE_CHECKING:
    from ..config import Speculation

DEPTH: Mapping[str, tuple[tuple[str, ...], ...]] = {
    "draft": (("spec-draft-n-max",), ("draft-max",)),
    "ngram-mod": (("spec-ngram-mod-n-max",), ("draft-max",)),
    "ngram-simple": (("spec-ngram-simple-size-m",), ("spec-ngram-size-m", "draft-max")),
    "ngram-map-k": (("spec-ngram-map-k-size-m",), ("spec-ngram-size-m", "draft-max")),
    "ngram-map-k4v": (("spec-ngram-map-k4v-size-m",), ("spec-ngram-size-m", "draft-max")),
    "ngram-cache": (("draft-max",),),
}
"""How steps become drafts: per type the flags that all get the number, newest servers first."""

SHORT = "ngram-simple"
SHORT_LOOKUPS = ("spec-ngram-simple-size-n", "spec-ngram-size-n")
SHORT_LOOKUP_DEFAULT = 12
"""This type drafts nothing, silently, when the draft is to be shorter than what it looks up."""

NGRAM_CACHE_DEPTH = 8
"""Current servers draft this many tokens with ngram-cache, whatever is asked of them."""

SIMPLE = "draft-simple"
TYPES = (SIMPLE, "draft-eagle3", "draft-mtp", "draft-dflash", "draft-dspark", *list(DEPTH)[1:])
OWN_HEADS = "draft-mtp"
"""The one draft type that can do without a draft model: the model brings the layers itself."""


SYNTHETIC = ("spec-synth-rates", "spec-synth-len")
"""Rates are shares of drafts accepted up to each position, not chances given the one before: 0.5,0.5,0.5
accepts all of a draft or nothing."""


def draft_flags(
    config: SpecConfig, speculation: Speculation, server: f.Help, forced_acceptance: float | None = None
) -> tuple[str, ...]:
    """Speculation flags of one configuration; args that are no speculation flags hold with steps 0 too.

    ``args`` keys are flags without dashes, with ``_`` or ``-``; True is ``--x``, False ``--no-x``. Args of
    the configuration come before those of the target.

    :raises ConfigError: for what llama.cpp, or this server by its ``--help``, cannot do, and for settings
        with which it would start and silently not speculate.
    """
    args = {_canonical(k): v for k, v in {**speculation.args, **dict(config.args)}.items()}
    if config.off:
        plain = {k: v for k, v in args.items() if f.known(k) not in f.SPECULATION}
        return _spelled_args(plain, server)
    kinds = _checked_types(config, speculation, server)
    _check_shape(config)
    _check_args(args, kinds, config.steps)
    depth = {flag: config.steps for kind in kinds for flag in _depth_flags(kind, config.steps, server)}
    if "draft-max" in depth:  # servers of that age may ask for drafts of at least five tokens
        args = {"draft-min": 0, **args}
    if forced_acceptance is not None:
        args |= _synthetic(forced_acceptance, config.steps, args)
    return (
        *_draft_model(kinds, speculation, server),
        *_type(kinds, server),
        *(token for flag, value in depth.items() for token in (_spelled(flag, server), str(value))),
        *_spelled_args(args, server),
    )


def _synthetic(rate: float, steps: int, args: Mapping[str, Scalar]) -> dict[str, Scalar]:
    if said := [name for name in SYNTHETIC if name in args]:
        raise ConfigError(
            f"args.{said[0]}: workload.forced_acceptance sets the acceptance; keep one of the two"
        )
    return {SYNTHETIC[0]: ",".join(f"{share:.6g}" for share in acceptance_by_position(rate, steps))}


def types_of(value: object) -> list[str]:
    """The types of ``--spec-type``'s comma-separated list, without "none"."""
    return [t for t in str(value or "").replace(" ", "").split(",") if t and t != "none"]


def _draft_model(kinds: Sequence[str], speculation: Speculation, server: f.Help) -> tuple[str, ...]:
    draft = [k for k in kinds if k.startswith("draft")]
    if not draft:
        return ()
    if speculation.draft_model:
        return (_spelled(f.DRAFT_MODEL.name, server), speculation.draft_model)
    if draft == [OWN_HEADS]:
        return ()
    raise ConfigError(
        f"algorithm {draft[0]!r} needs a draft model: set draft_model under speculation "
        "(without one llama-server starts and silently does not speculate)"
    )


def _type(kinds: Sequence[str], server: f.Help) -> tuple[str, ...]:
    """Older servers have no such flag, or not for draft models: there the draft model alone turns it on."""
    listed = [k for k in kinds if not server.flags or k in server.types()]
    return (_spelled(f.TYPE.name, server), ",".join(listed)) if listed else ()


def _checked_types(config: SpecConfig, speculation: Speculation, server: f.Help) -> list[str]:
    algorithm = config.algorithm or speculation.algorithm
    kinds = types_of(algorithm)
    if not kinds:
        raise ConfigError(
            f"{config.steps} steps need an algorithm: set algorithm under speculation to one of "
            f"{', '.join(TYPES)}"
        )
    for kind in kinds:
        if kind not in TYPES:
            raise ConfigError(f"algorithm {kind!r} is unknown to llama.cpp; there are: {', '.join(TYPES)}")
        plain_draft = kind == SIMPLE and server.spell(f.LEGACY_DEPTH)
        if server.flags and kind not in server.types() and not plain_draft:
            has = ", ".join(sorted(server.types() - {"none"})) or "none: it has no --spec-type"
            raise ConfigError(f"this llama-server cannot do {kind!r} (its types: {has}); update it")
    return kinds


def _check_shape(config: SpecConfig) -> None:
    if config.topk not in {None, 1}:
        raise ConfigError(f"topk = {config.topk}: llama.cpp drafts one chain only, topk must be 1")
    if config.draft_tokens not in {None, config.steps + 1}:
        raise ConfigError(
            f"draft_tokens = {config.draft_tokens}: llama.cpp verifies steps + 1 = {config.steps + 1}; "
            "leave draft_tokens out"
        )


def _check_args(args: Mapping[str, Scalar], kinds: Sequence[str], steps: int) -> None:
    ours = {"spec-type", "spec-draft-model", *(d.name for d in f.DEPTHS)} & args.keys()
    if ours:
        raise ConfigError(
            f"args.{min(ours)}: steps, algorithm and draft_model set that flag; remove it from args"
        )
    size = str(next((args[name] for name in SHORT_LOOKUPS if name in args), SHORT_LOOKUP_DEFAULT))
    if SHORT in kinds and size.isdigit() and steps < int(size):
        raise ConfigError(
            f"{SHORT} drafts nothing when steps ({steps}) is below its lookup length ({size}); "
            f"set args.{SHORT_LOOKUPS[0]} to {steps} or less"
        )


def depth_ways(kind: str) -> tuple[tuple[str, ...], ...]:
    """For a type, the flags that all get the number of steps, newest servers first."""
    return DEPTH["draft"] if kind.startswith("draft") else DEPTH.get(kind, ())


def _depth_flags(kind: str, steps: int, server: f.Help) -> tuple[str, ...]:
    """Names of the flags that set the longest draft of ``kind``, all of them known to this server."""
    for way in depth_ways(kind):
        if server.flags and all(_spell(name, server) for name in way):
            return way
    if kind == "ngram-cache":
        if steps != NGRAM_CACHE_DEPTH:
            raise ConfigError(
                f"ngram-cache always drafts up to {NGRAM_CACHE_DEPTH} tokens: steps must be "
                f"{NGRAM_CACHE_DEPTH}, not {steps}"
            )
        return ()
    if server.flags:
        names = " or ".join(f"--{way[0]}" for way in depth_ways(kind))
        raise ConfigError(f"this llama-server has no flag for the draft length of {kind!r} ({names})")
    return depth_ways(kind)[0]


def _spell(name: str, server: f.Help) -> str | None:
    return server.spell(f.known(name) or f.Flag((f"--{name}", f"-{name}")))


def _spelled(name: str, server: f.Help) -> str:
    spelling = _spell(name, server)
    if spelling is None:
        raise ConfigError(f"this llama-server has no flag --{name} (see its --help)")
    return spelling


def _spelled_args(args: Mapping[str, Scalar], server: f.Help) -> tuple[str, ...]:
    out: list[str] = []
    for name, value in args.items():
        if value is None:
            continue
        if isinstance(value, bool):
            out.append(_spelled(name if value else f"no-{name}", server))
        else:
            out += [_spelled(name, server), str(value)]
    return tuple(out)


def _canonical(name: str) -> str:
    flag = f.known(name)
    return flag.name if flag else name.lstrip("-").replace("_", "-")
