"""A configuration ↔ vLLM's ``--speculative-config``, in the words that vLLM knows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from ..model import Scalar, SpecConfig
from . import acceptance_by_position
from . import vllm_flags as f

if TYPE_CHECKING:
    from ..config import Speculation

Setting = str | int | float | bool

METHOD, MODEL, TOKENS = OURS = ("method", "model", "num_speculative_tokens")
"""Set by algorithm, draft_model and steps."""

_FIELDS = """
    attention_backend code_revision disable_eagle_block_drop disable_padded_drafter_batch draft_load_config
    draft_sample_method draft_tensor_parallel_size dspark_draft_topk enable_adaptive_verification
    enforce_eager index_share_for_mtp_iteration kv_cache_dtype max_model_len moe_backend
    num_speculative_tokens_per_batch_size parallel_drafting prompt_lookup_max prompt_lookup_min quantization
    rejection_sample_method revision suffix_decoding_max_cached_requests suffix_decoding_max_spec_factor
    suffix_decoding_max_tree_depth suffix_decoding_min_token_prob synthetic_acceptance_length
    synthetic_acceptance_rates tensor_parallel_size use_heterogeneous_vocab use_local_argmax_reduction
"""
FIELDS = frozenset(_FIELDS.split())
"""Further settings of a speculative configuration (vLLM 0.32). In ``args`` these are meant, also where the
server has a flag of the same name; others of newer versions are written ``speculative_config.NAME``."""

INSIDE = "speculative_config."
SYNTHETIC = ("rejection_sample_method", "synthetic_acceptance_rates", "synthetic_acceptance_length")

OWN_DRAFTS = frozenset({"ngram", "ngram_gpu", "suffix"})
"""Methods that take their drafts from the text."""
NEED_MODEL = frozenset(
    {"draft_model", "eagle", "eagle3", "medusa", "mlp_speculator", "dflash", "custom_class"}
)
METHODS = (*sorted(OWN_DRAFTS), *sorted(NEED_MODEL), "mtp", "dspark")


def speculation_flags(
    config: SpecConfig, speculation: Speculation, forced_acceptance: float | None
) -> tuple[str, ...]:
    """Speculation flags of one configuration.

    ``args`` are settings of the speculative configuration (see :data:`FIELDS`) or else flags without dashes,
    with ``_`` or ``-``: True is ``--x``, False ``--no-x``. Flags that do not depend on speculation hold with
    steps 0 too. Args of the configuration come before those of the target.

    :raises ConfigError: for what vLLM cannot do.
    """
    inside, flags = _sorted_out({**speculation.args, **dict(config.args)})
    if config.off:
        return _spelled(flags, but=f.SPECULATION)
    _check_shape(config)
    method = _checked_method(config.algorithm or speculation.algorithm, config.steps)
    asked: dict[str, Any] = {METHOD: method, **_draft(method, speculation), TOKENS: config.steps, **inside}
    if forced_acceptance is not None:
        if said := [name for name in SYNTHETIC if name in inside]:
            raise ConfigError(
                f"args.{said[0]}: workload.forced_acceptance sets the acceptance; keep one of the two"
            )
        asked[SYNTHETIC[0]] = "synthetic"
        asked[SYNTHETIC[1]] = [round(r, 9) for r in acceptance_by_position(forced_acceptance, config.steps)]
    return (f.CONFIG.spellings[0], _json(asked), *_spelled(flags))


def asked_of(pieces: Iterable[f.Piece]) -> dict[str, Any]:
    """The speculative configuration that a command line makes; empty: none.

    Single settings (``-sc.method``) are gathered by the name of their flag and come after all whole ones, of
    which the last holds; ``--spec-method`` and its like are added to it.
    """
    whole: dict[str, Any] = {}
    single: dict[str, dict[str, Any]] = {}
    beside: dict[str, Any] = {}
    names = {f.METHOD: METHOD, f.DRAFT_MODEL: MODEL, f.TOKENS: TOKENS}
    for piece in pieces:
        if piece.flag is f.CONFIG and piece.key:
            group = single.setdefault(f.normal(piece.tokens[0]).partition(".")[0], {})
            told = piece.value or ""
            listed = piece.key.endswith("+")
            _put(group, piece.key.rstrip("+").split("."), told.split(",") if listed else _value(told))
        elif piece.flag is f.CONFIG:
            found = _value(piece.value or "")
            whole = found if isinstance(found, dict) else {}
        elif piece.flag in names and piece.value is not None:
            beside[names[piece.flag]] = piece.value
    config = next(reversed(single.values())) if single else whole
    return {**{name.replace("-", "_"): value for name, value in config.items()}, **beside}


def args_of(asked: Mapping[str, Any]) -> dict[str, Setting]:
    """The further settings of a speculative configuration, in the form of ``Speculation.args``."""
    return {
        name if name in FIELDS else INSIDE + name: value if isinstance(value, Setting) else _json(value)
        for name, value in asked.items()
        if name not in OURS and value is not None
    }


def family(method: str) -> str:
    """A method as vLLM reports it: those of single models' heads have become one."""
    return "mtp" if method.endswith("_mtp") else method.strip("[]")


def _sorted_out(args: Mapping[str, Scalar]) -> tuple[dict[str, Any], dict[str, Scalar]]:
    """``args`` that go into the speculative configuration, and those that are flags of their own."""
    inside: dict[str, Any] = {}
    flags: dict[str, Scalar] = {}
    for name, value in args.items():
        stem = name.lstrip("-").replace("-", "_")
        field = stem.removeprefix(INSIDE)
        flag = f.known(f"--{stem}")
        if field in OURS or (flag in f.SPECULATION and flag is not f.PER_REQUEST):
            raise ConfigError(f"args.{name}: steps, algorithm and draft_model set that; remove it from args")
        if value is None:
            continue
        if stem.startswith(INSIDE) or stem in FIELDS:
            inside[field] = _value(value) if isinstance(value, str) and value[:1] in "[{" else value
        else:
            flags[stem.replace("_", "-")] = value
    return inside, flags


def _spelled(flags: Mapping[str, Scalar], *, but: tuple[f.Flag, ...] = ()) -> tuple[str, ...]:
    out: list[str] = []
    for name, value in flags.items():
        if f.known(f"--{name}") in but:
            continue
        if isinstance(value, bool):
            out.append(f"--{name}" if value else f"--no-{name}")
        else:
            out += [f"--{name}", str(value)]
    return tuple(out)


def _checked_method(method: str | None, steps: int) -> str:
    if not method:
        raise ConfigError(
            f"{steps} steps need an algorithm: set algorithm under speculation to one of {', '.join(METHODS)}"
        )
    if not re.fullmatch(r"\[?[a-z][a-z0-9_]*\]?", method):
        raise ConfigError(
            f"algorithm {method!r} is no method of vLLM, which are words such as {', '.join(METHODS)}"
        )
    return method


def _check_shape(config: SpecConfig) -> None:
    if config.topk not in {None, 1}:
        raise ConfigError(f"topk = {config.topk}: vLLM drafts one chain only, topk must be 1")
    if config.draft_tokens not in {None, config.steps + 1}:
        raise ConfigError(
            f"draft_tokens = {config.draft_tokens}: vLLM verifies steps + 1 = {config.steps + 1}; "
            "leave draft_tokens out"
        )


def _draft(method: str, speculation: Speculation) -> dict[str, str]:
    if family(method) in OWN_DRAFTS:
        return {}
    if speculation.draft_model:
        return {MODEL: speculation.draft_model}
    if method in NEED_MODEL:
        raise ConfigError(f"algorithm {method!r} needs a draft model: set draft_model under speculation")
    return {}


def _put(table: dict[str, Any], path: list[str], value: Any) -> None:
    *folders, name = path
    for folder in folders:
        inner = table.get(folder)
        table[folder] = table = inner if isinstance(inner, dict) else {}
    table[name] = value


def _value(text: str) -> Any:
    """What ``text`` is as JSON, else the text itself."""
    import msgspec  # noqa: PLC0415  (kept out of sessions that run no benchmark)

    try:
        return msgspec.json.decode(text.encode())
    except msgspec.DecodeError:
        return text


def _json(value: Any) -> str:
    import msgspec  # noqa: PLC0415  (kept out of sessions that run no benchmark)

    return msgspec.json.encode(value).decode()
