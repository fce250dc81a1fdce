"""``specdecode doctor``: a line for each precondition, and nothing touched."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pytest_specdecode.doctor import CHECKS
from tests.plugin.conftest import FAKE

from .conftest import Folder


@contextlib.contextmanager
def serving() -> Iterator[int]:
    """The fake engine, started by somebody else; its port."""
    with socket.socket() as trial:
        trial.bind(("127.0.0.1", 0))
        port = trial.getsockname()[1]
    command = [sys.executable, str(FAKE), "-m", "tiny.gguf", "--alias", "tiny", "--port", str(port)]
    with subprocess.Popen([*command, "--host", "127.0.0.1", "--metrics", "--slots"]) as process:
        try:
            while process.poll() is None:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                    break
            yield port
        finally:
            process.terminate()


def test_a_target_in_order_is_told_line_by_line_and_nothing_is_left(folder: Folder) -> None:
    before = sorted(folder.path.rglob("*"))
    said = folder.specdecode("doctor", "fake")
    assert (said.status, said.err) == (0, "")
    assert all(said.of(check.name).startswith(("ok", "warning")) for check in CHECKS)
    assert said.of("flags").splitlines()[1].startswith("ok      steps=1: --spec-type ngram-mod")
    assert said.of("stored").startswith("warning none of fake on ")
    assert sorted(folder.path.rglob("*")) == before
    assert not folder.starts.exists()


def test_what_is_not_in_order_is_told_with_what_to_do_and_without_secrets(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.configure(
        lambda text: (
            text.replace('engine = "llamacpp"', 'engine = "llamacpp"\napi_key_env = "NO_SUCH_KEY"')
            .replace("output_tokens", 'prompts = "absent.jsonl"\noutput_tokens')
            .replace(f'"{sys.executable}"', '"/no/such/server", "--api-key", "sk-secret"')
        )
    )
    (folder.path / "baselines").mkdir()
    (folder.path / "baselines" / "fake@x.json").write_text("{")
    said = folder.specdecode("doctor")
    assert said.status == 1
    assert said.of("api key") == "not ok  target fake: api_key_env names NO_SUCH_KEY, which is not set"
    assert said.of("program").startswith("not ok")
    assert "/no/such/server" in said.of("program")
    assert said.of("flags") == "unseen  cannot be looked at before program is in order"
    assert "absent.jsonl" in said.of("prompts")
    assert "is not whole JSON" in said.of("baselines")
    assert "sk-secret" not in said.out + said.err


def test_a_program_that_does_not_answer_is_quoted(folder: Folder) -> None:
    (folder.path / "server.py").write_text("raise SystemExit('no CUDA here')")
    folder.configure(lambda text: text.replace(str(FAKE), str(folder.path / "server.py")))
    said = folder.specdecode("doctor")
    assert said.status == 1
    assert "status 1: no CUDA here; run it there by hand" in said.of("program")


def test_a_running_external_engine_is_asked(folder: Folder) -> None:
    with serving() as port:
        (folder.path / "specdecode.toml").write_text(
            f'[target.fake]\nengine = "llamacpp"\nmodel = "huge"\nurl = "http://127.0.0.1:{port}"\n'
            "steps = [0]\nconcurrency = [1]\nservice.external = true\n"
        )
        said = folder.specdecode("doctor")
    assert said.status == 1
    assert said.of("engine").splitlines() == [
        f"ok      llamacpp b11434-unknown answers at http://127.0.0.1:{port}",
        "not ok  it serves tiny, not huge; correct model",
        "ok      metrics: generated tokens, drafts, accepted tokens",
    ]
    assert said.out.count("not ok") == 2  # the line and the sum


SMI = """#!/bin/sh
case "$1" in
*memory.used*) echo "0, 5120" ;;
*) echo "NVIDIA RTX PRO 6000 Blackwell Server Edition, GPU-1, 580.95.05, 600.00, [N/A], 97887" ;;
esac
"""


def test_gpus_are_described_and_must_be_free_where_nothing_runs(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    tools, device = folder.path / "bin", folder.path / "device"
    tools.mkdir()
    for name, text in (("nvidia-smi", SMI), ("fuser", "#!/bin/sh\nexit 1\n")):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    device.touch()
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    folder.configure(
        lambda text: text.replace("[target.fake.cleanup]", f"[target.fake.cleanup]\ndevices = ['{device}']")
    )
    said = folder.specdecode("doctor")
    assert said.status == 1
    assert said.of("gpus") == (
        "ok      1 × RTX PRO 6000, driver 580.95.05, 97887 MiB each, called 1x-rtx-pro-6000 in baselines"
    )
    assert said.of("memory").startswith(
        "not ok  GPU 0: 5120 MiB in use, more than gpu_memory_below (1024 MiB), and"
    )


def test_an_unusable_configuration_is_wrong_settings(folder: Folder) -> None:
    folder.configure(lambda text: text.replace("restarts", "restart"))
    said = folder.specdecode("doctor")
    assert (said.status, said.out) == (4, "")
    assert "specdecode.toml: target.fake.gate.restart: unknown key" in said.err
    assert folder.specdecode("doctor", "--config=absent.toml").status == 4
