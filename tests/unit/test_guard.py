"""Whatever keeps a run from putting a service back, its guard does it; asked to leave it, nobody does."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from pytest_specdecode import leasefile
from pytest_specdecode.errors import BrokenError
from pytest_specdecode.hosts import CommandResult
from pytest_specdecode.services.guard import Found, Guard, relieve

TOKEN, UNIT = "0123456789ab", "llm.service"


class Shell:
    """Runs commands here, with a systemctl that only notes what it is asked."""

    name, python = "here", "python3"

    def __init__(self, folder: Path, systemctl: str = "") -> None:
        self.log = folder / "asked"
        self.log.touch()
        tools = folder / "bin"
        tools.mkdir()
        for name in ("systemctl", "systemd-run"):
            (tools / name).write_text(f'#!/bin/sh\n{systemctl}\necho "$*" >> {self.log}\n')
            (tools / name).chmod(0o755)
        self.env = {"PATH": f"{tools}:{os.environ['PATH']}"}

    def run(self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"") -> CommandResult:
        ran = subprocess.run(
            argv, input=stdin, env=self.env, timeout=timeout, capture_output=True, check=False
        )
        return CommandResult(tuple(argv), ran.returncode, ran.stdout.decode(), ran.stderr.decode(), 0.0)

    @property
    def asked(self) -> list[str]:
        return self.log.read_text().splitlines()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(leasefile, "folder", lambda: tmp_path / "specdecode")
    leasefile.beat(TOKEN, "15", json.dumps({"user": "me"}))
    return tmp_path / "specdecode"


def found(folder: Path) -> Found:
    return Found(UNIT, active=True, dropin=f"{folder}/llm.service.d/zzz-specdecode.conf")


@pytest.mark.parametrize(
    ("leave", "asked"),
    [
        (
            leasefile.release,
            ["daemon-reload", f"stop {UNIT}", f"reset-failed {UNIT}", f"start --no-block {UNIT}"],
        ),
        (leasefile.forget, []),
    ],
)
def test_a_service_that_the_run_did_not_put_back_is_its_guards(
    tmp_path: Path, folder: Path, leave: Callable[[str], object], asked: list[str]
) -> None:
    shell = Shell(tmp_path)
    Guard(shell, TOKEN, folder=str(folder)).start(found(folder))
    leave(TOKEN)
    shell.log.write_text("")
    script = ["/bin/sh", f"{folder}/guard-{TOKEN}", str(folder), TOKEN, "60"]
    if not asked:
        assert not list(folder.glob(f"*{TOKEN}*"))
        return
    assert shell.run(script, timeout=20).status == 0
    assert [line.strip() for line in shell.asked] == asked
    assert not list(folder.glob(f"beat-{TOKEN}")) + list(folder.glob(f"found-{TOKEN}-*"))


def test_after_a_service_is_back_the_lease_leaves_nothing(tmp_path: Path, folder: Path) -> None:
    guard = Guard(Shell(tmp_path), TOKEN, folder=str(folder))
    guard.start(found(folder))
    guard.stop(UNIT)
    leasefile.release(TOKEN)
    assert [path.name for path in folder.iterdir()] == ["lock"]


def test_a_guard_that_cannot_be_started_has_nothing_to_put_back(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(BrokenError, match="nothing was stopped"):
        Guard(Shell(tmp_path, "exit 1"), TOKEN, folder=str(folder)).start(found(folder))
    assert not list(folder.glob(f"found-{TOKEN}-*"))


def test_a_users_guard_is_found_without_a_login_session(tmp_path: Path, folder: Path) -> None:
    """The user's manager is reached by XDG_RUNTIME_DIR, which a command over SSH may not have."""
    manager = 'case "$*" in *--user*) [ -n "$XDG_RUNTIME_DIR" ] || exit 1;; *) exit 1;; esac'
    with pytest.raises(BrokenError, match="does not put the service back"):  # nobody here does
        relieve(Shell(tmp_path, manager), TOKEN, folder=str(folder), within_s=0.0)
    assert (folder / f"now-{TOKEN}").exists()
