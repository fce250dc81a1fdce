"""Which exit status a benchmark session ends with (§1)."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from .model import Outcome


class ExitStatus(IntEnum):
    PASSED = 0
    """Every case passed, or was measured or recorded."""
    FAILED = 1
    """Something regressed, or a test's own assert failed."""
    NOTHING_MEASURED = 5
    """No number came out."""
    NOT_MEASURABLE = 10
    """Nothing regressed, but something is dirty, broken or invalid: retry, or call someone."""
    UNDECIDED = 11
    """Only inconclusive, no-baseline or incomparable."""


_CLASSES = (
    (ExitStatus.NOT_MEASURABLE, {outcome for outcome in Outcome if outcome.is_error}),
    (ExitStatus.UNDECIDED, {Outcome.INCONCLUSIVE, Outcome.NO_BASELINE, Outcome.INCOMPARABLE}),
)


def exit_status(failures: Iterable[Outcome | None], *, measured: bool) -> ExitStatus:
    """The status for the outcomes of all failed items and errors.

    :param failures: one per failed item; None for a failure that is no outcome of ours (a user's fixture)
    :param measured: whether any number came out
    """
    failed = set(failures)
    if not failed:
        return ExitStatus.PASSED if measured else ExitStatus.NOTHING_MEASURED
    for status, outcomes in _CLASSES:
        if failed & outcomes:
            soft = status
            break
    else:
        return ExitStatus.FAILED
    known = {outcome for _, outcomes in _CLASSES for outcome in outcomes}
    return ExitStatus.FAILED if failed - known else soft
