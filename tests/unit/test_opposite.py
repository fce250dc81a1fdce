"""The other target of a session: what a case is judged by, what differs, and what cannot be compared."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_specdecode.config import Gate as GateTable
from pytest_specdecode.config import Target, Workload, read_targets
from pytest_specdecode.errors import ConfigError, InvalidError
from pytest_specdecode.gating import Gate
from pytest_specdecode.ledger import CaseMeasured, Ledger
from pytest_specdecode.markers import Defaults
from pytest_specdecode.model import Case, CaseStart, Outcome, Round, ServerStart, SpecConfig
from pytest_specdecode.opening import _targets
from pytest_specdecode.opposite import Opposite
from pytest_specdecode.options import Settings
from pytest_specdecode.run import Run

GATE = Gate.of(GateTable(), None)
TOML = """
[target.new]
engine = "llamacpp"
[target.new.service]
command = ["llama-server", "--port", "{port}", "{flags}"]
env = { NEW_KERNEL = "1", HUB_TOKEN = "secret" }
[target.old]
engine = "llamacpp"
[target.old.service]
command = ["llama-server", "--port", "{port}", "{flags}"]
"""


class Session:
    """What two targets have measured so far; the runs are stand-ins that only tell what they are."""

    def __init__(self, **old: Any) -> None:
        self.ledger = Ledger()
        new, other = read_targets(TOML, Path("/")).values()
        self.opposite = Opposite(
            self._run(new, "ngram-mod", "b2", launch=["-np", "8"]),
            self._run(other, "draft-simple", "b1", launch=["-np", "4"], **old),
            self.ledger,
            Path("/"),
        )

    def _run(
        self,
        target: Target,
        algorithm: str,
        build: str,
        *,
        launch: list[str],
        workload: Any = None,
        cpu: str = "a",
    ) -> Run:
        stub = SimpleNamespace(
            target=target if workload is None else SimpleNamespace(name=target.name, workload=workload),
            defaults=Defaults(algorithm),
            elsewhere=False,
            facts=SimpleNamespace(gpus=(), cpu=cpu, cpus=2),
            identity={"cpu": cpu, "workload": "w", "launch": launch, "model": "m"},
            context={"engine": "llamacpp", "engine_version": build, "date": build},
        )
        return cast("Run", stub)

    def case(self, target: str, concurrency: int = 1) -> Case:
        algorithm = {"new": "ngram-mod", "old": "draft-simple"}[target]
        return Case(target, SpecConfig.of(2, algorithm=algorithm), concurrency)

    def measured(self, target: str, restart: int, *values: float, discarded: str = "", bad: str = "") -> None:
        case, id_ = self.case(target), f"{target}-{restart}{discarded}"
        self.ledger.add(ServerStart(id_, target, case.config, restart, "now", discarded=discarded))
        reasons = (bad,) if bad else ()
        rounds = tuple(Round({"tok_s": v}, 1.0, reasons) for v in values)
        self.ledger.add(CaseMeasured(case, CaseStart(id_, rounds)))


def test_a_case_is_judged_by_the_other_targets_starts_of_this_session() -> None:
    s = Session()
    s.measured("old", 1, 100.0, 104.0)
    s.measured("old", 2, 90.0, 90.0, bad="cut")
    s.measured("old", 3, 98.0, 98.0, discarded="priming")
    stored = s.opposite.stored(s.case("new"))
    assert [start.id for start in stored.starts["tok_s"]] == ["old-1"]
    assert {start.session for start in stored.starts["tok_s"]} == {"current"}
    assert stored.typical["tok_s"] == pytest.approx(102.0)
    assert stored.problem is None


def test_all_that_differs_between_the_two_is_quoted() -> None:
    s = Session()
    s.measured("old", 1, 100.0)
    quoted = "; ".join(s.opposite.stored(s.case("new")).changes)
    assert "llamacpp b1 → b2" in quoted
    assert 'launch ["4"] → ["8"]' in quoted
    assert "algorithm draft-simple → ngram-mod" in quoted
    assert "env.NEW_KERNEL unknown → 1" in quoted
    assert "secret" not in quoted
    assert s.opposite.renewed() == ("llamacpp b1 → b2",)


def test_one_start_a_side_decides_nothing_while_more_are_planned() -> None:
    s = Session()
    s.measured("old", 1, 100.0, 101.0)
    case = s.case("new")
    assert [s.opposite.ready(case, GATE, n, last=False) for n in (1, 2)] == [False, True]
    assert s.opposite.ready(case, GATE, 1, last=True)


def test_a_metric_that_the_other_target_lacks_never_passes() -> None:
    s = Session()
    s.measured("old", 1, 100.0)
    gate = Gate(("step_ms",), 0.05, 0.01, 0.99)
    with pytest.raises(InvalidError, match="on the side of old: the gate needs step_ms"):
        s.opposite.ready(s.case("new"), gate, 2, last=True)


def test_noise_comes_from_the_other_target_and_not_from_the_case_itself() -> None:
    s = Session()
    for restart, value in enumerate((100.0, 102.0), 1):
        s.measured("old", restart, value, value)
        s.measured("new", restart, value * value, value * value)
    assert s.opposite.noise(s.case("new"))["tok_s"].start_df == 1


@pytest.mark.parametrize(
    ("old", "said"),
    [
        ({"workload": Workload(output_tokens=24)}, "workload.output_tokens is 512 for new and 24 for old"),
        ({"cpu": "b"}, "cpu is a for new and b for old"),
    ],
)
def test_other_hardware_or_another_workload_is_incomparable(old: dict[str, Any], said: str) -> None:
    s = Session(**old)
    stored = s.opposite.stored(s.case("new"))
    assert stored.problem is Outcome.INCOMPARABLE
    assert said in stored.reason


@pytest.mark.parametrize(
    ("target", "against", "said"),
    [
        ("new", "odd", "--spec-against=odd: .* has no such target; it has: new, old"),
        ("new", "new", "--spec-against=new is the tested target itself; name another one of new, old"),
        (None, "old", "has several targets"),
    ],
)
def test_two_different_targets_have_to_be_named(
    tmp_path: Path, target: str | None, against: str, said: str
) -> None:
    file = tmp_path / "specdecode.toml"
    file.write_text(TOML)
    settings = Settings(True, target=target, against=against, config_file=file)
    with pytest.raises(ConfigError, match=said):
        _targets(cast("Any", SimpleNamespace(rootpath=tmp_path)), settings)


def test_the_embedded_target_has_no_other(tmp_path: Path) -> None:
    settings = Settings(True, against="demo")
    with pytest.raises(ConfigError, match="compares two targets of a configuration file, and there is no"):
        _targets(cast("Any", SimpleNamespace(rootpath=tmp_path)), settings)
