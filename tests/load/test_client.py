"""The client against servers that send scripted bytes."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from pytest_specdecode.engines.llamacpp import LlamaCpp
from pytest_specdecode.load import eventloop
from pytest_specdecode.load.client import Load, Trace
from pytest_specdecode.load.crew import Crew, Played
from pytest_specdecode.load.limits import Deadlines
from pytest_specdecode.load.share import Job
from pytest_specdecode.load.streams import Stream

from .servers import HEAD, LAST, chunk, end, event, scripted

SOON = Deadlines(connect_s=5.0, first_s=20.0, stall_s=20.0, total_s=20.0)
AT_ONCE = Deadlines(connect_s=5.0, first_s=0.4, stall_s=0.2, total_s=0.8)
Script = Sequence[bytes | float]
GOOD: Script = [
    HEAD,
    chunk(event("a")),
    0.05,
    chunk(event("b")),
    0.05,
    chunk(event("c")),
    chunk(end(3)),
    LAST,
]


USAGE = {"completion_tokens": 3, "prompt_tokens": 3}
ABORTED = b'data: {"choices": [{"text": "", "finish_reason": "abort"}]}\n\ndata: [DONE]\n\n'


@pytest.fixture(params=["uvloop", "asyncio"])
def loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The event loop that streams are received on; each hands packets over in its own way."""
    if request.param == "asyncio":
        monkeypatch.setattr(eventloop, "_loop_factory", lambda: None)
    assert eventloop.name() == request.param
    return str(request.param)


def played(url: str, requests: int = 1, concurrency: int = 1, deadlines: Deadlines = SOON) -> Played:
    load = Load(url, "/v1/completions", {"X-Test": "100%"}, requests, concurrency, 0.0, deadlines)
    return Crew(1, 1).play(Job(load, [3] * requests, LlamaCpp()), [b"{}"] * requests, lambda _: None)


def streams(url: str, requests: int = 1) -> tuple[Stream, ...]:
    return played(url, requests).streams


def failure(script: Script, deadlines: Deadlines = SOON) -> str:
    with scripted(script) as url:
        (stream,) = played(url, deadlines=deadlines).streams
    assert stream.failure is not None
    return stream.failure


def test_tokens_and_their_moments() -> None:
    with scripted(GOOD) as url:
        (stream,) = streams(url)
    assert stream.failure is None
    assert list(stream.tokens) == [1, 1, 1]
    assert stream.decode_s > 0.09
    assert stream.total == 3


@pytest.mark.usefixtures("loop")
@pytest.mark.parametrize("size", [1, 2, 5, 13])
def test_packets_may_end_anywhere(size: int) -> None:
    data = b"".join([HEAD, chunk(event("ä")), chunk(event("日本")), chunk(event("🦊") + end(3)), LAST])
    script: list[bytes | float] = [data[i : i + size] for i in range(0, len(data), size)]
    with scripted([*script, 5.0]) as url:
        (stream,) = streams(url)
    assert stream.failure is None
    assert stream.tokens.sum() == 3
    assert stream.e2e_s < 5, "it ends with its last chunk, not with the connection"


def test_a_text_that_looks_like_the_last_chunk_does_not_end_the_stream() -> None:
    lookalike = chunk(b": x\r\n0\r\n\r\n")
    with scripted([HEAD, chunk(event("a")), lookalike[:-2], 0.1, lookalike[-2:], *GOOD[3:]]) as url:
        (stream,) = streams(url)
    assert stream.failure is None


def test_chunks_may_carry_extensions_zeros_and_trailers() -> None:
    first, second = chunk(event("a")), chunk(event("b") + end(3))
    odd = [b"000" + first[:2].upper() + b" ;x=1" + first[2:], second, b"0\r\nServer-Timing: total\r\n\r\n"]
    with scripted([HEAD, *odd]) as url:
        (stream,) = streams(url)
    assert stream.failure is None
    assert stream.total == 3


def test_a_server_that_stops_listening_in_mid_round() -> None:
    with scripted(GOOD, last=True) as url:
        result = played(url, requests=4)
    good, refused = result.streams
    assert good.failure is None
    assert refused.refused
    assert "no connection to localhost" in (refused.failure or "")
    assert result.unsent == 2


def test_an_answer_ends_with_its_length_without_waiting_for_the_server() -> None:
    body = event("abc") + end(3)
    head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body)
    with scripted([head, body, 1.0]) as url:
        began = time.perf_counter()
        (stream,) = streams(url)
        assert time.perf_counter() - began < 0.9
    assert stream.failure is None


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ([], "closed without an answer"),
        ([b"SSH-2.0-OpenSSH_9.9\r\n"], "not an HTTP/1 answer"),
        ([HEAD, b"zz\r\nabc\r\n", LAST], "not a chunk size"),
        ([HEAD, b"-6\r\nabc\r\n", LAST], "not a chunk size"),
        ([HEAD, chunk(event("a"))[:-2] + b"more", chunk(end(3)), LAST], "a chunk goes on after its"),
        ([HEAD, chunk(event("a")), chunk(end(3))], "cut in mid-stream, after 2 events"),
        ([HEAD, chunk(event("a", usage=USAGE)), chunk(event("b", usage=USAGE))], "cut in mid-stream"),
        ([HEAD, chunk(event("a")), b"40\r\ndata: "], "cut in mid-stream, after 1 events"),
        ([HEAD, chunk(b"data: [1, 2]\n\n"), LAST], "event 1 is not a JSON object"),
        ([HEAD, chunk(b"data: \xff\n\n"), LAST], "event 1 is not a JSON object"),
        ([HEAD, chunk(b'data: {"error": {"message": "out of memory"}}\n\n'), LAST], "out of memory"),
        ([HEAD, chunk(event("a")), LAST], "ended without usage, after 1 events"),
        ([HEAD, chunk(event("a") + b"data: [DONE]\n\n"), LAST], "ended without usage, after 1 events"),
        ([HEAD, chunk(ABORTED), LAST], "ended with finish_reason 'abort'"),
        ([HEAD, chunk(end(3)), LAST], "3 tokens according to usage, but no event carried any"),
        ([b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnope"], "HTTP 404: nope"),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + event("a")], "cut in mid-stream"),
    ],
)
def test_what_is_no_good_stream_is_a_failure_that_says_so(script: Script, said: str) -> None:
    assert said in failure(script)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ([1.0], "nothing came for 0.4 s"),
        ([HEAD, 1.0], "nothing came for 0.4 s"),
        ([HEAD, *[step for c in "abc" for step in (chunk(event(c)), 0.05)], 1.0], "nothing came for 0.2 s"),
        ([HEAD, *[chunk(b": still here\n\n"), 0.05] * 25], "not finished within 0.8 s"),
    ],
)
def test_no_deadline_passes_unnoticed(script: Script, said: str) -> None:
    assert said in failure(script, AT_ONCE)


def test_after_many_failures_the_rest_is_given_up() -> None:
    with scripted([b"HTTP/1.1 500 X\r\nContent-Length: 0\r\n\r\n"]) as url:
        result = played(url, requests=40, concurrency=2)
    assert len(result.streams) + result.unsent == 40
    assert 10 <= len(result.streams) <= 12


@pytest.mark.usefixtures("loop")
def test_https_with_a_certificate_that_the_system_trusts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate = self_signed(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(certificate)
    with scripted(GOOD, tls=tls) as url:
        (stream,) = streams(url)
        assert stream.refused
        assert "certificate verify failed" in (stream.failure or "")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        (stream,) = streams(url)
    assert stream.failure is None
    assert stream.decode_s > 0.09


def self_signed(folder: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    names = x509.SubjectAlternativeName(
        [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(names, critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "tls.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return path


def test_a_trace_in_words_leaves_the_answer_out() -> None:
    trace = Trace(3, 0, 1.0, packets=[bytes(1_000_000)])
    assert len(repr(trace)) < 200
