"""The audit trail has every command, and no secret."""

from __future__ import annotations

import signal
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdecode import procfs
from pytest_specdecode.errors import NotRunError, UnknownRunError
from pytest_specdecode.hosts import processes
from pytest_specdecode.hosts.audit import AuditedHost, redact, redact_text
from pytest_specdecode.hosts.local import LocalHost
from pytest_specdecode.hosts.redaction import secrets_in
from pytest_specdecode.ledger import CommandRecord

SECRETS = st.text(st.characters(categories=["L", "N"]), min_size=8, max_size=30).map(lambda s: "S3CRET" + s)
HIDING = [
    ["--api-key", "{}"],
    ["--api-key={}"],
    ["--api_key", "{}"],
    ["--api-keys", "{}", "{}"],
    ["--api-key", "-{}"],
    ["--hf-token", "{}"],
    ["--admin-api-key={}"],
    ["env", "HF_TOKEN={}", "serve"],
    ["env", "OPENAI_API_KEY={} and more", "serve"],
    ["docker", "run", "-e", "HF_TOKEN={}", "image"],
    ["docker", "run", "--env=HF_TOKEN={}", "image"],
    ["bash", "-c", "export VLLM_API_KEY='{}'; exec vllm serve --port 1"],
    ["bash", "-c", "vllm serve --api-key {} --port 1"],
    ["--config", '{{"api_key": "{}", "steps": 2}}'],
    ["curl", "-H", "Authorization: Bearer {}", "http://127.0.0.1"],
    ["curl", "http://user:{}@127.0.0.1/"],
    ["--db-password", "{}"],
]
PLAIN = [
    ["--max-tokens", "512"],
    ["--speculative-num-draft-tokens", "3"],
    ["--max-total-tokens=4096"],
    ["--kv-cache-dtype", "fp8"],
    ["--tokenizer", "Qwen/Qwen3"],
    ["--tokenizer-mode=auto"],
    ["--ssl-keyfile", "/etc/key.pem"],
    ["-c", "monkey=3"],
    ["--speculative-config", '{"method": "ngram", "num_speculative_tokens": 2}'],
    ["http://127.0.0.1:30000/v1"],
    ["sh", "-c", "kill $(cat pid)"],
]


@pytest.mark.parametrize("template", HIDING, ids=" ".join)
@settings(max_examples=20)
@given(secret=SECRETS)
def test_no_secret_is_shown(template: list[str], secret: str) -> None:
    shown = redact([word.format(secret) for word in template])
    assert secret not in " ".join(shown)
    assert any("***" in word for word in shown)
    assert len(shown) == len(template)


@pytest.mark.parametrize("argv", PLAIN, ids=" ".join)
def test_settings_stay_readable(argv: list[str]) -> None:
    assert redact(argv) == tuple(argv)


def test_what_follows_a_secret_is_shown_again() -> None:
    assert redact(["serve", "--api-key", "a", "b", "--port", "1"]) == (
        "serve",
        "--api-key",
        "***",
        "***",
        "--port",
        "1",
    )


@given(st.lists(st.text(max_size=30), max_size=8))
def test_any_command_keeps_its_length_and_redacts_once(argv: list[str]) -> None:
    shown = redact(argv)
    assert len(shown) == len(argv)
    assert redact(shown) == shown


def test_log_lines_lose_known_values() -> None:
    secrets = secrets_in({"HF_TOKEN": "abc", "CUDA_VISIBLE_DEVICES": "0", "EMPTY_KEY": ""})
    assert secrets == {"abc"}
    assert (
        redact_text("using abc on GPU 0, api_key='xyz', port=1", secrets)
        == "using *** on GPU 0, api_key=***, port=1"
    )


def test_every_command_is_told_whether_it_ran_or_not() -> None:
    told: list[CommandRecord] = []
    host = AuditedHost(LocalHost(), told.append)
    host.run(["sh", "-c", "echo out; echo no such unit >&2; exit 5", "--api-key=abc"], timeout=60)
    with pytest.raises(NotRunError):
        host.run(["nonesuch"], timeout=60)
    with pytest.raises(UnknownRunError):
        host.run(["sleep", "60"], timeout=0.1)
    assert [(r.host, r.argv[0], r.status) for r in told] == [
        ("local", "sh", 5),
        ("local", "nonesuch", None),
        ("local", "sleep", None),
    ]
    assert told[0].output == "no such unit"
    assert told[0].argv[-1] == "--api-key=***"
    assert "cannot be run" in told[1].output
    assert "did not end within 0.1 s" in told[2].output
    assert told[2].seconds >= 0.1
    assert host.trail == told


def test_kills_are_in_the_trail_with_their_pids() -> None:
    told: list[CommandRecord] = []
    host = AuditedHost(LocalHost(), told.append)
    process = subprocess.Popen(["sleep", "600"])
    found = procfs.process(process.pid)
    assert found is not None
    processes.send(host, signal.SIGKILL, [(found.pid, found.start)])
    process.wait()
    assert told[-1].killed == (process.pid,)
    assert told[-1].argv[1:3] == ("-", "signal")
    child = host.spawn(["sh", "-c", "exec sleep 600", "--api-key", "abc"])
    assert told[-1].argv == ("sh", "-c", "exec sleep 600", "--api-key", "***")
    assert told[-1].output == f"started as pid {child.pid}"
    assert child.stop(within_s=30)
    assert told[-1].killed == (child.pid,)
    assert told[-1].status == 0
    host.close()
