"""The record of a run: events travel, and views follow from them."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdecode.gating import Gate
from pytest_specdecode.ledger import CaseMeasured, CommandRecord, Event, Ledger, TargetRecord, TestRecord
from pytest_specdecode.model import Case, CaseStart, Outcome, Round, ServerStart, SpecConfig

OFF, TWO = SpecConfig.of(0), SpecConfig.of(2, algorithm="EAGLE", args={"window": 4, "fast": True})


def round_of(speed: float, *reasons: str) -> Round:
    return Round({"tok_s": speed}, 2.5, reasons, {"requests": 16})


def a_test(
    outcome: Outcome, *, config: SpecConfig | None = TWO, restart: int | None = 1, **more: object
) -> TestRecord:
    values = {"id": "test_a.py::test_x", "target": "q", "concurrency": 4, **more}
    return TestRecord(outcome=outcome, config=config, restart=restart, **values)  # type: ignore[arg-type]


MEASURED = CaseMeasured(
    Case("q", TWO, 4), CaseStart("s1", (round_of(100), round_of(102)), {"natural_ends": 0.1})
)
EVENTS: list[Event] = [
    TargetRecord("q", "rack7", {"gpu": "x", "launch": ["--tp", "4"]}, {"driver": "580"}),
    ServerStart("s1", "q", TWO, 1, "2026-11-30T00:00:00Z", 41.5, "0.5.23", {"a": [1]}, ("x", "--y")),
    MEASURED,
    CaseMeasured(
        Case("q", TWO, 8), CaseStart("s1", ()), 3, (Gate(("tok_s",), 0.05, 0.01, 0.99, {"tok_s": 9}),)
    ),
    TestRecord("t", "q", Outcome.PASS, TWO, 4, 1, "", {"tok_s": {"outcome": "pass", "ratio": 1.0}}),
    TestRecord("t2", "q", Outcome.MEASURED, failed=True, reason="assert 1 == 2"),
    CommandRecord("2026-11-30T00:00:00Z", "here", ("kill", "7"), 0, 0.01, "", (7,)),
    CommandRecord("2026-11-30T00:00:00Z", "here", ("x",), None, 0.01, "lost"),
]


def test_events_travel_as_json_and_arrive_as_they_were() -> None:
    here, there = Ledger(), Ledger()
    for event in EVENTS:
        there.add(event)
    here.absorb(json.loads(json.dumps(there.drain())))
    assert here.drain() == Ledger(_events=list(EVENTS)).drain()
    assert here.tests == [e for e in EVENTS if isinstance(e, TestRecord)]
    assert here.commands == [e for e in EVENTS if isinstance(e, CommandRecord)]
    assert here.server_starts == [e for e in EVENTS if isinstance(e, ServerStart)]
    assert here.starts_of(Case("q", TWO, 4)) == (MEASURED.start,)
    assert here.targets["q"].machine == "rack7"


def test_a_drain_hands_out_each_event_once() -> None:
    ledger = Ledger()
    ledger.add(EVENTS[0])
    assert len(ledger.drain()) == 1
    assert ledger.drain() == []
    ledger.add(EVENTS[1])
    assert [plain["event"] for plain in ledger.drain()] == ["start"]
    assert len(ledger.server_starts) == 1


def test_a_server_that_never_got_ready_travels_too() -> None:
    ledger = Ledger()
    ledger.add(ServerStart("s1", "q", OFF, 1, "now"))
    arrived = Ledger()
    arrived.absorb(json.loads(json.dumps(ledger.drain(), allow_nan=False)))
    assert math.isnan(arrived.server_starts[0].ready_s)


def test_a_case_ends_in_the_worst_of_its_tests() -> None:
    ledger = Ledger()
    ledger.add(a_test(Outcome.PASS))
    ledger.add(a_test(Outcome.REGRESSED, id="test_a.py::test_y"))
    ledger.add(a_test(Outcome.BROKEN, config=OFF))
    assert [(c.case.config.steps, c.outcome) for c in ledger.cases] == [
        (0, Outcome.BROKEN),
        (2, Outcome.REGRESSED),
    ]
    assert ledger.counts == {Outcome.PASS: 1, Outcome.REGRESSED: 1, Outcome.BROKEN: 1}


def test_a_test_that_ran_again_counts_once() -> None:
    ledger = Ledger()
    ledger.add(a_test(Outcome.BROKEN, failed=True))
    ledger.add(a_test(Outcome.PASS, restart=2))
    assert ledger.counts == {Outcome.PASS: 1}


def test_a_case_measured_again_on_the_same_start_counts_once() -> None:
    ledger = Ledger()
    case = Case("q", TWO, 4)
    ledger.add(CaseMeasured(case, CaseStart("s1", (round_of(1),))))
    ledger.add(CaseMeasured(case, CaseStart("s2", (round_of(100),))))
    ledger.add(CaseMeasured(case, CaseStart("s1", (round_of(400),))))
    (found,) = ledger.cases
    assert found.metrics == {"tok_s": pytest.approx(200)}
    assert found.outcome is None


def test_what_was_measured_on_a_start_that_was_thrown_away_is_no_number() -> None:
    ledger = Ledger()
    ledger.add(ServerStart("s1", "q", TWO, 1, "2026-11-30T00:00:00Z", discarded="priming"))
    ledger.add(CaseMeasured(Case("q", TWO, 4), CaseStart("s1", (round_of(50),))))
    (found,) = ledger.cases
    assert (found.starts, found.metrics) == ((), {})


def test_invalid_starts_are_kept_but_make_no_number() -> None:
    ledger = Ledger()
    case = Case("q", TWO, 4)
    ledger.add(CaseMeasured(case, CaseStart("s1", (round_of(100), round_of(1, "the client was late")))))
    (found,) = ledger.cases
    assert (len(found.starts), found.valid_starts, found.metrics) == (1, (), {})


@pytest.mark.parametrize("outcome", [Outcome.BROKEN, Outcome.DIRTY, Outcome.INVALID])
def test_a_case_that_ended_in_an_error_has_no_number_whatever_was_measured_before(outcome: Outcome) -> None:
    ledger = Ledger()
    ledger.add(CaseMeasured(Case("q", TWO, 4), CaseStart("s1", (round_of(100),))))
    ledger.add(TestRecord("test_x", "q", outcome, TWO, 4, 2))
    (found,) = ledger.cases
    assert (len(found.starts), found.valid_starts, found.metrics) == (1, (), {})


def test_an_error_that_is_not_the_cases_own_leaves_its_numbers() -> None:
    """Of the target that it is compared with, say."""
    ledger = Ledger()
    ledger.add(CaseMeasured(Case("q", TWO, 4), CaseStart("s1", (round_of(100),))))
    ledger.add(TestRecord("test_x", "q", Outcome.BROKEN, TWO, 4, 2, others=True))
    (found,) = ledger.cases
    assert found.outcome is Outcome.BROKEN
    assert found.metrics == {"tok_s": pytest.approx(100)}


def test_cases_come_by_configuration_and_concurrency_whatever_came_first() -> None:
    ledger = Ledger()
    for config, concurrency in ((TWO, 16), (OFF, 16), (TWO, 4), (OFF, 4)):
        ledger.add(a_test(Outcome.PASS, config=config, concurrency=concurrency))
    assert [(c.case.config.steps, c.case.concurrency) for c in ledger.cases] == [
        (0, 4),
        (0, 16),
        (2, 4),
        (2, 16),
    ]


def test_a_test_over_the_whole_session_belongs_to_no_case() -> None:
    ledger = Ledger()
    ledger.add(a_test(Outcome.MEASURED, config=None, concurrency=None))
    assert ledger.cases == []
    assert ledger.counts == {Outcome.MEASURED: 1}


CONFIGS = st.builds(
    SpecConfig.of,
    st.integers(0, 5),
    algorithm=st.none() | st.text(max_size=4),
    topk=st.integers(1, 4),
    args=st.dictionaries(
        st.text(max_size=3), st.none() | st.booleans() | st.integers() | st.text(max_size=3)
    ),
)
METRICS = st.dictionaries(
    st.sampled_from(["tok_s", "step_ms"]), st.floats(allow_nan=False, allow_infinity=False)
)
ROUNDS = st.builds(Round, METRICS, st.floats(0, 1e4), st.lists(st.text(max_size=5)).map(tuple))


@settings(max_examples=50, deadline=None)
@given(CONFIGS, st.lists(ROUNDS, max_size=3), st.sampled_from(Outcome))
def test_any_event_survives_the_journey(config: SpecConfig, rounds: list[Round], outcome: Outcome) -> None:
    there, here = Ledger(), Ledger()
    case = Case("q", config, 3)
    there.add(CaseMeasured(case, CaseStart("s", tuple(rounds))))
    there.add(TestRecord("t", "q", outcome, config, 3, 1))
    here.absorb(json.loads(json.dumps(there.drain())))
    assert here.starts_of(case) == there.starts_of(case)
    assert here.tests == there.tests
