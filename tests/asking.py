"""One streamed request to a real engine, as the load sends it."""

from __future__ import annotations

import json
from typing import Any

import httpx

from pytest_specdecode.engines import Engine

DEADLINE_S = 600.0
"""Far beyond what a slow machine needs: it only ends a test that would hang."""


def ask(
    engine: Engine, url: str, tokens: int, *, prompt: str, endpoint: str = "completions", **more: Any
) -> list[dict[str, Any]]:
    """The events of the answer; ``more`` are further fields of the request."""
    path, fields = engine.request(endpoint)
    user = {"role": "user", "content": prompt}
    asked = {"prompt": prompt} if endpoint == "completions" else {"messages": [user]}
    body = {**fields, **asked, **more, "max_tokens": tokens, "temperature": 0}
    with (
        httpx.Client(trust_env=False, timeout=DEADLINE_S) as client,
        client.stream("POST", url + path, json=body) as answer,
    ):
        data = [line.removeprefix("data: ") for line in answer.iter_lines() if line.startswith("data: ")]
    assert data[-1] == "[DONE]"
    return [json.loads(text) for text in data[:-1]]
