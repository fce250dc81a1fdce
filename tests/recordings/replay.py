"""What a real engine answered, as the server that an adapter asks."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pytest_specdecode.engines import Answer

HERE = Path(__file__).parent
NOBODY = Answer(0, error="ConnectError: [Errno 111] Connection refused")


class Replay:
    """Answers by path; anything else is refused, as by a server that is gone."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.answers = dict(answers)

    def get(self, path: str, *, timeout: float = 5.0) -> Answer:
        return self.answers.get(path, NOBODY)

    def post(self, path: str, body: Mapping[str, Any] | None = None, *, timeout: float = 30.0) -> Answer:
        return self.answers.get(path, NOBODY)


def recorded(case: str, *, metrics: str = "metrics_after.txt") -> Replay:
    """The server of one recorded case (``llamacpp/off``), after its round of load."""
    told = load(case, "server_info.json")
    answers = {path: answer(told[path]["status"], told[path]["body"]) for path in told}
    answers["/metrics"] = Answer(200, (HERE / case / metrics).read_text())
    return Replay(answers)


def answer(status: int, body: Any) -> Answer:
    return Answer(status, body if isinstance(body, str) else json.dumps(body))


def load(case: str, name: str) -> Any:
    return json.loads((HERE / case / name).read_text())


def argv(case: str) -> list[str]:
    launched: list[str] = load(case, "argv.json")["argv"]
    return launched


def events(case: str, name: str) -> list[dict[str, Any]]:
    """The events of a recorded stream, ``[DONE]`` left out."""
    lines = (HERE / case / name).read_text().splitlines()
    data = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    return [json.loads(text) for text in data if text != "[DONE]"]
