"""The rig's engine: holds the GPUs' device nodes, then serves as the fake engine does.

``RIG_SERVE``: words that change how it ends: ``ignore-term``, ``no-devices``, ``exit-3`` (at once),
``child`` (a
child that outlives it, renamed and in a session of its own, holds the devices).
"""

from __future__ import annotations

import glob
import os
import runpy
import signal
import sys
import time
from pathlib import Path

WORDS = os.environ.get("RIG_SERVE", "").split()
SERVER = Path(__file__).parents[1] / "fake" / "server.py"


def hold() -> list[object]:
    return [open(path, "r+b", 0) for path in sorted(glob.glob("/dev/nvidia*"))]  # noqa: PTH123, PTH207


def stay(title: str) -> None:
    """A worker that renames itself as SGLang's do, and never ends by itself."""
    if os.fork():
        return
    os.setsid()
    import setproctitle  # type: ignore[import-not-found]

    held = hold()
    setproctitle.setproctitle(title)
    while held:
        time.sleep(60)


if "exit-3" in WORDS:
    sys.exit("out of memory, says the engine")
if "ignore-term" in WORDS:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if "child" in WORDS:
    stay("sglang::scheduler_TP0")
elif "no-devices" not in WORDS:
    HELD = hold()
sys.argv = [str(SERVER), *sys.argv[1:]]
if "ignore-term" in WORDS:
    while True:
        time.sleep(60)
runpy.run_path(str(SERVER), run_name="__main__")
