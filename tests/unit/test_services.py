"""Commands as people write them in specdecode.toml, and which service they make."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdecode.config import ServiceTable, Target
from pytest_specdecode.errors import ConfigError
from pytest_specdecode.hosts.local import LocalHost
from pytest_specdecode.services.command import CommandService, describe_status
from pytest_specdecode.services.registry import make_service, service_types
from pytest_specdecode.services.template import check, expand

HOST = LocalHost()
PLAIN = st.text(st.characters(exclude_characters="{}"), max_size=8)


def target(**service: object) -> Target:
    return Target(name="t", engine="llamacpp", url="http://127.0.0.1:1", service=ServiceTable(**service))  # type: ignore[arg-type]


@settings(max_examples=40)
@given(st.lists(PLAIN), st.lists(PLAIN), st.lists(PLAIN), st.lists(PLAIN), st.integers(1, 65535))
def test_flags_are_spliced_where_they_belong(
    before: list[str], flags: list[str], after: list[str], extra: list[str], port: int
) -> None:
    template = [*before, "{flags}", *after, "--port={port}", "http://127.0.0.1:{port}/{port}"]
    assert expand(template, flags, port, key="k", extra=extra) == (
        *before,
        *flags,
        *after,
        f"--port={port}",
        f"http://127.0.0.1:{port}/{port}",
        *extra,
    )


def test_other_braces_stay_as_they_are() -> None:
    assert expand(['{"a": {"port": 1}}', "{}"], (), 1, key="k") == ('{"a": {"port": 1}}', "{}")


def test_flags_inside_another_argument_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"service.command\[2\]: 'serve \{flags\}' has \{flags\} inside"):
        CommandService(HOST, ["bash", "-c", "serve {flags}"])


def test_flags_twice_are_refused() -> None:
    with pytest.raises(ConfigError, match="more than once"):
        check(["{flags}", "{flags}"], key="service.command")


def test_without_a_place_for_flags_only_no_flags_can_run() -> None:
    service = CommandService(HOST, ["serve", "{port}"])
    assert service.command([], 80) == ("serve", "80")
    with pytest.raises(ConfigError, match="every configuration would run alike"):
        service.command(["--spec-draft-n-max", "2"], 80)


def test_a_port_that_nobody_named_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"service.stop: has \{port\}"):
        expand(["stop", "{port}"], (), None, key="service.stop")


@pytest.mark.parametrize(
    ("service", "kind"),
    [
        ({"command": ["serve", "{flags}"]}, "command"),
        ({"start": ["up", "{flags}"], "stop": ["down"]}, "start+stop"),
        ({"external": True}, "external"),
    ],
)
def test_the_keys_choose_the_service(service: dict[str, object], kind: str) -> None:
    made = make_service(target(**service), HOST)
    assert made.kind == kind
    assert made.managed == (kind != "external")


@pytest.mark.parametrize(
    ("service", "message"),
    [
        ({}, "nothing says how to start it; exactly one is needed of: command; external; start [+] stop"),
        ({"command": ["a"], "external": True}, "command, external were given together"),
        ({"command": ["a"], "stop": ["b"]}, "command, stop were given together"),
        ({"start": ["a"]}, r"target\.t\.service: stop is missing"),
    ],
)
def test_exactly_one_kind_of_service_is_chosen(service: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_service(target(**service), HOST)


def test_a_third_party_service_that_cannot_be_imported_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "broken-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[pytest_specdecode.services]\nslurm = no_such_module:Slurm\n")
    monkeypatch.syspath_prepend(tmp_path)
    service_types.cache_clear()
    with pytest.raises(ConfigError, match=r"service 'slurm' \(no_such_module:Slurm\) cannot be loaded"):
        service_types()
    service_types.cache_clear()


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (0, "exit status 0"),
        (137, "exit status 137"),
        (-11, "killed by SIGSEGV"),
        (-77, "killed by signal 77"),
    ],
)
def test_an_end_is_described(status: int, text: str) -> None:
    assert describe_status(status) == text
