"""The unit's own command, its drop-in, starts and endings, with real systemd."""

from __future__ import annotations

import contextlib
import json
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from pytest_specdecode.errors import BrokenError, ConfigError
from pytest_specdecode.hosts.ssh import SshHost
from pytest_specdecode.services.execstart import ExecStart
from pytest_specdecode.services.systemctl import Systemctl

from . import bed
from .test_hosts import CT, NASTY

FLAGS = ("--spec-type", "ngram-mod", "--spec-ngram-mod-n-max", "2")


@pytest.fixture
def ctl(rig: bed.Rig) -> Iterator[Systemctl]:
    with contextlib.closing(SshHost(CT)) as host:
        yield Systemctl(host, "sglang-qwen")


@pytest.mark.parametrize("prefix", ["", "-", ":", "@"])
def test_what_systemd_keeps_is_what_was_written_whatever_the_words(
    rig: bed.Rig, ctl: Systemctl, prefix: str
) -> None:
    flags = {"-": ("ignore-failure",), ":": ("no-env-expand",)}.get(prefix, ())
    first = "my engine" if prefix == "@" else "/usr/bin/printf"
    words = (
        first,
        *NASTY,
        "a\\x41b",
        "ünï\u2028code",
        "\x07bell",
        "$$5",
        "${BRACED} $PLAIN",
        "%n%%",
        "x" * 3000,
    )
    line = ExecStart("/usr/bin/printf", words, flags)
    ctl.write_dropin(f"[Service]\nExecStart=\nExecStart={line.line()}\n")
    ctl.do("daemon-reload", unit=False)
    assert ctl.exec_start() == (line,)


def test_a_program_is_handed_exactly_the_words_of_the_unit_with_other_flags(
    rig: bed.Rig, session: Any
) -> None:
    """Quotes, spaces, %-signs and variables of the unit survive; only speculation flags are replaced."""
    rig.ct(
        "cat > /usr/local/bin/show <<'EOT'\n#!/usr/bin/python3\nimport json,sys,time\n"
        "json.dump(sys.argv[1:], open('/tmp/rig.argv','w'))\ntime.sleep(600)\nEOT\nchmod +x "
        "/usr/local/bin/show"
    )
    rig.unit(
        '/usr/local/bin/show -m "a model.gguf" --json \'{"k": "v w"}\' 100%% $$5 --spec-type ngram-mod '
        "--port 30000 "
        "${WORD} --spec-ngram-mod-n-max 9 --alias $TWO",
        more='Environment="WORD=one two" "TWO=x y"',
    )
    run = session(service="extra_args = ['--price', '$9']").run
    assert run.launch.algorithm == "ngram-mod"
    service = run.service
    assert service.command(FLAGS, 0)[-6:] == ("--price", "$$9", *FLAGS)
    service.start(FLAGS, 0)
    rig.wait(lambda: rig.ct("cat /tmp/rig.argv", check=False).endswith("]"), "its words")
    got = json.loads(rig.ct("cat /tmp/rig.argv"))
    plain = [
        "-m",
        "a model.gguf",
        "--json",
        '{"k": "v w"}',
        "100%",
        "$5",
        "--port",
        "30000",
        "one two",
        "--alias",
    ]
    assert got == [*plain, "x", "y", "--price", "$9", *FLAGS]
    assert rig.ct("cat /etc/systemd/system/sglang-qwen.service").count("n-max 9") == 1
    service.restore()
    assert rig.show("DropInPaths") == ""
    assert rig.show("ActiveState") == "inactive"


def test_our_drop_in_wins_over_an_override_and_stops_restarts_and_limits(rig: bed.Rig, session: Any) -> None:
    rig.unit(more="Restart=always\nRestartSec=0\nStartLimitBurst=2")
    rig.ct(
        "mkdir -p /etc/systemd/system/sglang-qwen.service.d; printf '[Service]\\nExecStart=\\nExecStart="
        f"{bed.SERVE} --alias override --spec-type none\\n' > "
        f"/etc/systemd/system/sglang-qwen.service.d/override.conf;"
        "systemctl daemon-reload"
    )
    service = session().run.service
    assert "override" in service.command((), 0)
    for _ in range(6):
        service.start(FLAGS, 0)
        assert service.state().running
        service.stop(within_s=10)
    service.start(FLAGS, 0)
    assert rig.show("Restart") == "no"
    assert shlex.join(FLAGS) in rig.ct(
        "tr '\\0' ' ' < /proc/$(systemctl show -p MainPID --value sglang-qwen)/cmdline"
    )
    service.restore()
    assert rig.show("Restart") == "always"
    assert rig.show("DropInPaths") == "/etc/systemd/system/sglang-qwen.service.d/override.conf"


def test_a_drop_in_that_sorts_later_is_noticed(rig: bed.Rig, session: Any) -> None:
    rig.ct(
        "mkdir -p /etc/systemd/system/sglang-qwen.service.d; printf '[Service]\\nExecStart=\\nExecStart="
        "/bin/sleep 600\\n' > /etc/systemd/system/sglang-qwen.service.d/zzzz.conf; systemctl daemon-reload"
    )
    service = session(service='exec = ["/bin/sleep", "5", "{flags}"]').run.service
    with pytest.raises(BrokenError, match=r"instead of .*zzzz\.conf"):
        service.start((), 0)
    service.restore()


def test_a_start_that_fails_says_so_at_once_with_the_journals_last_lines(rig: bed.Rig, session: Any) -> None:
    rig.unit(serve="exit-3")
    s = session().begin()
    with pytest.raises(BrokenError, match=r"(?s)exit status 1.*out of memory, says the engine"):
        s.run.start(s.config(1), 0)
    rig.unit("/no/such/program", serve="")
    s = session(service='exec = ["/no/such/program", "{flags}"]')
    with pytest.raises(BrokenError, match=r"(?s)exit status 203"):
        _start_and_look(s.run.service)
    s.run.service.restore()


def _start_and_look(service: Any) -> None:
    """Whichever comes first: the start that fails, or the state that says how it ended."""
    service.start((), 0)
    raise BrokenError(service.state().detail)


def test_somebody_who_restarts_the_unit_changes_the_instance(rig: bed.Rig, session: Any) -> None:
    service = session().run.service
    service.start(FLAGS, 0)
    before = service.instance()
    rig.ct("systemctl restart sglang-qwen")
    assert service.instance() != before
    assert not service.state().running
    assert "somebody else" in service.state().detail
    service.restore()


def test_a_full_disk_is_told_and_leaves_nothing(rig: bed.Rig, session: Any) -> None:
    service = session().run.service
    service.own_command()
    service.take_over()
    folder = "/run/systemd/system/sglang-qwen.service.d"
    rig.ct(
        f"mkdir -p {folder}; mount -t tmpfs -o size=4k full {folder}; head -c 4096 /dev/zero > {folder}/x",
        check=False,
    )
    try:
        with pytest.raises(BrokenError, match=r"drop-in .* could not be written: .*No space left"):
            service.start(FLAGS, 0)
        assert rig.ct(f"ls {folder}") == "x\n"
    finally:
        rig.ct(f"umount {folder}")
    service.restore()
    assert rig.ct("ls /run/systemd/system/") == ""


@pytest.mark.parametrize(
    ("exec_start", "said"),
    [
        ("/bin/sh -c 'exec /usr/bin/python3 serve.py'", "a shell line"),
        ("/opt/run-it --port 1", "a wrapper script"),
        ("/usr/bin/env FOO=1 bash /opt/x.sh", "a shell script"),
        ("/usr/bin/docker run --rm image", "service.start"),
        ("/usr/bin/python3 serve.py $OPTS", r"variable \$OPTS"),
    ],
)
def test_what_cannot_be_rewritten_is_refused_with_advice(
    rig: bed.Rig, session: Any, exec_start: str, said: str
) -> None:
    rig.ct("printf '#!/bin/bash\\nexec python3 x\\n' > /opt/run-it; chmod +x /opt/run-it")
    rig.ct("printf 'OPTS=\"--spec-type ngram-mod --spec-ngram-mod-n-max 3\"\\n' > /etc/default/rig")
    rig.unit(exec_start, more="EnvironmentFile=-/etc/default/rig")
    with pytest.raises(ConfigError, match=said):
        session().run.service.command((), 0)
    instead = session(service='exec = ["/usr/bin/python3", "serve.py", "{flags}", "--last"]').run.service
    assert instead.command(FLAGS, 0) == ("/usr/bin/python3", "serve.py", *FLAGS, "--last")


def test_an_unknown_unit_is_named(rig: bed.Rig, ctl: Systemctl, session: Any) -> None:
    rig.ct("rm /etc/systemd/system/sglang-qwen.service; systemctl daemon-reload")
    with pytest.raises(BrokenError, match="not found"):
        session().run.service.command((), 0)


def test_a_users_own_unit(rig: bed.Rig, session: Any) -> None:
    rig.ct("systemctl start user@1000")
    rig.ct(
        "install -d -o op -g op /home/op/.config /home/op/.config/systemd /home/op/.config/systemd/user;"
        f"printf '[Service]\\nEnvironment=RIG_SERVE=no-devices\\nExecStart={bed.SERVE}\\n' "
        "> /home/op/.config/systemd/user/sglang-qwen.service"
    )
    run_as_op = "runuser -u op -- env XDG_RUNTIME_DIR=/run/user/1000 systemctl --user "
    rig.ct(run_as_op + "daemon-reload; " + run_as_op + "start sglang-qwen")
    s = session(
        host='[target.t.host]\nssh = "op@10.77.0.129"\n', hypervisor="", service="user = true"
    ).begin()
    proof = s.run.clean()
    assert any("partial proof" in note for note in proof.notes)
    server = s.run.start(s.config(2), 0)
    assert server.argv[-4:] == FLAGS
    assert rig.ct("ls /run/user/1000/systemd/user/sglang-qwen.service.d") == "zzz-specdecode.conf\n"
    s.run.close()
    assert rig.ct(run_as_op + "is-active sglang-qwen") == "active\n"
    assert rig.ct("ls /run/user/1000/systemd/user/sglang-qwen.service.d 2>/dev/null", check=False) == ""
    rig.ct("systemctl stop user@1000")
