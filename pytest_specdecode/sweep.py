"""All cases of a session together, in the ``sweep`` fixture. No pytest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .errors import BrokenError, CaseError, DirtyError, InvalidError, MissingMetricError, RefusedError
from .gating import as_starts, positive
from .ledger import Ledger
from .model import Case, CaseStart, Outcome, SpecConfig, metric, summarize
from .plan import Plan
from .verdict import Interval, Noise, Start, ratio_interval

_ERRORS: Mapping[Outcome, type[CaseError]] = {
    error_type.outcome: error_type  # type: ignore[misc]
    for error_type in (InvalidError, DirtyError, BrokenError)
}


@dataclass(frozen=True, slots=True)
class Sweep:
    """Every case that this session collected, with what was measured of it.

    Each question refuses, naming what is missing, unless all cases collected at that concurrency are valid
    and there are at least two of them: half a sweep has no crossover.
    """

    ledger: Ledger
    plan: Plan
    elsewhere: frozenset[Case] = frozenset()
    """Cases that another host of the pool measures."""

    def best(self, *, concurrency: int, metric_name: str = "tok_s", confidence: float = 0.95) -> SpecConfig:
        """The best configuration at a concurrency; of those that cannot be told from it, the fewest steps.

        :raises CaseError: when the sweep at that concurrency is not whole.
        """
        measured = self._measured(concurrency, metric_name)
        better = metric(metric_name).higher_is_better
        values = {case: summarize(starts, metric_name) for case, starts in measured.items()}
        top = (max if better else min)(values, key=lambda case: values[case])
        for case in sorted(measured, key=lambda c: (c.config.steps, c.config != top.config)):
            if case == top or self._tied(measured, case, top, metric_name, confidence):
                return case.config
        return top.config

    def ratio(
        self,
        steps: int,
        reference: int,
        *,
        concurrency: int,
        metric_name: str = "tok_s",
        confidence: float = 0.95,
    ) -> Interval:
        """``steps`` over ``reference`` in that metric, with the interval: ``.ratio``, ``.low``, ``.high``.

        :raises CaseError: when the sweep at that concurrency is not whole.
        :raises RefusedError: when it has no such configuration, or several with as many steps.
        """
        measured = self._measured(concurrency, metric_name)
        a, b = (_only(measured, wanted, concurrency) for wanted in (steps, reference))
        return self._interval(measured, a, b, metric_name, confidence)

    def _measured(self, concurrency: int, name: str) -> dict[Case, tuple[CaseStart, ...]]:
        cases = [case for case in self.plan.cases() if case.concurrency == concurrency]
        if len(cases) < 2:
            have = ", ".join(f"steps={case.config.steps}" for case in cases) or "nothing"
            raise RefusedError(
                f"a sweep needs at least two configurations at concurrency {concurrency}; "
                f"this session has {have}"
            )
        away = [f"steps={case.config.steps}" for case in cases if case in self.elsewhere]
        if away:
            raise RefusedError(
                f"a sweep compares what one host measured, and the cases at concurrency {concurrency} are "
                f"measured on several ({', '.join(away)} elsewhere); run it with -n0 or -n1"
            )
        found = {case: self.ledger.starts_of(case) for case in cases}
        missing = {case: self._problem(case, starts) for case, starts in found.items()}
        problems = {case: problem for case, problem in missing.items() if problem is not None}
        if problems:
            outcomes = [outcome for outcome, _ in problems.values()]
            worst = max(outcomes, key=lambda outcome: outcome.rank)
            named = "; ".join(f"steps={c.config.steps}: {why}" for c, (_, why) in problems.items())
            raise _ERRORS.get(worst, RefusedError)(
                f"the sweep at concurrency {concurrency} is not whole: {named}"
            )
        for case, starts in found.items():
            try:
                summarize(starts, name)
            except MissingMetricError as error:
                raise InvalidError(
                    f"the sweep cannot ask for it: steps={case.config.steps}: {error}"
                ) from None
        return found

    def _problem(self, case: Case, starts: Sequence[CaseStart]) -> tuple[Outcome, str] | None:
        """Why this case has no number that can be used; None when it has."""
        for summary in self.ledger.cases:
            if summary.case == case:
                for test in summary.tests:
                    if test.outcome in _ERRORS:
                        return test.outcome, f"{test.outcome}: {test.reason}".splitlines()[0]
        invalid = [reason for start in starts for reason in start.reasons]
        if invalid:
            return Outcome.INVALID, f"invalid: {invalid[0]}"
        return None if starts else (Outcome.INCONCLUSIVE, "not measured in this session")

    def _tied(
        self,
        measured: Mapping[Case, Sequence[CaseStart]],
        case: Case,
        top: Case,
        name: str,
        confidence: float,
    ) -> bool:
        interval = self._interval(measured, case, top, name, confidence)
        return interval.low <= 1 <= interval.high

    def _interval(
        self, measured: Mapping[Case, Sequence[CaseStart]], a: Case, b: Case, name: str, confidence: float
    ) -> Interval:
        """With noise pooled over all that this session measured of the target, as in the table."""
        samples = {case: as_starts(starts, name) for case, starts in measured.items()}
        for summed in self.ledger.cases:
            others = [Start(s.start_id, "current", s.values(name)) for s in summed.valid_starts]
            if summed.case.target == a.target and name in summed.metrics and positive(others):
                samples.setdefault(summed.case, tuple(others))
        return ratio_interval(
            samples[a],
            samples[b],
            confidence=confidence,
            noise=Noise.pooled(samples.values()),
            higher_is_better=metric(name).higher_is_better,
        )


def _only(measured: Mapping[Case, object], steps: int, concurrency: int) -> Case:
    found = [case for case in measured if case.config.steps == steps]
    if len(found) != 1:
        have = ", ".join(str(case.config.steps) for case in measured)
        count = "no configuration" if not found else f"{len(found)} configurations"
        raise RefusedError(
            f"{count} with steps={steps} at concurrency {concurrency}; this session has steps {have}; "
            "ask for one that is there once"
        )
    return found[0]
