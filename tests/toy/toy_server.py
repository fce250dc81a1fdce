"""The toy engine: ``python toy_server.py --listen PORT --guess N``. Each step of 5 ms yields N + 1 words.

It speaks nobody else's language: ``/about`` has version, settings and counts, ``POST /speak`` streams words.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

STEP_S = 0.005
lock = threading.Lock()
counts: Counter[str] = Counter()


class Handler(BaseHTTPRequestHandler):
    guess = 0

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (the base class's name)
        del format, args

    def do_GET(self) -> None:
        with lock:
            told = {"version": "toy 1.2", "guess": self.guess, "counts": dict(counts)}
        self._head("application/json")
        self.wfile.write(json.dumps(told).encode())

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        heard, wanted = len(asked["prompt"].split()), asked["max_tokens"]
        self._head("text/event-stream")
        said = 1
        self._event({"words": "word", "said": said})
        steps = guessed = 0
        while said < wanted:
            time.sleep(STEP_S)
            new = min(1 + self.guess, wanted - said)
            said, steps, guessed = said + new, steps + 1, guessed + new - 1
            self._event({"words": " word" * new, "said": said})
        with lock:
            counts.update(heard=heard, said=said, steps=steps, guessed=guessed)
        self._event({"over": True, "said": said, "heard": heard, "steps": steps, "guessed": guessed})

    def _head(self, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.end_headers()

    def _event(self, content: dict[str, Any]) -> None:
        self.wfile.write(b"data: " + json.dumps(content).encode() + b"\n\n")
        self.wfile.flush()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--listen", type=int, required=True)
    parser.add_argument("--guess", type=int, default=0)
    args = parser.parse_args()
    Handler.guess = args.guess
    ThreadingHTTPServer(("127.0.0.1", args.listen), Handler).serve_forever()


if __name__ == "__main__":
    main()
