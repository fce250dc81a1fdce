"""SGLang's server (``python -m sglang.launch_server``, ``sglang serve``). Tried against 0.5.23.

Requests go to the OpenAI endpoints: there a stream can carry running token counts and, in an event of its own
before the usage, what was drafted, accepted and verified for this request. An SGLang that does not know the
fields which ask for that ignores them; steps then come from its counters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from ..model import SpecConfig
from . import Counters, Http, Launch, Progress, Readiness, Settings, Usage, openai
from . import sglang_answers as answers
from . import sglang_flags as f
from .openai import as_dict, as_int
from .sglang_drafts import (
    NGRAM_BREADTH,
    NGRAM_DRAFT_TOKENS,
    RUNNING_CAP,
    Family,
    draft_flags,
    family_of,
    forced_environment,
    longest_draft,
)

if TYPE_CHECKING:
    from ..config import Speculation

DEFAULT_PORT = 30000
PROBE_TIMEOUT_S = 25.0
"""SGLang gives its own health probe 20 s."""
FLUSH_WITHIN_S = 5
_SET_BY_US = frozenset({f.ALGORITHM, f.STEPS, f.TOPK, f.DRAFT_TOKENS, f.DRAFT_MODEL, f.BREADTH})


class SGLang:
    name = "sglang"

    # --- the launch command

    def read_launch(self, argv: Sequence[str]) -> Launch:
        words = argv[len(f.program(argv)) :]
        said = f.said(words)
        algorithm = _text(said.get(f.ALGORITHM))
        model = _text(said.get("model-path")) or next(iter(words), None)
        topk, draft_tokens = _shape(said, family_of(algorithm))
        return Launch(
            algorithm=algorithm,
            steps=longest_draft(family_of(algorithm), as_int(said.get(f.STEPS)), draft_tokens),
            model=None if model is None or model.startswith(("-", "{")) else model,
            port=_port(said, argv),
            nodes=as_int(said.get("nnodes")) or 1,
            topk=topk,
            draft_tokens=draft_tokens if family_of(algorithm) is Family.CHAIN and (topk or 1) > 1 else None,
            draft_model=_text(said.get(f.DRAFT_MODEL)),
            args={
                p.name: said[p.name]
                for p in f.pieces(words)
                if p.speculation and p.name not in _SET_BY_US and len(p.values) < 2
            },
        )

    def help_argv(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Empty where the program is not SGLang itself: a container's client would start a container."""
        return (*f.program(argv), "--help") if f.runs_here(argv) else ()

    def without_speculation(self, argv: Sequence[str]) -> tuple[str, ...]:
        head = f.program(argv)
        kept = [p for p in f.pieces(argv[len(head) :]) if not p.speculation]
        return (*head, *(token for p in kept for token in p.tokens))

    def identity_args(self, argv: Sequence[str]) -> tuple[str, ...]:
        """As the protocol says, each under its current name and in alphabetical order; of a model's path
        the last part."""
        kept = [
            p
            for p in f.pieces(argv[len(f.program(argv)) :])
            if not p.speculation and p.name not in f.NOT_IDENTITY
        ]
        out: list[str] = []
        for piece in sorted(kept, key=lambda p: p.name):
            values = [_base(v) if piece.name in ("", "model-path") else v for v in piece.values]
            out += [f"--{piece.name}", *values] if piece.name else values
        return tuple(out)

    def check_launch(self, argv: Sequence[str], config: SpecConfig, concurrency: int) -> None:
        """As :class:`.ChecksLaunch`.

        :raises ConfigError: without metrics, or when so many requests could not run together.
        """
        said = f.said(argv[len(f.program(argv)) :])
        if f.METRICS not in said:
            raise ConfigError(answers.no_metrics())
        limit = as_int(said.get(f.MAX_RUNNING))
        if limit is None and not config.off and f.MAX_RUNNING not in said and concurrency > RUNNING_CAP:
            raise ConfigError(
                f"concurrency {concurrency}: with speculation SGLang runs at most {RUNNING_CAP} requests "
                f"together unless it is told otherwise, and the others would wait; add --{f.MAX_RUNNING} "
                f"{concurrency} to the launch command (service.extra_args)"
            )
        if limit is not None and limit < concurrency:
            raise ConfigError(
                f"concurrency {concurrency}: the launch command limits SGLang to {limit} requests together "
                f"(--{f.MAX_RUNNING}); raise it"
            )

    # --- a configuration

    def flags(
        self,
        config: SpecConfig,
        speculation: Speculation,
        *,
        help_text: str,
        forced_acceptance: float | None = None,
    ) -> tuple[str, ...]:
        """As the protocol says; how steps become drafts is in :mod:`.sglang_drafts`."""
        return draft_flags(config, speculation, f.offered(help_text), forced_acceptance)

    def environment(self, config: SpecConfig, forced_acceptance: float | None) -> Mapping[str, str]:
        return forced_environment(config, forced_acceptance)

    # --- the running server

    def ready(self, http: Http) -> Readiness:
        """``/ready`` tells at once that it is not; that it is, is proven by a token that went through the
        scheduler (``/health_generate``, a second by design; such tokens are in no counter)."""
        answer = http.get("/ready", timeout=2.0)
        if answer.status in {200, 404}:  # 404: an older server, which has no such path
            answer = http.get("/health_generate", timeout=PROBE_TIMEOUT_S)
        return Readiness(True) if answer.status == 200 else Readiness(False, openai.said(answer))

    def version(self, http: Http) -> str:
        info = answers.server_info(http).json()
        return str((info.get("version") if isinstance(info, dict) else None) or "unknown")

    def settings(self, http: Http, argv: Sequence[str]) -> Settings:  # noqa: ARG002
        return answers.read_settings(http)

    def mismatches(self, config: SpecConfig, settings: Settings) -> tuple[str, ...]:
        return answers.mismatches(config, settings)

    def counters(self, http: Http) -> Counters:
        return answers.read_counters(http)

    def flush(self, http: Http) -> bool:
        """Prefix cache and n-gram corpus; it waits for running requests and gives up when they do not end."""
        return http.post(f"/flush_cache?timeout={FLUSH_WITHIN_S}").status == 200

    # --- requests

    def request(self, endpoint: str) -> tuple[str, Mapping[str, Any]]:
        return openai.path_of(endpoint), {
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
            "return_spec_tokens_details": True,
            "return_cached_tokens_details": True,
            "ignore_eos": True,
        }

    def progress(self, event: Mapping[str, Any]) -> Progress:
        usage = event.get("usage") if event.get("choices") else None
        return openai.progress_of(event, as_dict(usage).get("completion_tokens"))

    def usage(self, events: Sequence[Mapping[str, Any]]) -> Usage | None:
        """From the event without choices that ends a stream; every other one may have a ``usage``, too.

        Steps are verifications. What the last one accepted beyond the asked length is no part of the answer
        but of ``accepted_tokens``. That nothing of a prompt was cached is not told of a single request.
        """
        closing = [e for e in events if not e.get("choices")]
        last = next((e for e in reversed(closing) if isinstance(e.get("usage"), dict)), None)
        if last is None:
            return None
        more = as_dict(next((e["sglext"] for e in closing if e.get("sglext")), None))
        drafted = as_dict(more.get("spec_tokens_details"))
        verified = as_int(drafted.get("spec_verify_ct"))
        return Usage(
            completion_tokens=int(last["usage"].get("completion_tokens") or 0),
            prompt_tokens=int(last["usage"].get("prompt_tokens") or 0),
            cached_tokens=_cached(as_dict(last["usage"]), more),
            steps=None if verified is None else float(verified),
            draft_tokens=as_int(drafted.get("spec_num_proposed_drafts")),
            accepted_tokens=as_int(drafted.get("spec_num_correct_drafts")),
            drafts=verified,
            accepted_by_position=_by_position(drafted.get("spec_correct_drafts_histogram") or ()),
        )


def _port(said: Mapping[str, str | bool], argv: Sequence[str]) -> int | None:
    """SGLang's own default holds where the command is known and leaves no place for another."""
    if "port" in said or not argv or any("{port}" in word for word in argv):
        return as_int(said.get("port"))
    return DEFAULT_PORT


def _shape(said: Mapping[str, str | bool], family: Family | None) -> tuple[int | None, int | None]:
    """Top-k and draft tokens that a launch command means, said or not."""
    draft_tokens = as_int(said.get(f.DRAFT_TOKENS))
    if family is Family.NGRAM:
        return as_int(said.get(f.BREADTH)) or NGRAM_BREADTH, draft_tokens or NGRAM_DRAFT_TOKENS
    return as_int(said.get(f.TOPK)), draft_tokens


def _cached(usage: Mapping[str, Any], more: Mapping[str, Any]) -> int | None:
    """A server that tells of drafts would tell of cached tokens, too."""
    by_source = more.get("cached_tokens_details")
    if isinstance(by_source, dict):
        return sum(n for n in by_source.values() if isinstance(n, int))
    told = as_int(as_dict(usage.get("prompt_tokens_details")).get("cached_tokens"))
    return 0 if told is None and "spec_tokens_details" in more else told


def _by_position(steps_by_length: Sequence[int]) -> tuple[float, ...]:
    """How many steps accepted each position, from how many accepted 0, 1, 2, … tokens."""
    at_least = list(accumulate(reversed(steps_by_length)))[::-1]
    return tuple(float(n) for n in at_least[1:])


def _base(path: str) -> str:
    """A local folder's name; a name on a model hub is left whole."""
    return PurePath(path).name if path.startswith(("/", ".", "~")) else path


def _text(value: str | bool | None) -> str | None:
    return value if isinstance(value, str) else None
