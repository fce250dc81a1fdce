"""``specdecode clean`` on this machine; systemd and hypervisors are in tests/rig."""

from __future__ import annotations

import os
import socket

from .conftest import Folder


def test_a_clean_machine_is_proven_and_nothing_is_started(folder: Folder) -> None:
    said = folder.specdecode("clean")
    assert (said.status, said.err) == (0, "")
    assert "the service is stopped" in said.out
    assert "the service was not running, and is left so" in said.out
    assert not folder.starts.exists()


def test_what_is_not_ours_stays_and_is_named(folder: Folder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
        folder.configure(
            lambda text: text.replace("steps =", f'url = "http://127.0.0.1:{port}"\nsteps =').replace(
                '"10s"', '"300ms"'
            )
        )
        plan = folder.specdecode("clean", "--plan")
        said = folder.specdecode("clean")
        assert held.fileno() >= 0
    assert (plan.status, said.status) == (0, 10)
    assert "nothing of this has been done" in plan.out
    assert f"port {port} is held by pid {os.getpid()}" in said.err
    assert "not clean; the service is left as it is now: not running" in said.out


def test_an_external_service_is_refused(folder: Folder) -> None:
    service = 'url = "http://127.0.0.1:1"\nservice.external = true\n'
    (folder.path / "specdecode.toml").write_text(f'[target.fake]\nengine = "llamacpp"\n{service}')
    said = folder.specdecode("clean")
    assert said.status == 4
    assert "external: nothing of it is ours to stop or kill" in said.err
