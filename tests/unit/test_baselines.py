"""Which stored numbers a case is compared with, and why not when there are none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_specdecode.baselinefile import StoredCase, StoredConfig
from pytest_specdecode.baselines import Store, changes, check_writable, difference
from pytest_specdecode.errors import BaselineError
from pytest_specdecode.gating import Stored, strictest
from pytest_specdecode.model import Case, Outcome, SpecConfig

from .stored import CONTEXT, IDENTITY, MACHINE, TARGET, case, save, stored


def look_up(
    folder: Path, of: Case, *, identity: dict[str, Any] | None = None, context: dict[str, Any] | None = None
) -> Stored:
    return Store(folder, TARGET).stored(
        of, machine=MACHINE, identity=identity or IDENTITY, context=context or CONTEXT
    )


def test_a_recorded_case_is_found_with_its_starts(tmp_path: Path) -> None:
    save(tmp_path, [stored(case()), stored(case(steps=3), 120), stored(case(concurrency=1), 180)])
    found = look_up(tmp_path, case())
    assert found.problem is None
    assert [s.id for s in found.starts["tok_s"]] == ["stored-0", "stored-1", "stored-2"]
    assert {s.session for s in found.starts["tok_s"]} == {"2026-11-02"}
    assert found.starts["tok_s"][0].rounds[0] == 100
    assert found.history["step_ms"] == [20.0, 20.0, 20.0]
    assert found.changes == ()


def test_without_a_file_there_is_no_baseline(tmp_path: Path) -> None:
    found = look_up(tmp_path / "none", case())
    assert found.problem is Outcome.NO_BASELINE
    assert "nothing is recorded for this case in" in found.reason
    assert "qwen@rack7.json" in found.reason


@pytest.mark.parametrize("other", [case(steps=3), case(concurrency=4), case(steps=0)])
def test_another_case_is_no_baseline(tmp_path: Path, other: Case) -> None:
    save(tmp_path, [stored(case())])
    assert look_up(tmp_path, other).problem is Outcome.NO_BASELINE


def test_another_engine_setting_is_another_case(tmp_path: Path) -> None:
    save(tmp_path, [stored(case())])
    config = SpecConfig.of(2, algorithm="EAGLE", args={"window": 8})
    assert look_up(tmp_path, Case(TARGET, config, 16)).problem is Outcome.NO_BASELINE


def test_other_hardware_is_incomparable_and_names_both_values(tmp_path: Path) -> None:
    save(tmp_path, [stored(case())])
    now = {**IDENTITY, "gpu": {"model": "H100", "count": 4}}
    found = look_up(tmp_path, case(), identity=now)
    assert found.problem is Outcome.INCOMPARABLE
    assert 'gpu.model was "RTX PRO 6000" and is now "H100"' in found.reason


def test_a_field_that_only_one_side_has_is_a_difference(tmp_path: Path) -> None:
    save(tmp_path, [stored(case())])
    found = look_up(tmp_path, case(), identity={**IDENTITY, "workload": "abc"})
    assert found.problem is Outcome.INCOMPARABLE
    assert 'workload was unknown and is now "abc"' in found.reason


def test_another_machines_file_explains_what_is_missing(tmp_path: Path) -> None:
    other = {**IDENTITY, "gpu": {"model": "H100", "count": 4}}
    save(tmp_path, [stored(case(), identity=other)], machine="4x-h100")
    found = look_up(tmp_path, case())
    assert found.problem is Outcome.INCOMPARABLE
    assert "there is none of rack7" in found.reason
    assert "qwen@4x-h100.json" in found.reason
    assert 'gpu.model was "H100" and is now "RTX PRO 6000"' in found.reason


def test_the_same_machine_under_another_name_is_told(tmp_path: Path) -> None:
    save(tmp_path, [stored(case())], machine="old-name")
    found = look_up(tmp_path, case())
    assert found.problem is Outcome.INCOMPARABLE
    assert 'set machine = "old-name" for the target' in found.reason


def test_another_machine_without_that_case_explains_nothing(tmp_path: Path) -> None:
    save(tmp_path, [stored(case(steps=3)), stored(case(), None, note="n")], machine="4x-h100")
    assert look_up(tmp_path, case()).problem is Outcome.NO_BASELINE


def test_a_floor_alone_gates_whatever_the_identity(tmp_path: Path) -> None:
    by_hand = StoredCase(config=StoredConfig(steps=2), concurrency=16, floor={"tok_s": 180}, note="one run")
    save(tmp_path, [by_hand])
    found = look_up(tmp_path, case(), identity={"gpu": "anything"})
    assert found == Stored(floor={"tok_s": 180})


def test_a_note_alone_is_quoted_and_gates_nothing(tmp_path: Path) -> None:
    save(tmp_path, [stored(case(), None, note="186 tok/s, one run")])
    found = look_up(tmp_path, case())
    assert found.problem is Outcome.NO_BASELINE
    assert 'a note says "186 tok/s, one run"' in found.reason


def test_floors_of_all_that_fits_hold_together(tmp_path: Path) -> None:
    loose = StoredCase(config=StoredConfig(steps=2), concurrency=16, floor={"tok_s": 90, "step_ms": 30})
    save(tmp_path, [loose, stored(case(), floor={"tok_s": 95, "step_ms": 40})])
    found = look_up(tmp_path, case())
    assert found.floor == {"tok_s": 95, "step_ms": 30}
    assert len(found.starts["tok_s"]) == 3


def test_a_metric_that_a_start_lacks_is_not_offered(tmp_path: Path) -> None:
    whole = stored(case())
    whole.sessions[0].starts[1].rounds[:] = [{"tok_s": 100.0}]
    save(tmp_path, [whole])
    assert set(look_up(tmp_path, case()).starts) == {"tok_s"}


def test_what_changed_since_the_baseline_is_quoted(tmp_path: Path) -> None:
    save(tmp_path, [stored(case())])
    now = {**CONTEXT, "date": "2026-11-30", "driver": "590", "engine_version": "0.5.23"}
    found = look_up(tmp_path, case(), context=now)
    assert found.changes == ("driver 580 → 590", "sglang 0.5.22 → 0.5.23")


def test_any_unreadable_file_of_the_target_is_told_at_once(tmp_path: Path) -> None:
    save(tmp_path, [stored(case())])
    (tmp_path / "qwen@other.json").write_text("{")
    (tmp_path / "gemma@other.json").write_text("{")
    with pytest.raises(BaselineError, match=r"qwen@other\.json: is not whole JSON"):
        Store(tmp_path, TARGET)


def test_noise_is_pooled_over_the_machines_cases(tmp_path: Path) -> None:
    save(tmp_path, [stored(case()), stored(case(steps=3), 120)])
    store = Store(tmp_path, TARGET)
    noise = store.noise(MACHINE)
    assert set(noise) == {"tok_s", "step_ms"}
    assert noise["tok_s"].start_df > 0
    assert store.noise("elsewhere") == {}


def test_a_metric_that_was_zero_has_no_noise(tmp_path: Path) -> None:
    whole = stored(case())
    whole.sessions[0].starts[0].rounds[0]["step_ms"] = 0.0
    save(tmp_path, [whole])
    assert set(Store(tmp_path, TARGET).noise(MACHINE)) == {"tok_s"}


def test_the_strictest_floor_knows_which_way_is_better() -> None:
    found = strictest([{"tok_s": 100, "ttft_ms_p50": 80}, {"tok_s": 120, "ttft_ms_p50": 90}])
    assert found == {"tok_s": 120, "ttft_ms_p50": 80}


@pytest.mark.parametrize(
    ("then", "now", "said"),
    [
        ({"a": 1}, {"a": 1}, ""),
        ({"a": (1, 2)}, {"a": [1, 2]}, ""),
        ({"a": {"b": 1}}, {"a": {"b": 2}}, "a.b was 1 and is now 2"),
        ({"a": {"b": 1}}, {"a": 2}, 'a was {"b": 1} and is now 2'),
        ({}, {"a": None}, ""),
        ({"a": ["--tp", "4"]}, {"a": ["--tp", "8"]}, 'a was ["4"] and is now ["8"]'),
        ({"a": ["x", "y"]}, {"a": ["y", "x"]}, 'a was ["x", "y"] and is now ["y", "x"]'),
        ({"b": 1, "a": 1}, {"b": 2, "a": 2}, "a was 1 and is now 2"),
    ],
)
def test_the_first_difference_is_named(then: dict[str, Any], now: dict[str, Any], said: str) -> None:
    assert difference(then, now) == said


def test_every_change_is_listed_but_the_date() -> None:
    then = {"engine": "vllm", "engine_version": "1", "power_limit_w": 600, "date": "x", "commit": "a"}
    now = {"engine": "vllm", "engine_version": "2", "power_limit_w": 450, "date": "y", "commit": "a"}
    assert changes(then, now) == ("vllm 1 → 2", "power limit w 600 → 450")


def test_a_folder_is_made_and_proven_writable(tmp_path: Path) -> None:
    check_writable(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        BaselineError, match=r"file/baselines: baselines cannot be written there: .*--spec-baselines"
    ):
        check_writable(tmp_path / "file" / "baselines")
    with pytest.raises(BaselineError, match="cannot be written there"):
        check_writable(Path("/proc/self"))


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ({}, ()),
        ({"driver": "590"}, ("driver 580 → 590",)),
        ({"engine_version": "0.5.23", "kernel": "6.12"}, ("sglang 0.5.22 → 0.5.23",)),
    ],
)
def test_what_compiled_kernels_are_cached_for(
    tmp_path: Path, now: dict[str, Any], said: tuple[str, ...]
) -> None:
    save(tmp_path, [stored(case())])
    store = Store(tmp_path, TARGET)
    assert store.renewed(MACHINE, {**CONTEXT, **now}) == said
    assert store.renewed("another", {**CONTEXT, **now}) == ()
