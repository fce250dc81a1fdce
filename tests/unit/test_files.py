"""Files are whole or not there, whatever happens to the writer."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_specdecode.files import locked, remove_leftovers, write_atomically


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_a_file_is_made_and_replaced(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    write_atomically(file, "old")
    file.chmod(0o640)
    write_atomically(file, "new ±")
    assert file.read_text(encoding="utf-8") == "new ±"
    assert file.stat().st_mode & 0o777 == 0o640
    assert names(tmp_path) == ["a.json"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    write_atomically(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_device_is_written_to_not_replaced() -> None:
    write_atomically(Path("/dev/null"), "gone")
    assert not Path("/dev/null").is_file()


FULL_DISK = """
import resource, sys
from pathlib import Path
from pytest_specdecode.files import write_atomically
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
try:
    write_atomically(Path(sys.argv[1]), "x" * 100_000)
except OSError:
    sys.exit(7)
"""


def test_a_disk_that_fills_up_loses_nothing(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text("old")
    child = subprocess.run([sys.executable, "-c", FULL_DISK, str(file)], check=False)
    assert child.returncode == 7
    assert file.read_text() == "old"
    assert names(tmp_path) == ["a.json"]


KILLED_IN_MID_WRITE = """
import os, signal, sys
from pathlib import Path
from pytest_specdecode import files
files.os.fsync = lambda descriptor: os.kill(os.getpid(), signal.SIGKILL)
files.write_atomically(Path(sys.argv[1]), "new, and never seen")
"""


def test_killed_in_mid_write_leaves_the_old_file_whole(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text("old")
    child = subprocess.run([sys.executable, "-c", KILLED_IN_MID_WRITE, str(file)], check=False)
    assert child.returncode == -signal.SIGKILL
    assert file.read_text() == "old"
    remove_leftovers(file)
    assert names(tmp_path) == ["a.json"]


def test_the_lock_is_held_against_others_and_leaves_no_file(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    with locked(file):
        with pytest.raises(TimeoutError, match="locked by another process"), locked(file, within_s=0.05):
            pass
        assert names(tmp_path) == [".a.json.lock"]
    assert names(tmp_path) == []


HOLD_AND_DIE = """
import sys, time
from pathlib import Path
from pytest_specdecode.files import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_lock_goes_with_a_killed_holder(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    with subprocess.Popen([sys.executable, "-c", HOLD_AND_DIE, str(file)], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"held\n"
        child.kill()
        child.wait()
    with locked(file, within_s=10):
        pass


COUNT = """
import sys
from pathlib import Path
from pytest_specdecode.files import locked
file = Path(sys.argv[1])
for _ in range(100):
    with locked(file):
        file.write_text(str(int(file.read_text()) + 1))
"""


def test_only_one_process_at_a_time_holds_the_lock(tmp_path: Path) -> None:
    file = tmp_path / "count"
    file.write_text("0")
    children = [subprocess.Popen([sys.executable, "-c", COUNT, str(file)]) for _ in range(3)]
    assert [child.wait() for child in children] == [0, 0, 0]
    assert file.read_text() == "300"


def test_a_stale_lock_file_is_no_lock(tmp_path: Path) -> None:
    (tmp_path / ".a.json.lock").write_text("")
    with locked(tmp_path / "a.json", within_s=10):
        pass
    assert names(tmp_path) == []
