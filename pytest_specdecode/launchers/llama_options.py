"""llama-server's flags as data: spelling, help, and the field of xllamacpp's ``CommonParams`` that is set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

Convert = Callable[[str], Any]


class WrongArgument(Exception):  # noqa: N818  (llama-server's own word for it)
    """A command line that llama-server would refuse; the text is what it would print."""


@dataclass(frozen=True, slots=True)
class Option:
    """One flag. ``field`` is a dotted path in CommonParams; empty where the launcher acts itself.

    ``metavar`` empty: the flag takes no value; it sets True, one of its ``negations`` False.
    """

    spellings: tuple[str, ...]
    metavar: str
    field: str
    help: str
    convert: Convert = str
    negations: tuple[str, ...] = ()

    @property
    def usage(self) -> str:
        """The entry of ``--help``, in llama-server's layout."""
        head = f"{', '.join((*self.spellings, *self.negations))} {self.metavar}".rstrip()
        gap = "\n" + " " * 40 if len(head) > 38 else " " * (40 - len(head))
        return f"{head}{gap}{self.help}"


def _one_of(**known: Any) -> Convert:
    def convert(text: str) -> Any:
        if text not in known:
            raise ValueError(f"unknown value: {text} (one of {', '.join(known)})")
        return known[text]

    return convert


def _member(enum: str, stem: str, *, what: str) -> Convert:
    """A member of an enumeration of xllamacpp by llama-server's word for it: q8_0 → GGML_TYPE_Q8_0."""

    def convert(text: str) -> Any:
        import xllamacpp  # noqa: PLC0415  (--help and a wrong flag need no engine)

        members = {m.name: m for m in getattr(xllamacpp, enum)}
        name = stem + text.upper().replace("-", "_")
        if name not in members or name.endswith("_COUNT"):
            raise ValueError(f"unknown {what}: {text}")
        return members[name]

    return convert


def _list_of(convert: Convert) -> Convert:
    return lambda text: [convert(part) for part in text.split(",")]


def _numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


TYPES = "none draft-simple draft-eagle3 draft-mtp draft-dflash draft-dspark ngram-simple ngram-map-k ngram-map-k4v ngram-mod ngram-cache"  # noqa: E501
_SPEC_TYPES = _list_of(
    _member("common_speculative_type", "COMMON_SPECULATIVE_TYPE_", what="speculative type")
)
_FLASH = _member("llama_flash_attn_type", "LLAMA_FLASH_ATTN_TYPE_", what="flash attention setting")
_CACHE = _member("ggml_type", "GGML_TYPE_", what="cache type")
_LOAD = _member("llama_load_mode", "LLAMA_LOAD_MODE_", what="load mode")
_SWITCH = _one_of(on=True, off=False)


def _flash(text: str) -> Any:
    return _FLASH({"on": "enabled", "off": "disabled"}.get(text, text))


def _layers(text: str) -> int:
    return {"auto": -1, "all": -2}.get(text) or int(text)


def _value(spellings: str, metavar: str, field: str, text: str, convert: Convert = str) -> Option:
    return Option(tuple(spellings.split()), metavar, field, text, convert)


def _switch(on: str, field: str, text: str, off: str = "") -> Option:
    return Option(tuple(on.split()), "", field, text, negations=tuple(off.split()))


COMMON: tuple[Option, ...] = (
    _value("-t --threads", "N", "cpuparams.n_threads", "number of CPU threads to use during generation", int),
    _value("-tb --threads-batch", "N", "cpuparams_batch.n_threads", "threads for prompts", int),
    _value("--poll", "<0...100>", "cpuparams.poll", "polling level to wait for work (default: 50)", int),
    _value("-c --ctx-size", "N", "n_ctx", "size of the prompt context, all slots together", int),
    _value("-n --predict --n-predict", "N", "n_predict", "number of tokens to predict (default: -1)", int),
    _value("-b --batch-size", "N", "n_batch", "logical maximum batch size (default: 2048)", int),
    _value("-ub --ubatch-size", "N", "n_ubatch", "physical maximum batch size (default: 512)", int),
    _value("--keep", "N", "n_keep", "number of tokens to keep from the initial prompt", int),
    _value("-fa --flash-attn", "[on|off|auto]", "flash_attn_type", "flash attention (default: auto)", _flash),
    _value("-ctk --cache-type-k", "TYPE", "cache_type_k", "KV cache data type for K (default: f16)", _CACHE),
    _value("-ctv --cache-type-v", "TYPE", "cache_type_v", "KV cache data type for V (default: f16)", _CACHE),
    _value("-lm --load-mode", "MODE", "load_mode", "none, mmap, mlock or auto (default: auto)", _LOAD),
    _value("-ngl --gpu-layers --n-gpu-layers", "N", "n_gpu_layers", "layers to store in VRAM", _layers),
    _value("-fit --fit", "[on|off]", "fit_params", "fit unset arguments to device memory", _SWITCH),
    _value("-m --model", "FNAME", "model.path", "model path to load"),
    _value("-lv --verbosity --log-verbosity", "N", "verbosity", "verbosity threshold (default: 3)", int),
    _switch("--swa-full", "swa_full", "use full-size SWA cache"),
)

SAMPLING: tuple[Option, ...] = (
    _value("-s --seed", "SEED", "sampling.seed", "RNG seed (default: -1, random)", lambda s: int(s) % 2**32),
    _value("--temp --temperature", "N", "sampling.temp", "temperature (default: 0.80)", float),
    _value("--top-k", "N", "sampling.top_k", "top-k sampling (default: 40)", int),
    _value("--top-p", "N", "sampling.top_p", "top-p sampling (default: 0.95)", float),
    _value("--min-p", "N", "sampling.min_p", "min-p sampling (default: 0.05)", float),
    _switch("--ignore-eos", "sampling.ignore_eos", "go on generating after the end of stream token"),
)

SERVER: tuple[Option, ...] = (
    _value(
        "-a --alias",
        "STRING",
        "model_alias",
        "model name aliases, comma-separated",
        lambda s: set(s.split(",")),
    ),
    _value("--host", "HOST", "hostnames", "IP addresses to listen on, comma-separated", _list_of(str)),
    _value("--port", "PORT", "port", "port to listen (default: 8080)", int),
    _switch("--reuse-port", "reuse_port", "allow multiple sockets to bind to the same port"),
    _value("--api-key", "KEY", "api_keys", "API keys, comma-separated", _list_of(str)),
    _value("-np --parallel", "N", "n_parallel", "number of server slots (default: -1, auto)", int),
    _value("--threads-http", "N", "n_threads_http", "threads that process HTTP requests", int),
    _value("--cache-reuse", "N", "n_cache_reuse", "min chunk to reuse from the cache by shifting", int),
    _value("-cram --cache-ram", "N", "cache_ram_mib", "prompt cache in MiB (default: 8192, 0 none)", int),
    _value("--slot-save-path", "PATH", "slot_save_path", "path to save slot kv cache (default: disabled)"),
    _value(
        "-sps --slot-prompt-similarity", "S", "slot_prompt_similarity", "prompt match to pick a slot", float
    ),
    _value("--chat-template", "JINJA_TEMPLATE", "chat_template", "set custom jinja chat template"),
    _switch("--metrics", "endpoint_metrics", "enable prometheus compatible metrics endpoint"),
    _switch("--props", "endpoint_props", "enable changing global properties via POST /props"),
    _switch("--slots", "endpoint_slots", "expose slots monitoring endpoint", "--no-slots"),
    _switch("--ui --webui", "ui", "enable the Web UI", "--no-ui --no-webui"),
    _switch("--cache-prompt", "cache_prompt", "enable prompt caching", "--no-cache-prompt"),
    _switch("-cb --cont-batching", "cont_batching", "continuous batching", "-nocb --no-cont-batching"),
    _switch("-kvu --kv-unified", "kv_unified", "one KV buffer for all slots", "-no-kvu --no-kv-unified"),
    _switch("--context-shift", "ctx_shift", "shift the context when it is full", "--no-context-shift"),
    _switch("--warmup", "warmup", "perform warmup with an empty run", "--no-warmup"),
    _switch("--jinja", "use_jinja", "use jinja template engine for chat", "--no-jinja"),
)

_S = "speculative."
_D = "speculative.draft."
SPECULATION: tuple[Option, ...] = (
    _value(
        "--spec-type", ",".join(TYPES.split()), f"{_S}types", "types of speculative decoding", _SPEC_TYPES
    ),
    _value("--spec-draft-model -md --model-draft", "FNAME", f"{_D}mparams.path", "draft model"),
    _value("--spec-draft-n-max", "N", f"{_D}n_max", "number of tokens to draft (default: 3)", int),
    _value("--spec-draft-n-min", "N", f"{_D}n_min", "minimum number of draft tokens (default: 0)", int),
    _value("--spec-draft-p-min --draft-p-min", "P", f"{_D}p_min", "minimum probability (greedy)", float),
    _value("--spec-draft-p-split --draft-p-split", "P", f"{_D}p_split", "split probability", float),
    _value("--spec-draft-threads -td --threads-draft", "N", f"{_D}cpuparams.n_threads", "draft threads", int),
    _value(
        "--spec-draft-threads-batch -tbd --threads-batch-draft",
        "N",
        f"{_D}cpuparams_batch.n_threads",
        "draft threads for prompts",
        int,
    ),
    _value(
        "--spec-draft-ngl -ngld --gpu-layers-draft --n-gpu-layers-draft",
        "N",
        f"{_D}n_gpu_layers",
        "draft layers to store in VRAM",
        _layers,
    ),
    _value(
        "--spec-draft-type-k -ctkd --cache-type-k-draft", "TYPE", f"{_D}cache_type_k", "draft K cache", _CACHE
    ),
    _value(
        "--spec-draft-type-v -ctvd --cache-type-v-draft", "TYPE", f"{_D}cache_type_v", "draft V cache", _CACHE
    ),
    _value(
        "--spec-draft-sampling",
        "{greedy,probabilistic}",
        f"{_D}probabilistic",
        "how the draft is sampled",
        _one_of(greedy=False, probabilistic=True),
    ),
    _value(
        "--spec-synth-len", "L", f"{_S}synth_len", "synthetic acceptance length (benchmarking only)", float
    ),
    _value(
        "--spec-synth-rates",
        "P0,P1,...",
        f"{_S}synth_rates",
        "synthetic acceptance (benchmarking only)",
        _numbers,
    ),
    _value(
        "--spec-ngram-mod-n-min", "N", f"{_S}ngram_mod.n_min", "minimum ngram-mod draft (default: 48)", int
    ),
    _value(
        "--spec-ngram-mod-n-max", "N", f"{_S}ngram_mod.n_max", "maximum ngram-mod draft (default: 64)", int
    ),
    _value("--spec-ngram-mod-n-match", "N", f"{_S}ngram_mod.n_match", "ngram-mod lookup length", int),
    *(
        _value(f"--spec-{kind}-{flag}", "N", f"{_S}{kind.replace('-', '_')}.{field}", f"{kind}: {text}", int)
        for kind in ("ngram-simple", "ngram-map-k", "ngram-map-k4v")
        for flag, field, text in (
            ("size-n", "size_n", "length of lookup n-gram (default: 12)"),
            ("size-m", "size_m", "length of draft m-gram (default: 48)"),
            ("min-hits", "min_hits", "minimum hits (default: 1)"),
        )
    ),
    _value(
        "-lcs --lookup-cache-static", "FNAME", f"{_S}ngram_cache.lookup_cache_static", "static lookup cache"
    ),
    _value(
        "-lcd --lookup-cache-dynamic",
        "FNAME",
        f"{_S}ngram_cache.lookup_cache_dynamic",
        "dynamic lookup cache",
    ),
)

HELP = Option(("-h", "--help", "--usage"), "", "", "print usage and exit")
VERSION = Option(("--version",), "", "", "show version and build info")

_NO_DRAFT = "the argument has been removed. use --spec-draft-n-{0} or --spec-ngram-mod-n-{0}"
_NO_NGRAM = "the argument has been removed. use the respective --spec-ngram-*-{0}"
REMOVED: tuple[Option, ...] = (
    _value("--draft --draft-n --draft-max", "N", "", _NO_DRAFT.format("max")),
    _value("--draft-min --draft-n-min", "N", "", _NO_DRAFT.format("min")),
    _value("--spec-ngram-size-n", "N", "", _NO_NGRAM.format("size-n") + " or --spec-ngram-mod-n-match"),
    _value("--spec-ngram-size-m", "N", "", _NO_NGRAM.format("size-m")),
    _value("--spec-ngram-min-hits", "N", "", _NO_NGRAM.format("min-hits")),
)

SECTIONS: tuple[tuple[str, tuple[Option, ...]], ...] = (
    ("common params", (HELP, VERSION, *COMMON)),
    ("sampling params", SAMPLING),
    ("example-specific params", (*SERVER, *SPECULATION, *REMOVED)),
)
_BY_SPELLING = {
    s: option for _, options in SECTIONS for option in options for s in (*option.spellings, *option.negations)
}


def parse(argv: Sequence[str]) -> Iterator[tuple[Option, Any]]:
    """The options of a command line with their values, in its order.

    :raises WrongArgument: in llama-server's words
    """
    rest = iter(argv)
    for token in rest:
        spelling = token.replace("_", "-") if token.startswith("--") else token
        option = _BY_SPELLING.get(spelling)
        if option is None:
            raise WrongArgument(f"error: invalid argument: {token}")
        if not option.metavar:
            yield option, spelling not in option.negations
            continue
        text = next(rest, None)
        try:
            if text is None:
                raise ValueError("expected value for argument")
            if option in REMOVED:
                raise ValueError(option.help)
            yield option, option.convert(text)
        except ValueError as wrong:
            raise WrongArgument(
                f'error while handling argument "{token}": {wrong}\n\nusage:\n{option.usage}\n\n'
                "to show complete usage, run with -h"
            ) from wrong


def help_text() -> str:
    """``--help``, in llama-server's layout: what an adapter reads to learn the flags."""
    return "\n".join(
        f"----- {title} -----\n\n" + "\n".join(option.usage for option in options) + "\n"
        for title, options in SECTIONS
    )
