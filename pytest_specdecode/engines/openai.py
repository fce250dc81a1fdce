"""The OpenAI-compatible endpoints, as far as all engines here serve them alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import ConfigError
from . import Answer, Http, Progress

PATHS = {"completions": "/v1/completions", "chat": "/v1/chat/completions"}
_TEXTS = ("reasoning_content", "reasoning", "content")
"""Where a chat event has new text."""


def path_of(endpoint: str) -> str:
    """:raises ConfigError: for an endpoint that there is not."""
    if endpoint not in PATHS:
        raise ConfigError(f"endpoint {endpoint!r} is unknown; there are: {', '.join(PATHS)}")
    return PATHS[endpoint]


def progress_of(event: Mapping[str, Any], tokens: object) -> Progress:
    """One event of a stream; ``tokens`` is the running count that the engine sends with it, if any."""
    if "error" in event or event.get("object") == "error":
        wrong = event.get("error") or event
        return Progress(error=str(wrong.get("message", wrong) if isinstance(wrong, dict) else wrong))
    choices = as_list(event.get("choices"))
    choice = as_dict(choices[0]) if choices else {}
    text = choice.get("text")
    if not text and (delta := as_dict(choice.get("delta"))):
        text = "".join(str(delta.get(key) or "") for key in _TEXTS)
    return Progress(text or "", as_int(tokens), choice.get("finish_reason"))


def served(http: Http) -> list[dict[str, Any]]:
    """What ``/v1/models`` lists."""
    return [as_dict(entry) for entry in as_list(as_dict(http.get("/v1/models").json()).get("data"))]


def said(answer: Answer, otherwise: str = "") -> str:
    """What a server that does not answer as it should says, in a few words; ``otherwise`` where it says
    nothing."""
    if not answer.status:
        return answer.error
    body = as_dict(answer.json())
    error = body.get("error")
    message = as_dict(error).get("message") or error or body.get("message") or answer.text[:200]
    return f"HTTP {answer.status}: {message or otherwise}".rstrip(": ")


def as_dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def as_int(value: object) -> int | None:
    if type(value) is int:  # nearly always, and once for each event
        return value
    try:
        return int(str(value))
    except ValueError:
        return None
