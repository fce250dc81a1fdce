"""The queue that client processes share: nothing is sent twice, nothing is left out."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing

from pytest_specdecode.load.work import SharedWork

REQUESTS = 100_000
TAKER = """
import sys
from pytest_specdecode.load.work import SharedWork
work = SharedWork(*map(int, sys.argv[1:]))
print("ready", flush=True)
sys.stdin.readline()
taken = []
while record := work.take():
    assert record[1] == b"%d" % record[0]
    taken.append(record[0])
print(*taken)
"""


def test_processes_that_take_at_the_same_moment_get_different_requests() -> None:
    with closing(SharedWork.create()) as work:
        work.fill([b"%d" % number for number in range(REQUESTS)])
        takers = [
            subprocess.Popen(
                [sys.executable, "-c", TAKER, *map(str, work.fds)],
                pass_fds=work.fds,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(3)
        ]
        for taker in takers:
            assert taker.stdout is not None
            assert taker.stdout.readline() == "ready\n"
        for taker in takers:
            assert taker.stdin is not None
            taker.stdin.write("go\n")
            taker.stdin.flush()
        taken = [int(number) for taker in takers for number in taker.communicate()[0].split()]
    assert sorted(taken) == list(range(REQUESTS))
