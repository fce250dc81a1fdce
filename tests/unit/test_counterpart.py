"""Two targets side by side: which configurations correspond, and which pairs cannot be compared."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_specdecode.config import Target, Workload, read_targets
from pytest_specdecode.counterpart import counterpart, refuse_pair, workload_difference
from pytest_specdecode.errors import ConfigError
from pytest_specdecode.markers import Defaults
from pytest_specdecode.model import SpecConfig

EAGLE = Defaults("EAGLE", 1, None, {"window": 8})
NGRAM = Defaults("NGRAM", 4, 16, {"depth": 2})

TOML = """
[target.{name}]
engine = "llamacpp"
{top}
[target.{name}.service]
{service}
"""
COMMAND = 'command = ["llama-server", "--port", "{port}", "{flags}"]'
OWN = 'start = ["up", "{flags}"]\nstop = ["down"]'


def pair(mine: str = COMMAND, theirs: str = COMMAND, top: str = "", other_top: str = "") -> list[Target]:
    text = TOML.format(name="new", top=top, service=mine) + TOML.format(
        name="old", top=other_top, service=theirs
    )
    return list(read_targets(text, Path("/")).values())


def of(steps: int, **more: object) -> SpecConfig:
    return SpecConfig.of(steps, **{"algorithm": "EAGLE", "args": {"window": 8}, **more})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("mine", "theirs"),
    [
        (of(0, args={}), SpecConfig.of(0)),
        (of(2), SpecConfig.of(2, algorithm="NGRAM", topk=4, draft_tokens=16, args={"depth": 2})),
        (
            of(2, topk=2, draft_tokens=6, args={"window": 16}),
            SpecConfig.of(2, algorithm="NGRAM", topk=2, draft_tokens=6, args={"depth": 2, "window": 16}),
        ),
        (
            of(3, algorithm="MTP"),
            SpecConfig.of(3, algorithm="MTP", topk=4, draft_tokens=16, args={"depth": 2}),
        ),
    ],
    ids=["off", "as the other has it", "what a marker says holds for both", "its algorithm too"],
)
def test_the_other_target_runs_as_many_steps_in_its_own_way(mine: SpecConfig, theirs: SpecConfig) -> None:
    assert counterpart(mine, EAGLE, NGRAM) == theirs


def test_equal_targets_run_the_same() -> None:
    assert counterpart(of(3), EAGLE, EAGLE) == of(3)


def test_two_targets_of_one_host_can_be_compared() -> None:
    refuse_pair(*pair())
    refuse_pair(*pair(top='url = "http://127.0.0.1:1"', other_top='url = "http://localhost:2"'))


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        (
            pair(theirs=COMMAND + '\n[target.old.host]\nssh = "root@b"'),
            "must run on one host, described alike; host is .*'ssh': None.* for new and .*root@b.* for old",
        ),
        (
            pair("external = true", "external = true", 'url = "http://a:1"', 'url = "http://b:1"'),
            "address is a for new and b for old",
        ),
        (
            pair(theirs=COMMAND + '\n[target.old.cleanup]\ndevices = ["/dev/dri/*"]'),
            r"cleanup.devices is \['/dev/nvidia\*'\] for new and \['/dev/dri/\*'\] for old",
        ),
        (
            pair('systemd = "a.service"', 'systemd = "b.service"\nuser = true'),
            "both units must be of the same manager",
        ),
        (
            pair(OWN, OWN, 'url = "http://127.0.0.1:1"', 'url = "http://127.0.0.1:1"'),
            "both targets listen on port 1, .* give them different ports",
        ),
    ],
    ids=["host", "address", "devices", "manager", "port"],
)
def test_what_cannot_be_compared_is_said_before_anything_is_stopped(targets: list[Target], said: str) -> None:
    with pytest.raises(ConfigError, match=f"^--spec-against=old: .*{said}"):
        refuse_pair(*targets)


def test_the_setting_in_which_workloads_differ_is_named() -> None:
    a, b = Workload(output_tokens=16, rounds=3), Workload(output_tokens=24, rounds=5)
    assert workload_difference(a, b) == ("workload.output_tokens", "16", "24")
    files = Workload(prompts="/a.jsonl"), Workload(prompts="/b.jsonl")
    assert workload_difference(*files) == ("workload.prompts", "/a.jsonl", "/b.jsonl")
