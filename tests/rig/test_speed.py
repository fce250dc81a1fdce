"""Between two configurations: ours against the diary's own commands, side by side."""

from __future__ import annotations

import statistics
import subprocess
import time
from typing import Any

from . import bed

BY_HAND = [
    ("ct129", "systemctl stop sglang-qwen.service"),
    (
        "root@10.77.0.2",
        "pct exec 129 -- bash -c \"ps aux | grep python3 | grep -v grep | awk '{print \\$2}' | xargs -r "
        'kill -9"',
    ),
]


def by_hand(rig: bed.Rig) -> float:
    """Two fresh connections, a fixed sleep, and fuser over the first one's machine."""
    config = str(rig.home / ".ssh" / "config")
    begin = time.monotonic()
    for where, command in BY_HAND:
        subprocess.run(["ssh", "-F", config, where, command], check=False, capture_output=True)
    time.sleep(2)
    subprocess.run(["ssh", "-F", config, "ct129", "fuser -k /dev/nvidia* 2>/dev/null"], check=False)
    return time.monotonic() - begin


def test_stop_to_proven_clean_is_quick(rig: bed.Rig, session: Any, record_property: Any) -> None:
    s = session().begin()
    s.run.clean()
    ours: list[float] = []
    theirs: list[float] = []
    for _ in range(3):
        for times in (ours, theirs):
            rig.ct("systemctl start sglang-qwen")
            rig.wait(lambda: rig.ct("fuser /dev/nvidia0 2>/dev/null", check=False), "its devices")
            begin = time.monotonic()
            if times is theirs:
                by_hand(rig)
            else:
                s.run.clean()
            times.append(time.monotonic() - begin)
    mine, hand = statistics.median(ours), statistics.median(theirs)
    record_property("seconds", f"{mine:.3f} against {hand:.3f} by hand")
    assert mine <= 1.0, f"{mine:.3f} s, by hand {hand:.3f} s"
    assert mine <= 0.4 * hand
