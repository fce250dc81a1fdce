"""What programs of the host print, read back: systemctl, busctl, fuser, nvidia-smi, /proc, ~/.ssh/config."""

from __future__ import annotations

import json
import string
from pathlib import Path

import paramiko
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specdecode.cleanroom.fuser import parse_fuser
from pytest_specdecode.cleanroom.gpumemory import GpuMemory, parse_gpu_memory
from pytest_specdecode.errors import BrokenError, ConfigError, NotRunError
from pytest_specdecode.hosts.redaction import redact_text
from pytest_specdecode.hosts.scan import parse_scan
from pytest_specdecode.hosts.sshconfig import resolve, split_address
from pytest_specdecode.procscan import parse_maps
from pytest_specdecode.services.execstart import (
    ExecStart,
    literal,
    object_path,
    parse_environment_file,
    parse_exec_start,
    quote,
    variables,
)
from pytest_specdecode.services.units import environment_files, parse_show

words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=40)


def systemd_reads(line: str) -> list[str]:
    """systemd's own reading of a quoted line: split, unquote, C escapes, specifiers (systemd.syntax(7))."""
    found: list[str] = []
    rest = line
    while rest:
        assert rest[0] == '"'
        word, i = bytearray(), 1
        while rest[i] != '"':
            if rest[i] == "\\":
                plain = {"n": b"\n", "t": b"\t", "r": b"\r", "\\": b"\\", '"': b'"'}
                if rest[i + 1] == "x":
                    word += bytes([int(rest[i + 2 : i + 4], 16)])
                    i += 4
                    continue
                word += plain[rest[i + 1]]
                i += 2
                continue
            assert rest[i] not in "\n\r"
            word += rest[i].encode()
            i += 1
        found.append(word.decode().replace("%%", "%"))
        rest = rest[i + 1 :].lstrip(" ")
    return found


@given(st.lists(words, min_size=1, max_size=8))
def test_a_quoted_line_is_read_back_as_the_same_words(argv: list[str]) -> None:
    assert systemd_reads(" ".join(map(quote, argv))) == argv


@given(words)
def test_a_quoted_word_has_no_line_break_and_no_lone_percent_sign(word: str) -> None:
    assert "\n" not in quote(word)
    assert "%" not in quote(word).replace("%%", "")


@given(
    st.lists(words, min_size=1), st.sampled_from([[], ["ignore-failure"], ["no-env-expand", "privileged"]])
)
def test_busctls_answer_is_read_whole(argv: list[str], flags: list[str]) -> None:
    row = ["/bin/x", argv, flags, 0, 0, 0, 0, 0, 0, 0]
    assert parse_exec_start(json.dumps({"type": "a(…)", "data": [row]})) == (
        ExecStart("/bin/x", tuple(argv), tuple(flags)),
    )


@given(st.text())
def test_what_is_no_answer_of_busctl_is_an_error_of_ours(text: str) -> None:
    with pytest.raises(BrokenError):
        parse_exec_start(text)


def test_a_program_that_is_called_otherwise_keeps_both_names() -> None:
    assert ExecStart("/usr/bin/python3", ("serve", "-m"), ("ignore-failure",)).line() == (
        '"-@/usr/bin/python3" "serve" "-m"'
    )


@given(words)
def test_a_literal_word_mentions_no_variable(word: str) -> None:
    assert variables([literal(word)]) == ()


def test_variables_are_found_as_systemd_replaces_them() -> None:
    assert variables(["$A", "x${B}y", "$$C", "$A", "$1", "a$D"]) == ("A", "B", "D")


@given(st.text(string.printable, min_size=1, max_size=30))
def test_an_object_path_has_only_what_the_bus_allows(unit: str) -> None:
    label = object_path(unit).rpartition("/")[2]
    assert set(label) <= set(string.ascii_letters + string.digits + "_")
    assert not label[0].isdigit()


keys = st.sampled_from(["ActiveState", "SubState", "Result", "MainPID", "InvocationID", "ControlGroup"])
values = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=30)


@given(st.dictionaries(keys, values))
def test_systemctl_show_is_read_by_key_in_any_order(properties: dict[str, str]) -> None:
    text = "\n".join(f"{k}={v}" for k, v in properties.items())
    assert dict(parse_show(text).properties) == properties


@given(st.text())
def test_systemctl_show_never_raises(text: str) -> None:
    state = parse_show(text)
    assert state.main_pid >= 0
    assert state.ending()


@pytest.mark.parametrize(
    ("text", "ending"),
    [
        ("ActiveState=failed\nResult=exit-code\nExecMainCode=1\nExecMainStatus=3", "exit status 3"),
        ("ActiveState=failed\nResult=signal\nExecMainCode=2\nExecMainStatus=9", "killed by signal 9"),
        ("ActiveState=inactive\nSubState=dead\nResult=success", "it ended by itself with exit status 0"),
        ("ActiveState=failed\nSubState=failed\nResult=timeout", "failed (failed), Result=timeout"),
    ],
)
def test_an_ending_is_told_as_people_say_it(text: str, ending: str) -> None:
    assert parse_show(text).ending() == ending


def test_a_pending_automatic_restart_counts_as_active() -> None:
    state = parse_show("ActiveState=activating\nSubState=auto-restart\nMainPID=0")
    assert (state.active, state.respawning, state.stopped) == (True, True, False)


def test_environment_files_are_listed_without_their_options() -> None:
    text = "EnvironmentFiles=/etc/default/a b (ignore_errors=yes)\nEnvironmentFiles=/etc/c (ignore_errors=no)"
    assert environment_files(parse_show(text)["EnvironmentFiles"]) == ("/etc/default/a b", "/etc/c")


def test_environment_files_are_read_as_systemd_does() -> None:
    text = "# no\n; no\nA=1\n B = 'two words'\nC=a \\\n b\nnothing\n"
    assert parse_environment_file(text) == {"A": "1", "B": "two words", "C": "a  b"}


@given(st.frozensets(st.integers(1, 4_194_304)))
def test_fuser_prints_a_pid_for_each_file(pids: frozenset[int]) -> None:
    out = "".join(f" {pid}" for pid in pids for _ in range(6))
    err = "".join(f"/dev/nvidia{i}:       {'m' if i else ''}\n" for i in range(6))
    assert parse_fuser(out, err, 0 if pids else 1) == pids


def test_fuser_has_nothing_to_say_of_nobody_and_complains_of_what_it_cannot() -> None:
    assert parse_fuser("", "", 1) == frozenset()
    assert parse_fuser("", "Specified filename /dev/nvidia9 does not exist.\n", 1) == frozenset()
    with pytest.raises(ValueError, match="Cannot stat"):
        parse_fuser("", "Cannot stat file /proc/1/fd: Permission denied", 1)
    with pytest.raises(ValueError, match="unexpected"):
        parse_fuser("usage: fuser", "", 0)


@given(st.lists(st.tuples(st.integers(0, 15), st.one_of(st.integers(0, 200_000), st.none()))))
def test_gpu_memory_is_read_from_csv(gpus: list[tuple[int, int | None]]) -> None:
    text = "\n".join(f"{i}, {'[N/A]' if mib is None else mib}" for i, mib in gpus)
    expected = [GpuMemory(str(i), None if mib is None else mib * 2**20) for i, mib in gpus]
    assert list(parse_gpu_memory(text)) == expected


@given(st.text())
def test_what_is_no_csv_of_memory_is_refused_not_guessed(text: str) -> None:
    try:
        found = parse_gpu_memory(text)
    except ValueError:
        return
    assert all(gpu.used is None or gpu.used % 2**20 == 0 for gpu in found)


def test_maps_name_each_file_once() -> None:
    text = (
        "7f00-7f01 rw-s 00000000 00:05 12                         /dev/nvidia-uvm\n"
        "7f01-7f02 rw-s 00001000 00:05 12                         /dev/nvidia-uvm\n"
        "7f02-7f03 r--p 00000000 fe:00 99 /usr/lib/a b.so (deleted)\n"
        "7f03-7f04 rw-p 00000000 00:00 0                          [heap]\n7f04-7f05 rw-p 00000000 00:00 0\n"
    )
    assert parse_maps(text) == [("00:05", 12, "/dev/nvidia-uvm"), ("fe:00", 99, "/usr/lib/a b.so")]


@given(st.text())
def test_what_is_no_scan_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError, match="not a scan"):
        parse_scan(text)


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("root@10.1.2.6", ("root", "10.1.2.6", None)),
        ("box", (None, "box", None)),
        ("a@b@box:2222", ("a@b", "box", 2222)),
        ("root@[fe80::1]:22", ("root", "fe80::1", 22)),
        ("fe80::1", (None, "fe80::1", None)),
    ],
)
def test_addresses(address: str, parts: tuple[str | None, str, int | None]) -> None:
    assert split_address(address) == parts


@pytest.mark.parametrize("address", ["", "root@", "box:no", "-oProxyCommand=x"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="not an SSH address"):
        split_address(address)


def test_the_users_ssh_configuration_is_honoured() -> None:
    config = paramiko.SSHConfig.from_text(
        "Host gpu\n HostName 10.1.230.174\n User root\n Port 2222\n IdentityFile ~/k\n ProxyJump "
        "ops@jump:2200\n"
        " UserKnownHostsFile /k1 /k2\n IdentitiesOnly yes\nHost jump\n HostName 10.0.0.1\n"
    )
    end = resolve("gpu", config)
    assert (end.hostname, end.user, end.port, end.known_as) == (
        "10.1.230.174",
        "root",
        2222,
        "[10.1.230.174]:2222",
    )
    assert end.identities_only
    assert end.key_files == (str(Path("~/k").expanduser()),)
    assert end.known_hosts[:2] == (Path("/k1"), Path("/k2"))
    assert [(j.hostname, j.user, j.port) for j in end.jumps] == [("10.0.0.1", "ops", 2200)]
    assert resolve("me@gpu:22", config).user == "me"


def test_jumps_in_a_circle_are_told() -> None:
    config = paramiko.SSHConfig.from_text("Host a\n ProxyJump b\nHost b\n ProxyJump a\n")
    with pytest.raises(NotRunError, match="circles"):
        resolve("a", config)


def test_a_key_in_a_units_command_is_not_shown() -> None:
    command = ("/usr/bin/python3", "-m", "server", "--api-key", "sk-1234", "--port", "1")
    answer = json.dumps({"data": [["/usr/bin/python3", list(command), [], 0]]})
    assert "sk-1234" not in redact_text(answer)
    assert "sk-1234" not in redact_text(json.dumps({"argv": answer}))
    assert "sk-1234" not in redact_text(ExecStart(command[0], command).line())
    assert "sk-1234" not in str(ExecStart(command[0], command))
