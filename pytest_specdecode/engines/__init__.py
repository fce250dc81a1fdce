"""Flags out; health, version, settings and counters in. One file an engine.

An adapter is pure but for the :class:`Http` it is handed: it knows neither hosts nor pytest, so it can be
tested against recorded answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

if TYPE_CHECKING:
    from ..config import Speculation
    from ..model import SpecConfig


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer: ``status`` 0 means that nobody answered; ``error`` then says why."""

    status: int
    text: str = ""
    error: str = ""

    def json(self) -> Any:
        """The body decoded; None when it is not JSON."""
        import msgspec  # noqa: PLC0415  (kept out of sessions that run no benchmark)

        try:
            return msgspec.json.decode(self.text.encode())
        except msgspec.DecodeError:
            return None


class Http(Protocol):
    """The server under test, as an adapter sees it. Never raises for an unreachable server."""

    def get(self, path: str, *, timeout: float = 5.0) -> Answer: ...

    def post(self, path: str, body: Mapping[str, Any] | None = None, *, timeout: float = 30.0) -> Answer: ...


def acceptance_by_position(rate: float, steps: int) -> tuple[float, ...]:
    """Shares of drafts accepted up to and including each position ``i`` (from 0): ``rate ** (i + 1)``,
    each token's chance given those before it being ``rate``. One more than their sum is the acceptance
    length."""
    return tuple(rate**place for place in range(1, steps + 1))


@dataclass(frozen=True, slots=True)
class Launch:
    """What a launch command says, read without running it. None: it does not say."""

    algorithm: str | None = None
    steps: int | None = None
    model: str | None = None
    port: int | None = None
    nodes: int = 1
    topk: int | None = None
    draft_tokens: int | None = None
    """Where they do not follow from the steps."""
    draft_model: str | None = None
    args: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    """Further speculation settings, in the form of ``Speculation.args``."""

    def complete(self, speculation: Speculation) -> Speculation:
        """What the target says of speculation and, where it says nothing, what the launch command says."""
        from msgspec.structs import replace  # noqa: PLC0415  (kept out of sessions that run no benchmark)

        return replace(
            speculation,
            algorithm=speculation.algorithm or self.algorithm,
            topk=speculation.topk or self.topk,
            draft_tokens=speculation.draft_tokens or (None if speculation.topk else self.draft_tokens),
            draft_model=speculation.draft_model or self.draft_model,
            args={**self.args, **speculation.args},
        )


@dataclass(frozen=True, slots=True)
class Readiness:
    ready: bool
    detail: str = ""
    """What the server said instead, for the progress line and the error."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What the running engine says it runs. None: this engine does not tell."""

    speculating: bool | None = None
    algorithm: str | None = None
    steps: int | None = None
    topk: int | None = None
    draft_tokens: int | None = None
    max_running: int | None = None
    """Requests that it runs together at most."""
    models: tuple[str, ...] = ()
    """Names under which it serves."""
    context_tokens: int | None = None
    """Prompt + output tokens that one request may have."""
    raw: Mapping[str, Any] = field(default_factory=dict)
    """The answer's relevant part in the engine's words, for reports."""


@dataclass(frozen=True, slots=True)
class Counters:
    """Running totals since the server's start. None: this engine does not count it."""

    generated_tokens: float | None = None
    prompt_tokens: float | None = None
    cached_prompt_tokens: float | None = None
    drafts: float | None = None
    """Steps that drafted something."""
    draft_tokens: float | None = None
    accepted_tokens: float | None = None
    accepted_by_position: tuple[float, ...] = ()
    steps: float | None = None
    """Decode steps, draftless ones included."""
    raw: Mapping[str, float] = field(default_factory=dict)


class Progress(NamedTuple):
    """What one streamed event says of its request."""

    text: str = ""
    """New content or reasoning text; empty for role and usage events."""
    tokens: int | None = None
    """Tokens generated so far, where the engine sends running counts."""
    finish_reason: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What the engine says of a finished request, from its last event(s). None: it does not tell."""

    completion_tokens: int
    prompt_tokens: int
    cached_tokens: int | None = None
    steps: float | None = None
    """Decode steps of this request (the prefill's token apart), draftless ones included."""
    draft_tokens: int | None = None
    accepted_tokens: int | None = None
    drafts: int | None = None
    """Steps that drafted something."""
    accepted_by_position: tuple[float, ...] = ()
    """Steps that accepted each position of the draft, from the first."""


@runtime_checkable
class ChecksLaunch(Protocol):
    """An engine that can tell from a launch command that a case could not be measured on it."""

    def check_launch(self, argv: Sequence[str], config: SpecConfig, concurrency: int) -> None:
        """Look at the command that is going to be run; ``concurrency``: the highest one.

        :raises ConfigError: saying what to change in it.
        """
        ...


class Engine(Protocol):
    """An engine's own words. ``name`` is the word in ``engine = "…"``."""

    name: str

    def read_launch(self, argv: Sequence[str]) -> Launch:
        """What this launch command sets, every way its flags can be written."""
        ...

    def help_argv(self, argv: Sequence[str]) -> tuple[str, ...]:
        """The command that prints the help text of the program in ``argv``."""
        ...

    def without_speculation(self, argv: Sequence[str]) -> tuple[str, ...]:
        """``argv`` without every flag that :meth:`flags` may set."""
        ...

    def identity_args(self, argv: Sequence[str]) -> tuple[str, ...]:
        """Launch arguments that a baseline depends on: without speculation, host, port, log and key flags."""
        ...

    def flags(
        self,
        config: SpecConfig,
        speculation: Speculation,
        *,
        help_text: str,
        forced_acceptance: float | None = None,
    ) -> tuple[str, ...]:
        """Speculation flags of one configuration, in the spelling that ``help_text`` knows.

        :param forced_acceptance: the chance, above 0 and at most 1, that a drafted token is accepted given
            that all before it were, whatever was drafted; None: as the drafts deserve
        :raises ConfigError: for a setting that this engine cannot express, naming it.
        """
        ...

    def environment(self, config: SpecConfig, forced_acceptance: float | None) -> Mapping[str, str]:
        """Environment variables that ``config`` needs beside its flags."""
        ...

    def ready(self, http: Http) -> Readiness:
        """Whether a request sent now would be served. One quick look, never a wait."""
        ...

    def version(self, http: Http) -> str: ...

    def settings(self, http: Http, argv: Sequence[str]) -> Settings:
        """The settings in force; ``argv`` is the launch command where it is known, else empty."""
        ...

    def mismatches(self, config: SpecConfig, settings: Settings) -> tuple[str, ...]:
        """What of ``config`` is not what runs, one sentence each; empty when all is as asked."""
        ...

    def counters(self, http: Http) -> Counters: ...

    def flush(self, http: Http) -> bool:
        """Empty the prefix cache; False where the engine cannot (prompts then carry a nonce)."""
        ...

    def request(self, endpoint: str) -> tuple[str, Mapping[str, Any]]:
        """(path, body fields of this engine) for a streamed, full-length request to ``endpoint``."""
        ...

    def progress(self, event: Mapping[str, Any]) -> Progress:
        """One decoded event of the stream."""
        ...

    def usage(self, events: Sequence[Mapping[str, Any]]) -> Usage | None:
        """The figures of a whole stream, None when the engine sent none (it was cut)."""
        ...
