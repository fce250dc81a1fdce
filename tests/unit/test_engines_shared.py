"""What adapters share: the HTTP client, engines by name, Prometheus' text."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specdecode.engines import Answer, registry, traffic
from pytest_specdecode.engines.http import HttpxHttp
from pytest_specdecode.engines.llamacpp import LlamaCpp
from pytest_specdecode.engines.prometheus import samples
from pytest_specdecode.errors import ConfigError
from tests.recordings.replay import Replay, answer


class _Echo(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._reply(404 if self.path == "/missing" else 200, self.headers.get("Authorization", "nobody"))

    def do_POST(self) -> None:
        self._reply(200, self.rfile.read(int(self.headers.get("Content-Length", 0))).decode())

    def _reply(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Echo) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_answers_come_with_status_and_headers_go_out(url: str) -> None:
    with HttpxHttp(url, {"Authorization": "Bearer k"}) as http:
        assert (http.get("/health").status, http.get("/health").text) == (200, "Bearer k")
        assert http.get("/missing").status == 404
        assert http.post("/v1", {"a": 1}).json() == {"a": 1}
        assert http.post("/v1").text == ""


def test_proxies_of_the_environment_are_ignored(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    with HttpxHttp(url) as http:
        assert http.get("/health").status == 200


def test_a_server_that_is_gone_is_an_answer_with_the_reason(url: str) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        with HttpxHttp(f"http://127.0.0.1:{unused.getsockname()[1]}") as http:
            told = http.get("/health")
    assert (told.status, told.text) == (0, "")
    assert "refused" in told.error


def test_a_server_that_does_not_answer_in_time_is_an_answer_too() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        with HttpxHttp(f"http://127.0.0.1:{silent.getsockname()[1]}") as http:
            told = http.get("/health", timeout=0.05)
        assert told.status == 0
        assert "within 0.05 s" in told.error


@pytest.mark.parametrize("wrong", ["localhost:8000", "ftp://x", "http://", "http://[::1", "http://x:y"])
def test_a_url_that_cannot_be_used_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigError, match="http://host:port"):
        HttpxHttp(wrong)


def test_engines_are_found_by_name() -> None:
    assert isinstance(registry.load_engine("llamacpp"), LlamaCpp)


def test_an_unknown_engine_names_those_installed() -> None:
    with pytest.raises(ConfigError, match=r"unknown engine 'lamacpp'; installed: .*llamacpp"):
        registry.load_engine("lamacpp")


def test_an_engine_that_cannot_be_imported_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        name, value = "mine", "no_such_package.engine:Mine"

        def load(self) -> object:
            raise ModuleNotFoundError("No module named 'no_such_package'")

    monkeypatch.setattr(registry, "entry_points", lambda group: [Broken()])
    with pytest.raises(ConfigError, match=r"no_such_package.engine:Mine.*cannot be loaded: No module"):
        registry.load_engine("mine")


def test_samples_have_name_labels_and_value() -> None:
    text = '# HELP a:b x\na:b 1\na:c{position="0",q="a\\"},b"} 2.5e3 1700000000\na:d NaN\nnonsense\nx y\n'
    found = list(samples(text))
    assert [(s.name, s.value) for s in found[:2]] == [("a:b", 1.0), ("a:c", 2500.0)]
    assert found[1].labels == {"position": "0", "q": 'a\\"},b'}
    assert len(found) == 3


@given(st.text())
def test_any_text_is_read_without_an_error(text: str) -> None:
    list(samples(text))


@given(st.floats(allow_nan=False), st.integers(0, 99))
def test_values_come_back_exactly(value: float, position: int) -> None:
    (sample,) = samples(f'llamacpp:x{{position="{position}"}} {value!r}')
    assert (sample.value, sample.labels) == (value, {"position": str(position)})


class Busy(Replay):
    """A lone request on SGLang: its gauges follow late."""

    def __init__(self, *metrics: str) -> None:
        super().__init__({"/v1/loads": answer(200, {"loads": [{"num_running_reqs": 0}]})})
        self._metrics = list(metrics)

    def get(self, path: str, *, timeout: float = 5.0) -> Answer:
        if path != "/metrics":
            return super().get(path, timeout=timeout)
        return Answer(200, self._metrics.pop(0) if len(self._metrics) > 1 else self._metrics[0])


IDLE = 'sglang:num_running_reqs{tp_rank="0"} 0.0\nsglang:num_requests_total 7.0\n'


@pytest.mark.parametrize(
    ("metrics", "count"),
    [
        pytest.param([IDLE], 0, id="idle"),
        pytest.param([IDLE, IDLE, IDLE.replace(" 0.0", " 1.0")], 1, id="a gauge that follows late"),
        pytest.param([IDLE, IDLE, IDLE.replace(" 7.0", " 9.0")], 2, id="requests too short for any gauge"),
        pytest.param(
            ["llamacpp:requests_processing 0\n", "llamacpp:requests_processing 3\n"], 0, id="no lag"
        ),
    ],
)
def test_requests_are_seen_though_gauges_follow_late(
    metrics: list[str], count: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traffic, "POLL_S", 0.001)
    assert traffic.in_flight(Busy(*metrics), watch_s=0.02) == count


def test_what_the_engine_itself_accounts_for_counts_at_once() -> None:
    busy = Busy(IDLE)
    busy.answers["/v1/loads"] = answer(200, {"loads": [{"num_running_reqs": 2, "num_waiting_reqs": 3}]})
    assert traffic.in_flight(busy) == 5


def test_an_engine_without_metrics_tells_nothing_of_its_requests() -> None:
    assert traffic.in_flight(Replay({"/metrics": Answer(404)})) is None
