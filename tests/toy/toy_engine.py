"""The adapter of the toy engine, written against the protocol alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from pytest_specdecode.config import Speculation
from pytest_specdecode.engines import Counters, Http, Launch, Progress, Readiness, Settings, Usage
from pytest_specdecode.errors import ConfigError
from pytest_specdecode.model import SpecConfig

GUESS, LISTEN = "--guess", "--listen"


class Toy:
    name = "toy"

    # --- the launch command

    def read_launch(self, argv: Sequence[str]) -> Launch:
        given = dict(pairwise(argv))
        port, guess = given.get(LISTEN, ""), given.get(GUESS)
        return Launch(
            algorithm="guess",
            steps=int(guess) if guess else 0,
            port=int(port) if port.isdigit() else None,
        )

    def help_argv(self, argv: Sequence[str]) -> tuple[str, ...]:
        return (*argv[:2], "--help")

    def without_speculation(self, argv: Sequence[str]) -> tuple[str, ...]:
        return _without(argv, GUESS)

    def identity_args(self, argv: Sequence[str]) -> tuple[str, ...]:
        return _without(_without(argv, GUESS), LISTEN)

    def flags(
        self,
        config: SpecConfig,
        speculation: Speculation,
        *,
        help_text: str,
        forced_acceptance: float | None = None,
    ) -> tuple[str, ...]:
        del speculation
        if GUESS not in help_text:
            raise ConfigError("this toy cannot guess; a newer one can")
        if forced_acceptance is not None:
            raise ConfigError("the toy's guesses are always right")
        return () if config.off else (GUESS, str(config.steps))

    def environment(self, config: SpecConfig, forced_acceptance: float | None) -> Mapping[str, str]:
        del config, forced_acceptance
        return {}

    # --- the running server

    def ready(self, http: Http) -> Readiness:
        answer = http.get("/about")
        return Readiness(answer.status == 200, answer.error)

    def version(self, http: Http) -> str:
        return str(_about(http).get("version", "unknown"))

    def settings(self, http: Http, argv: Sequence[str]) -> Settings:
        del argv
        guess = _about(http).get("guess")
        if guess is None:
            return Settings()
        return Settings(speculating=guess > 0, algorithm="guess", steps=guess, raw={"guess": guess})

    def mismatches(self, config: SpecConfig, settings: Settings) -> tuple[str, ...]:
        if settings.steps in (config.steps, None):
            return ()
        return (f"{config.steps} were asked, it guesses {settings.steps}",)

    def counters(self, http: Http) -> Counters:
        counts = _about(http).get("counts")
        if counts is None:
            return Counters()
        return Counters(
            generated_tokens=counts.get("said", 0),
            prompt_tokens=counts.get("heard", 0),
            draft_tokens=counts.get("guessed", 0),
            accepted_tokens=counts.get("guessed", 0),
            steps=counts.get("steps", 0),
        )

    def flush(self, http: Http) -> bool:
        del http
        return True

    # --- requests

    def request(self, endpoint: str) -> tuple[str, Mapping[str, Any]]:
        del endpoint
        return "/speak", {}

    def progress(self, event: Mapping[str, Any]) -> Progress:
        return Progress(text=event.get("words", ""), tokens=event.get("said"))

    def usage(self, events: Sequence[Mapping[str, Any]]) -> Usage | None:
        last = events[-1] if events else {}
        if "over" not in last:
            return None
        return Usage(
            completion_tokens=last["said"],
            prompt_tokens=last["heard"],
            cached_tokens=0,
            steps=last["steps"],
            draft_tokens=last["guessed"],
            accepted_tokens=last["guessed"],
        )


def _without(argv: Sequence[str], flag: str) -> tuple[str, ...]:
    """``argv`` without ``flag`` and its value."""
    places = [i for i, word in enumerate(argv) if word == flag]
    return tuple(word for i, word in enumerate(argv) if i not in places and i - 1 not in places)


def _about(http: Http) -> dict[str, Any]:
    """What it says of itself; nothing where it does not answer."""
    return http.get("/about").json() or {}
