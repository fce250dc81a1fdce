"""llama-server's command line and the shape of its answers, as recorded from build 11434."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import Any

BUILD = "b11434-unknown"
VERSION = "version: 0.6.0-dev (build 11434, commit unknown)\nbuilt with GNU 12.2.0 for Linux x86_64"
TYPES = (
    "none,draft-simple,draft-eagle3,draft-mtp,ngram-simple,ngram-map-k,ngram-map-k4v,ngram-mod,ngram-cache"
)
LENGTH_FLAG = {
    "ngram-mod": ("--spec-ngram-mod-n-max", 64),
    "ngram-simple": ("--spec-ngram-simple-size-m", 48),
    "draft-simple": ("--spec-draft-n-max", 16),
    "ngram-map-k": ("--spec-ngram-map-k-size-m", 48),
    "ngram-map-k4v": ("--spec-ngram-map-k4v-size-m", 48),
}
SWITCHES = (
    "--metrics",
    "--slots",
    "--no-ui",
    "--no-webui",
    "--no-warmup",
    "--props",
    "--jinja",
    "--no-slots",
)
VALUED = {
    "-m": "--model", "-a": "--alias", "-c": "--ctx-size", "-np": "--parallel", "-t": "--threads",
    "-tb": "--threads-batch", "-b": "--batch-size", "-ub": "--ubatch-size", "-ngl": "--n-gpu-layers",
    "-md": "--spec-draft-model", "--model-draft": "--spec-draft-model", "-s": "--seed", "-n": "--n-predict",
    "--host": "", "--port": "", "--spec-type": "", "--spec-draft-n-max": "", "--spec-draft-n-min": "",
    "--spec-draft-p-min": "", "--spec-ngram-mod-n-max": "", "--spec-ngram-mod-n-min": "",
    "--spec-ngram-mod-n-match": "", "--spec-ngram-simple-size-n": "", "--spec-ngram-simple-size-m": "",
    "--spec-ngram-map-k-size-n": "", "--spec-ngram-map-k-size-m": "", "--spec-ngram-map-k4v-size-n": "",
    "--spec-ngram-map-k4v-size-m": "", "--spec-synth-rates": "", "--api-key": "", "--log-file": "",
    "--slot-save-path": "", "--temp": "", "--cache-reuse": "",
}  # fmt: skip
LONG = {long for long in VALUED.values() if long}


class BadArgumentError(Exception):
    """What llama-server prints before it exits with status 1."""


@dataclass(frozen=True, slots=True)
class Command:
    """The launch command, read."""

    values: dict[str, str]
    switches: frozenset[str]

    @classmethod
    def read(cls, argv: list[str]) -> Command:
        values: dict[str, str] = {}
        switches = set()
        words = iter(argv)
        for word in words:
            if word in SWITCHES:
                switches.add(word)
            elif word in VALUED or word in LONG:
                try:
                    values[VALUED.get(word, "") or word] = next(words)
                except StopIteration:
                    raise BadArgumentError(
                        f'error while handling argument "{word}": expected value for argument'
                    ) from None
            elif word in {"--draft", "--draft-n", "--draft-max"}:
                raise BadArgumentError(
                    f'error while handling argument "{word}": the argument has been removed. '
                    "use --spec-draft-n-max or --spec-ngram-mod-n-max"
                )
            else:
                raise BadArgumentError(f"error: invalid argument: {word}")
        kind = values.get("--spec-type", "none")
        if kind not in TYPES.split(","):
            raise BadArgumentError(
                f'error while handling argument "--spec-type": unknown speculative type: {kind}'
            )
        return cls(values, frozenset(switches))

    @property
    def spec_type(self) -> str:
        kind = self.values.get("--spec-type", "none")
        if kind.startswith("draft-") and "--spec-draft-model" not in self.values:
            return "none"
        return kind

    @property
    def k(self) -> int:
        """Draft length; 0 without speculation, silently so for a draft type without a draft model."""
        if self.spec_type == "none":
            return 0
        flag, default = LENGTH_FLAG.get(self.spec_type, ("--spec-draft-n-max", 16))
        return int(self.values.get(flag, default))

    @property
    def slots(self) -> int:
        return int(self.values.get("--parallel", 4))

    @property
    def context(self) -> int:
        """Tokens of one slot."""
        size = int(self.values.get("--ctx-size", 0))
        return size // self.slots if size else 32768

    @property
    def name(self) -> str:
        return self.values.get("--alias") or self.values.get("--model", "fake")


def help_text() -> str:
    """The part of the help that an adapter looks at."""
    lines = ["----- common params -----", "", "-h,    --help, --usage                  print usage and exit"]
    for flag in sorted(LONG | {flag for flag, long in VALUED.items() if not long}):
        spellings = ",   ".join([*(short for short, long in VALUED.items() if long == flag), flag])
        lines.append(f"{spellings} {TYPES if flag == '--spec-type' else 'N'}")
    lines += list(SWITCHES)
    lines.append(
        "--draft, --draft-n, --draft-max N       the argument has been removed. use --spec-draft-n-max or"
    )
    lines.append("                                        --spec-ngram-mod-n-max")
    return "\n".join(lines)


@dataclass(slots=True)
class Totals:
    """The counters behind /metrics."""

    prompt: float = 0
    cached: float = 0
    predicted: float = 0
    decode: float = 0
    drafts: float = 0
    drafted: float = 0
    accepted: float = 0
    by_position: list[int] = field(default_factory=list)
    processing: int = 0
    deferred: int = 0

    def text(self) -> str:
        """Prometheus text; the positions appear with the first accepted draft, as in llama.cpp."""
        rows: list[tuple[str, str, float]] = [
            ("prompt_tokens_total", "counter", self.prompt),
            ("prompt_tokens_cached_total", "counter", self.cached),
            ("tokens_predicted_total", "counter", self.predicted),
            ("n_decode_total", "counter", self.decode),
            ("spec_decode_num_draft_tokens_total", "counter", self.drafted),
            ("spec_decode_num_accepted_tokens_total", "counter", self.accepted),
            ("spec_decode_num_drafts_total", "counter", self.drafts),
            ("requests_processing", "gauge", self.processing),
            ("requests_deferred", "gauge", self.deferred),
        ]
        lines = []
        for name, kind, value in rows:
            lines += [f"# TYPE llamacpp:{name} {kind}", f"llamacpp:{name} {value:.10g}"]
        if any(self.by_position):
            name = "llamacpp:spec_decode_num_accepted_tokens_per_pos_total"
            lines.append(f"# TYPE {name} counter")
            lines += [f'{name}{{position="{i}"}} {n}' for i, n in enumerate(self.by_position)]
        return "\n".join(lines) + "\n"


def props(command: Command, slots: int) -> dict[str, Any]:
    """/props; ``speculative.types`` is "none" here whatever runs."""
    return {
        "default_generation_settings": {
            "params": {"temperature": 0.8, "ignore_eos": False, "speculative.types": "none"},
            "n_ctx": command.context,
        },
        "total_slots": slots,
        "model_alias": command.name,
        "model_ftype": "Q4_K - Medium",
        "model_path": command.values.get("--model", ""),
        "endpoint_slots": True,
        "endpoint_props": False,
        "endpoint_metrics": True,
        "chat_template": "{%- for message in messages -%}{{- message.content -}}{%- endfor -%}",
        "bos_token": "<bos>",
        "eos_token": "<eos>",
        "build_info": BUILD,
        "is_sleeping": False,
    }


def slots_answer(command: Command, slots: int, busy: int, *, speculating: bool) -> list[dict[str, Any]]:
    types = f"none,{command.spec_type}" if speculating else "none"
    return [
        {
            "id": i,
            "n_ctx": command.context,
            "speculative": speculating,
            "is_processing": i < busy,
            "params": {"temperature": 0.0, "speculative.types": types},
        }
        for i in range(slots)
    ]


def models(command: Command) -> dict[str, Any]:
    name = command.name
    meta = {"n_ctx": command.context, "n_ctx_train": 32768, "n_params": 268098176, "size": 246587904}
    return {
        "models": [{"name": name, "model": name, "type": "model", "capabilities": ["completion"]}],
        "object": "list",
        "data": [
            {"id": name, "aliases": [name], "object": "model", "created": int(time.time()),
             "owned_by": "llamacpp", "meta": meta}
        ],
    }  # fmt: skip


def error(status: int, message: str, kind: str) -> bytes:
    return json.dumps({"error": {"code": status, "message": message, "type": kind}}).encode()


LOADING = error(503, "Loading model", "unavailable_error")


class Form:
    """The streamed events of one endpoint."""

    def __init__(self, *, chat: bool, model: str, number: int) -> None:
        self._chat = chat
        self._rest = {
            "created": int(time.time()),
            "id": f"chatcmpl-{number:08d}",
            "model": model,
            "system_fingerprint": BUILD,
            "object": "chat.completion.chunk" if chat else "text_completion",
        }

    def _event(self, choices: list[dict[str, Any]], **more: Any) -> bytes:
        return json.dumps({"choices": choices, **self._rest, **more}, ensure_ascii=False).encode()

    def head(self) -> list[bytes]:
        """The role event of a chat; nothing else has one."""
        if not self._chat:
            return []
        delta = {"role": "assistant", "content": None}
        return [self._event([{"finish_reason": None, "index": 0, "delta": delta}])]

    def text(self, text: str, timings: dict[str, Any] | None) -> bytes:
        more = {} if timings is None else {"timings": timings}
        if self._chat:
            return self._event([{"finish_reason": None, "index": 0, "delta": {"content": text}}], **more)
        return self._event([{"text": text, "index": 0, "logprobs": None, "finish_reason": None}], **more)

    def end(self, reason: str, usage: dict[str, Any] | None, timings: dict[str, Any] | None) -> list[bytes]:
        """The last events: usage rides on the finishing one in completions, on one of its own in chat."""
        more = {k: v for k, v in (("usage", usage), ("timings", timings)) if v is not None}
        if not self._chat:
            last = {"text": "", "index": 0, "logprobs": None, "finish_reason": reason}
            return [self._event([last], **more)]
        last = {"finish_reason": reason, "index": 0, "delta": {}}
        return [self._event([last]), *([self._event([], **more)] if usage is not None else [])]

    def whole(self, text: str, reason: str, usage: dict[str, Any], timings: dict[str, Any]) -> bytes:
        """The answer to a request that does not stream."""
        choice: dict[str, Any] = {"index": 0, "finish_reason": reason}
        choice |= {"message": {"role": "assistant", "content": text}} if self._chat else {"text": text}
        answer = {"choices": [choice], **self._rest, "usage": usage, "timings": timings}
        return json.dumps(answer | {"object": self._rest["object"].removesuffix(".chunk")}).encode()  # type: ignore[attr-defined]
