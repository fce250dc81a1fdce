"""A clean environment, proven: stop, kill what is ours, and look until nothing is left.

The steps are data (:data:`STEPS`, :data:`SITE_STEPS`); :func:`clean` walks them. A step looks first, acts
only if something is
found, and looks again until the deadline; there is no fixed sleep.
"""

from __future__ import annotations

from .proof import CleanProof
from .site import Site
from .steps import SITE_STEPS, STEPS, VACATE, Finding, Room, Step
from .walk import clean

__all__ = ["SITE_STEPS", "STEPS", "VACATE", "CleanProof", "Finding", "Room", "Site", "Step", "clean"]
