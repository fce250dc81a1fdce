"""Every error this package raises on purpose.

.. code-block:: text

    SpecDecodeError
    ├── ConfigError            wrong settings: option, marker or specdecode.toml   → exit status 4
    ├── BaselineError          a baseline file unreadable, newer, not writable      → exit status 4
    ├── MissingMetricError     a metric that was not measured (also AttributeError)
    ├── SampleError            numbers that no verdict can be drawn from (also ValueError)
    ├── HostError              a command did not do what was asked of the host
    │   ├── NotRunError        it is known that the command did not run
    │   │   └── UnprovenError  a second road that is not known to lead to the same machine
    │   └── UnknownRunError    time-out or lost link: it may have run
    └── CaseError              a case that ends without a number; carries its outcome
        ├── BrokenError        unreachable, would not start, crashed, other settings than asked
        ├── DirtyError         the environment could not be proven clean
        ├── InvalidError       the load ran, but the number does not mean what it says
        └── RefusedError       a sweep over cases that were not all measured

A message says what was found, where, and what to do next.
"""

from __future__ import annotations

from typing import ClassVar


class SpecDecodeError(Exception):
    """Root of the tree above."""


class ConfigError(SpecDecodeError):
    """Settings that cannot be used; the message names the key, the value and what was expected."""


class BaselineError(SpecDecodeError):
    """A baseline file that cannot be read, understood or written."""


class MissingMetricError(SpecDecodeError, AttributeError):
    """A metric that this engine or run did not provide; it never counts as passed."""


class SampleError(SpecDecodeError, ValueError):
    """Empty samples, or values that are zero, negative, infinite or not a number."""


class HostError(SpecDecodeError):
    """A command on a host went wrong on the way, not by its own exit status."""


class NotRunError(HostError):
    """The command is known not to have run: no connection, no such program."""


class UnprovenError(NotRunError):
    """The road through the hypervisor is not known to lead to the host: nothing is done over it."""


class UnknownRunError(HostError):
    """The deadline passed or the link broke: the command may have run, in part or whole."""


class CaseError(SpecDecodeError):
    """A case that must not become a number."""

    outcome: ClassVar[str]


class BrokenError(CaseError):
    outcome = "broken"


class DirtyError(CaseError):
    outcome = "dirty"


class InvalidError(CaseError):
    outcome = "invalid"


class RefusedError(CaseError):
    outcome = "inconclusive"
