"""vLLM's OpenAI-compatible server (``vllm serve``, ``python -m vllm.entrypoints.openai.api_server``).

Tried against vLLM 0.32. With ``VLLM_SERVER_DEV_MODE=1`` it tells its settings and empties its prefix cache on
request; without, ``/metrics`` still tells whether it speculates, and how far.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError
from ..model import SpecConfig
from . import Counters, Http, Launch, Progress, Readiness, Settings, Usage, openai
from . import vllm_flags as f
from .openai import as_dict, as_int, as_list
from .prometheus import Sample
from .vllm_answers import own_samples, told
from .vllm_speculation import METHOD, MODEL, TOKENS, args_of, asked_of, family, speculation_flags

if TYPE_CHECKING:
    from ..config import Speculation

DEFAULT_PORT = 8000
FLUSH_PATIENCE_S = 2.0
"""Blocks of requests that have just ended are given back a moment later."""
SERVER_INFO_S = 60.0
"""The first time it looks around its machine, by running commands."""
ABORTED = frozenset({"abort", "error"})
DRAFTS = "spec_decode_num_drafts_total"
POSITIONS = "spec_decode_num_accepted_tokens_per_pos_total"


class Vllm:
    name = "vllm"

    # --- flags

    def read_launch(self, argv: Sequence[str]) -> Launch:
        """As the protocol says. A file given with ``--config`` is not read: what it sets of speculation shows
        in the settings in force. Engines on Ray count as several nodes: their processes are not ours."""
        found = list(f.pieces(argv[len(f.program(argv)) :]))
        said = {p.flag: p for p in found if p.flag}
        asked = asked_of(found)
        method, draft = asked.get(METHOD), asked.get(MODEL)
        model = said[f.MODEL].value if f.MODEL in said else f.positional_model(argv)
        unsaid_port = DEFAULT_PORT if f.is_vllm(argv) else None
        per_request = said.get(f.PER_REQUEST)
        return Launch(
            algorithm=str(method) if method else None,
            steps=as_int(asked.get(TOKENS)),
            model=model,
            port=as_int(said[f.PORT].value) if f.PORT in said else unsaid_port,
            nodes=_nodes(said),
            draft_model=str(draft) if draft and str(draft).strip("[]") != "ngram" else None,
            args={
                **args_of(asked),
                **({f.PER_REQUEST.name: str(per_request.value)} if per_request else {}),
            },
        )

    def help_argv(self, argv: Sequence[str]) -> tuple[str, ...]:  # noqa: ARG002
        """Nothing is asked: ``--help`` takes 10 to 40 s of imports, and tells nothing that :meth:`flags`
        needs."""
        return ()

    def without_speculation(self, argv: Sequence[str]) -> tuple[str, ...]:
        head = f.program(argv)
        kept = [p for p in f.pieces(argv[len(head) :]) if p.flag not in f.SPECULATION]
        return (*head, *(token for p in kept for token in p.tokens))

    def identity_args(self, argv: Sequence[str]) -> tuple[str, ...]:
        """As the protocol says, each flag in one spelling; the program's own path and the folders of a model
        on disk are left out too."""
        out: list[str] = []
        rest = argv[len(f.program(argv)) :]
        if model := f.positional_model(argv):
            out += [f.MODEL.spellings[0], _model_name(model)]
            rest = rest[1:]
        for piece in f.pieces(rest):
            if piece.flag in f.SPECULATION or piece.flag in f.NOT_IDENTITY:
                continue
            if piece.flag is f.MODEL and piece.value:
                out += [f.MODEL.spellings[0], _model_name(piece.value)]
            elif piece.flag and not piece.key:
                out += [piece.flag.spellings[0], *piece.values]
            else:
                out += f.identity_words(piece.tokens)
        return tuple(out)

    def flags(
        self,
        config: SpecConfig,
        speculation: Speculation,
        *,
        help_text: str,  # noqa: ARG002
        forced_acceptance: float | None = None,
    ) -> tuple[str, ...]:
        """As the protocol says; how steps become a configuration is in :mod:`.vllm_speculation`."""
        return speculation_flags(config, speculation, forced_acceptance)

    def environment(self, config: SpecConfig, forced_acceptance: float | None) -> Mapping[str, str]:  # noqa: ARG002
        return {}

    def check_launch(self, argv: Sequence[str], config: SpecConfig, concurrency: int) -> None:  # noqa: ARG002
        """As :class:`~pytest_specdecode.engines.ChecksLaunch` says: counters are needed, and room to run."""
        said = {p.flag: p for p in f.pieces(argv) if p.flag}
        if f.NO_STATS in said:
            raise ConfigError(
                "--disable-log-stats leaves /metrics empty: nobody could tell others' requests from ours, "
                "nor count steps and drafts; remove it from the launch command"
            )
        limit = _running_limit(said)
        if limit is not None and limit < concurrency:
            raise ConfigError(
                f"the launch command lets vLLM run at most {limit} requests together, fewer than concurrency "
                f"{concurrency}; raise {f.MAX_SEQS.spellings[0]}"
            )

    # --- the running server

    def ready(self, http: Http) -> Readiness:
        """It refuses connections until it is ready; 503 later on means that its engine has died."""
        answer = http.get("/health", timeout=2.0)
        if answer.status == 200:
            return Readiness(True)
        return Readiness(False, openai.said(answer, "its engine has died"))

    def version(self, http: Http) -> str:
        return str(as_dict(http.get("/version").json()).get("version") or "unknown")

    def settings(self, http: Http, argv: Sequence[str]) -> Settings:
        """From ``/server_info``, which only dev mode has (where pip is installed: it lists packages).
        Else from its counters, which are there from the start on if and only if it speculates, one for each
        position of a draft; and the rest from argv as far as that says."""
        served = openai.served(http)
        counted = own_samples(http)
        engines = len({s.labels["engine"] for s in counted if "engine" in s.labels}) or 1
        answer = http.get("/server_info?config_format=json", timeout=SERVER_INFO_S)
        config = as_dict(as_dict(answer.json()).get("vllm_config"))
        own = told(config, engines) if config else self._inferred(counted, argv, engines)
        lengths = [n for m in served if (n := as_int(m.get("max_model_len"))) is not None]
        return Settings(
            **own,
            models=tuple(dict.fromkeys(str(m["id"]) for m in served if m.get("id"))),
            context_tokens=min(lengths, default=None),
        )

    def _inferred(self, counted: Sequence[Sample], argv: Sequence[str], engines: int) -> dict[str, Any]:
        launch = self.read_launch(argv)
        said = {p.flag: p for p in f.pieces(argv) if p.flag}
        positions = {s.labels.get("position") for s in counted if s.name == POSITIONS}
        speculating = any(s.name == DRAFTS for s in counted) if counted else None
        return {
            "speculating": speculating,
            "algorithm": launch.algorithm if speculating is not False else None,
            "steps": 0 if speculating is False else len(positions) or launch.steps,
            "max_running": _running_limit(said, engines),
            "raw": {"speculating": speculating, "draft positions": len(positions), "engines": engines},
        }

    def mismatches(self, config: SpecConfig, settings: Settings) -> tuple[str, ...]:
        if settings.speculating is None:
            return ()
        if config.off:
            on = (
                f"speculation was to be off, but it runs with {settings.algorithm or 'an unknown method'}; "
                "a file given with --config, or the model itself, may set it"
            )
            return (on,) if settings.speculating else ()
        if not settings.speculating:
            return (f"{config.algorithm} with {config.steps} steps was asked, but vLLM does not speculate",)
        found = []
        if config.algorithm and settings.algorithm and family(config.algorithm) != family(settings.algorithm):
            found.append(f"algorithm {config.algorithm} was asked, {settings.algorithm} runs")
        if settings.steps is not None and settings.steps != config.steps:
            found.append(f"{config.steps} steps were asked, vLLM drafts up to {settings.steps}")
        return tuple(found)

    def counters(self, http: Http) -> Counters:
        """From ``/metrics``, over all engines of a data-parallel server.

        Steps are the observations of the inter-token latency: one for each request and decode step, however
        many tokens it gave, drafted or not. Where the counters of speculation are missing among others,
        nothing is ever drafted: they are 0.
        """
        found = [s for s in own_samples(http) if not s.name.endswith(("_bucket", "_created"))]
        if not found:
            return Counters()
        raw: dict[str, float] = {}
        positions: dict[int, float] = {}
        for s in found:
            raw[s.name] = raw.get(s.name, 0.0) + s.value
            if s.name == POSITIONS and s.labels.get("position", "").isdigit():
                place = int(s.labels["position"])
                positions[place] = positions.get(place, 0.0) + s.value
        return Counters(
            generated_tokens=raw.get("generation_tokens_total"),
            prompt_tokens=raw.get("prompt_tokens_total"),
            cached_prompt_tokens=raw.get("prompt_tokens_cached_total", raw.get("prefix_cache_hits_total")),
            drafts=raw.get(DRAFTS, 0.0),
            draft_tokens=raw.get("spec_decode_num_draft_tokens_total", 0.0),
            accepted_tokens=raw.get("spec_decode_num_accepted_tokens_total", 0.0),
            accepted_by_position=tuple(positions[place] for place in sorted(positions)),
            steps=raw.get("inter_token_latency_seconds_count"),
            raw=raw,
        )

    def flush(self, http: Http) -> bool:
        """Dev mode only. HTTP 200 does not mean that it was done; it is not while a request holds blocks."""
        deadline = time.monotonic() + FLUSH_PATIENCE_S
        while True:
            answer = http.post("/reset_prefix_cache")
            if answer.status != 200:
                return False
            if as_dict(answer.json()).get("success") is True:
                return True
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)

    # --- requests

    def request(self, endpoint: str) -> tuple[str, Mapping[str, Any]]:
        """``ignore_eos`` alone gives full length; ``min_tokens`` would have every step mask logits."""
        return openai.path_of(endpoint), {
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
            "ignore_eos": True,
        }

    def progress(self, event: Mapping[str, Any]) -> Progress:
        """An engine that dies or shuts down ends a stream with ``finish_reason`` ``abort``, usage or not."""
        told = openai.progress_of(event, as_dict(event.get("usage")).get("completion_tokens"))
        if told.finish_reason not in ABORTED:
            return told
        return told._replace(error=f"the engine ended the answer with finish_reason {told.finish_reason!r}")

    def usage(self, events: Sequence[Mapping[str, Any]]) -> Usage | None:
        """From the event after the last choice; those before it have running counts, also of a cut stream.

        Steps cannot be told per request: ``metrics.speculative_decoding`` leaves draftless ones out, and
        counts tokens accepted in the last step that lie beyond the answer's end.
        """
        closing = (e for e in reversed(events) if isinstance(e.get("usage"), dict) and not e.get("choices"))
        last = next(closing, None)
        if last is None:
            return None
        usage = last["usage"]
        drafts = as_dict(as_dict(last.get("metrics")).get("speculative_decoding"))
        histogram = as_list(drafts.get("acceptance_histogram"))
        return Usage(
            completion_tokens=int(usage.get("completion_tokens") or 0),
            prompt_tokens=int(usage.get("prompt_tokens") or 0),
            cached_tokens=as_int(as_dict(usage.get("prompt_tokens_details")).get("cached_tokens")),
            draft_tokens=as_int(drafts.get("num_draft_tokens")),
            accepted_tokens=as_int(drafts.get("num_accepted_draft_tokens")),
            drafts=as_int(drafts.get("num_spec_steps")),
            accepted_by_position=tuple(float(sum(histogram[i:])) for i in range(1, len(histogram))),
        )


# --- reading


def _nodes(said: Mapping[f.Flag, f.Piece]) -> int:
    """Machines that a launch command spreads over, at least as far as it says."""

    def number(flag: f.Flag) -> int | None:
        return as_int(said[flag].value) if flag in said else None

    ranks = number(f.DP_SIZE) or 1
    here = number(f.DP_LOCAL)
    parts = [number(f.NODES) or 1]
    if here is not None and here < ranks:
        parts.append(-(-ranks // here) if here else 2)
    if f.EXTERNAL_LB in said or f.HYBRID_LB in said:
        parts.append(2)
    if "ray" in {said[flag].value for flag in (f.DP_BACKEND, f.EXECUTOR) if flag in said}:
        parts.append(2)
    return max(parts)


def _running_limit(said: Mapping[f.Flag, f.Piece], engines: int | None = None) -> int | None:
    """Requests that a launch command lets run together; each of ``engines`` runs its own."""
    limits = [as_int(said[flag].value) for flag in (f.MAX_SEQS, f.MAX_ACTIVE) if flag in said]
    known = [limit for limit in limits if limit is not None]
    ranks = (as_int(said[f.DP_SIZE].value) if f.DP_SIZE in said else None) or 1
    return (engines or ranks) * min(known) if known else None


def _model_name(model: str) -> str:
    return PurePath(model).name if PurePath(model).is_absolute() else model
