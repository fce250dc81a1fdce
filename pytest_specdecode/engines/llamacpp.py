"""llama.cpp's ``llama-server``, or anything that serves its endpoints under its flags.

Tried against builds 11434 and 11549; older servers' flag names are known too (:mod:`.llamacpp_flags`). What
the server does not tell of itself (top-k, draft tokens) stays None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from ..model import SpecConfig
from . import Counters, Http, Launch, Progress, Readiness, Settings, Usage, openai
from . import llamacpp_flags as f
from .llamacpp_drafts import depth_ways, draft_flags, types_of
from .llamacpp_flags import Help
from .openai import as_dict, as_int, as_list
from .prometheus import samples

if TYPE_CHECKING:
    from ..config import Speculation

_SHIFT = "--context-shift"
"""A request may then be longer than its slot's context."""


class LlamaCpp:
    name = "llamacpp"
    settings_show_late = True
    """How long its drafts are shows once it has made some."""

    # --- flags

    def read_launch(self, argv: Sequence[str]) -> Launch:
        rest = argv[len(f.program(argv)) :]
        said = {p.flag.name: p.value or True for p in f.pieces(rest) if p.flag}
        types = types_of(said.get("spec-type"))
        depths = [flag for kind in types for way in depth_ways(kind) for flag in way if flag in said]
        model = said.get("model") or said.get("hf-repo")
        draft = said.get("spec-draft-model")
        set_by_us = {"spec-type", "spec-draft-model", *(d.name for d in f.DEPTHS)}
        return Launch(
            algorithm=",".join(types) or None,
            steps=as_int(said[depths[0]]) if depths else None,
            model=None if model is None else str(model),
            port=as_int(said.get("port")),
            nodes=1 + len(_remote_hosts(said.get("rpc"))),
            draft_model=None if draft is None else str(draft),
            args={
                flag.name: said[flag.name]
                for flag in f.SPECULATION
                if flag.name in said and flag.name not in set_by_us and flag.values < 2
            },
        )

    def help_argv(self, argv: Sequence[str]) -> tuple[str, ...]:
        return (*f.program(argv), "--help")

    def without_speculation(self, argv: Sequence[str]) -> tuple[str, ...]:
        head = f.program(argv)
        kept = [p for p in f.pieces(argv[len(head) :]) if p.flag not in f.SPECULATION]
        return (*head, *(token for p in kept for token in p.tokens))

    def identity_args(self, argv: Sequence[str]) -> tuple[str, ...]:
        """As the protocol says; the program's own path and the folders of model files are left out too."""
        out: list[str] = []
        for piece in f.pieces(argv[len(f.program(argv)) :]):
            if piece.flag in f.SPECULATION or piece.flag in f.NOT_IDENTITY:
                continue
            if piece.flag is f.MODEL and piece.value:
                out += [piece.tokens[0], PurePath(piece.value).name]
            else:
                out += piece.tokens
        return tuple(out)

    def flags(
        self,
        config: SpecConfig,
        speculation: Speculation,
        *,
        help_text: str,
        forced_acceptance: float | None = None,
    ) -> tuple[str, ...]:
        """As the protocol says; how steps become drafts is in :mod:`.llamacpp_drafts`."""
        return draft_flags(config, speculation, Help.read(help_text), forced_acceptance)

    def environment(self, config: SpecConfig, forced_acceptance: float | None) -> Mapping[str, str]:  # noqa: ARG002
        return {}

    # --- the running server

    def ready(self, http: Http) -> Readiness:
        answer = http.get("/health", timeout=2.0)
        if answer.status == 200:
            return Readiness(True)
        return Readiness(False, openai.said(answer))

    def version(self, http: Http) -> str:
        """The build (``b11434-…``). A library has number 0; then our launcher tags the model with one."""
        build = str(as_dict(http.get("/props").json()).get("build_info") or "")
        if build and not build.startswith("b0-"):
            return build
        tags = [t for m in openai.served(http) for t in as_list(m.get("tags"))]
        return str(next(iter(tags), build)) or "unknown"

    def settings(self, http: Http, argv: Sequence[str]) -> Settings:
        """``/slots`` tells whether it speculates and how (``/props`` says "none" always); the longest draft
        is the number of positions it counts, there from the first draft on, before that what argv says."""
        slots = [s for s in as_list(http.get("/slots").json()) if isinstance(s, dict)]
        props = as_dict(http.get("/props").json())
        launch = self.read_launch(argv)
        speculating = any(s.get("speculative") is True for s in slots) if slots else None
        per_slot = [types_of(as_dict(s.get("params")).get("speculative.types")) for s in slots]
        told = next(filter(None, per_slot), [])  # a slot has parameters from its first request on
        positions = len(self.counters(http).accepted_by_position)
        algorithm = (",".join(told) or launch.algorithm) if speculating is not False else None
        defaults = as_dict(props.get("default_generation_settings"))
        return Settings(
            speculating=speculating,
            algorithm=algorithm,
            steps=0 if speculating is False else positions or (launch.steps if argv else None),
            max_running=len(slots) or as_int(props.get("total_slots")),
            models=_models(openai.served(http)),
            context_tokens=None if _SHIFT in argv else as_int((slots or [defaults])[0].get("n_ctx")),
            raw={
                "speculative": [s.get("speculative") for s in slots],
                "speculative.types": ",".join(told) or "none",
                "total_slots": len(slots) or props.get("total_slots"),
                "model_path": props.get("model_path"),
                "build_info": props.get("build_info"),
            },
        )

    def mismatches(self, config: SpecConfig, settings: Settings) -> tuple[str, ...]:
        if settings.speculating is None:
            return ()
        if config.off:
            on = f"speculation was to be off, but it runs with {settings.algorithm or 'an unknown type'}"
            return (on,) if settings.speculating else ()
        if not settings.speculating:
            return (
                f"{config.algorithm} with {config.steps} steps was asked, but llama-server does not "
                "speculate (/slots: speculative false); its log says why: a draft model that does not fit, "
                "a type without its draft model, or a draft model without --spec-type",
            )
        found = []
        if config.algorithm and settings.algorithm and _set(config.algorithm) != _set(settings.algorithm):
            found.append(f"algorithm {config.algorithm} was asked, {settings.algorithm} runs")
        if settings.steps is not None and settings.steps != config.steps:
            found.append(f"{config.steps} steps were asked, llama-server drafts up to {settings.steps}")
        return tuple(found)

    def counters(self, http: Http) -> Counters:
        """From ``/metrics`` (needs ``--metrics``). ``prompt_tokens`` counts cached ones too. Decode steps are
        not counted (``n_decode_total`` leaves speculative ones out): :meth:`usage` has them per request."""
        answer = http.get("/metrics")
        if answer.status != 200:
            return Counters()
        found = [s for s in samples(answer.text) if s.name.startswith("llamacpp:")]
        raw = {s.name.removeprefix("llamacpp:"): s.value for s in found if not s.labels}
        per_position = {
            int(s.labels["position"]): s.value
            for s in found
            if s.name == "llamacpp:spec_decode_num_accepted_tokens_per_pos_total"
            and s.labels.get("position", "").isdigit()
        }
        cached = raw.get("prompt_tokens_cached_total")
        processed = raw.get("prompt_tokens_total")
        return Counters(
            generated_tokens=raw.get("tokens_predicted_total"),
            prompt_tokens=None if processed is None else processed + (cached or 0),
            cached_prompt_tokens=cached,
            drafts=raw.get("spec_decode_num_drafts_total"),
            draft_tokens=raw.get("spec_decode_num_draft_tokens_total"),
            accepted_tokens=raw.get("spec_decode_num_accepted_tokens_total"),
            accepted_by_position=tuple(per_position[i] for i in sorted(per_position)),
            raw=raw,
        )

    def flush(self, http: Http) -> bool:  # noqa: ARG002
        """Nothing to do: each request says ``cache_prompt: false`` and is computed whole.

        What n-gram types learn stays and cannot be emptied. ``ngram-mod`` knows the answers from the second
        round on (1.7, then 2.5 tokens a step over the same texts of 64 tokens); ``ngram-map-k`` settles after
        one round; ``ngram-simple`` and ``ngram-cache`` give the same in every round.
        """
        return True

    # --- requests

    def request(self, endpoint: str) -> tuple[str, Mapping[str, Any]]:
        return openai.path_of(endpoint), {
            "stream": True,
            "stream_options": {"include_usage": True},
            "timings_per_token": True,
            "ignore_eos": True,
            "cache_prompt": False,
        }

    def progress(self, event: Mapping[str, Any]) -> Progress:
        return openai.progress_of(event, as_dict(event.get("timings")).get("predicted_n"))

    def usage(self, events: Sequence[Mapping[str, Any]]) -> Usage | None:
        """From the last event that has ``usage``; its ``timings`` tell what was drafted and accepted.

        Decode steps are (tokens − 1) − accepted: the first token comes from the prompt, and each later step
        yields one token of the target's own and the drafted ones it accepts. The server never drafts beyond
        what a request may still generate, so accepted tokens are all part of the answer.
        """
        last = next((e for e in reversed(events) if isinstance(e.get("usage"), dict)), None)
        if last is None:
            return None
        usage, timings = last["usage"], last.get("timings")
        completion = int(usage.get("completion_tokens") or 0)
        drafted = accepted = None
        if isinstance(timings, dict):
            drafted, accepted = int(timings.get("draft_n", 0)), int(timings.get("draft_n_accepted", 0))
        return Usage(
            completion_tokens=completion,
            prompt_tokens=int(usage.get("prompt_tokens") or 0),
            cached_tokens=as_int(as_dict(usage.get("prompt_tokens_details")).get("cached_tokens")),
            steps=None if accepted is None else float(max(completion - 1 - accepted, 0)),
            draft_tokens=drafted,
            accepted_tokens=accepted,
        )


# --- reading answers


def _set(algorithm: str) -> frozenset[str]:
    return frozenset(types_of(algorithm))


def _remote_hosts(rpc: object) -> frozenset[str]:
    hosts = {server.rpartition(":")[0] for server in str(rpc or "").split(",") if server}
    return frozenset(hosts - {"localhost", "127.0.0.1", "[::1]"})


def _models(served: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    names = [n for m in served for n in (m.get("id"), *as_list(m.get("aliases")))]
    return tuple(dict.fromkeys(str(n) for n in names if n))
