"""``python -m pytest_specdecode``: the ``specdecode`` command."""

from __future__ import annotations

import sys

from .cli import main

sys.exit(main())
