"""What a clean-up has proven."""

from __future__ import annotations

from dataclasses import dataclass

from ..ledger import CommandRecord


@dataclass(frozen=True, slots=True)
class CleanProof:
    """The ``clean_environment`` fixture: what was shown to be so, and what it took."""

    proven: tuple[str, ...]
    """What was seen to hold, one short clause each; empty for a service that is not ours to stop."""
    seconds: float
    killed: tuple[int, ...] = ()
    """Pids that were signalled."""
    notes: tuple[str, ...] = ()
    """What a reader should know though it does not count against the proof."""
    audit: tuple[CommandRecord, ...] = ()
    """Every command that it took, where the host keeps a trail."""
