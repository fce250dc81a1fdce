"""Whether GPUs were slowed down, from what nvidia-smi prints (its format, with values made up)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from pytest_specdecode.errors import NotRunError
from pytest_specdecode.gpuclocks import DIALECTS, GpuClocks, GpuWatch, parse
from pytest_specdecode.hosts import CommandResult
from pytest_specdecode.load.gpus import facts_of_gpus, slowdown, watched

NEWEST = """\
0, 91200, 62, 2617, 0x0000000000000004, 1042, 0, 0
1, 91200, 91, 1410, 0x0000000000000060, 0, 5000000, 250
2, 4, 31, 180, 0x0000000000000001, 0, 0, 0
"""
NEWER = """\
0, 71234, 62, 1980, 0x0000000000000004
1, [N/A], 88, 1410, 0x0000000000000020
"""
OLDER = """\
0, 38000, 90, 1200, 0x0000000000000048
1, 38000, 54, 1410, [N/A]
"""


class Driver:
    """A host whose nvidia-smi knows one dialect."""

    name = "rack7"
    python = "python3"

    def __init__(self, dialect: int, text: str) -> None:
        self.dialect, self.text, self.asked = dialect, text, 0

    def run(self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"") -> CommandResult:
        self.asked += 1
        fields = argv[1].removeprefix("--query-gpu=").split(",")
        unknown = [f for f in fields if f not in DIALECTS[self.dialect]]
        text = f'Field "{unknown[0]}" is not a valid field to query.\n' if unknown else self.text
        return CommandResult(tuple(argv), 2 if unknown else 0, text, "", 0.1)


class NoDriver(Driver):
    def run(self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"") -> CommandResult:
        self.asked += 1
        raise NotRunError("rack7: nvidia-smi: not found")


def test_the_newest_driver_counts_and_idle_gpus_are_left_out() -> None:
    capped, hot = GpuWatch(Driver(0, NEWEST)).look()
    assert capped.power_capped
    assert (hot.index, hot.temperature_c, hot.sm_mhz, hot.power_capped) == ("1", 91, 1410, False)
    assert hot.slowed_us == {0x20: 0, 0x40: 5_000_000, 0x80: 250}


def test_a_gpu_that_does_not_tell_its_memory_may_hold_a_model() -> None:
    assert [gpu.index for gpu in GpuWatch(Driver(1, NEWER)).look()] == ["0", "1"]


def test_an_older_driver_is_asked_in_its_own_words_from_the_second_time_on() -> None:
    driver = Driver(2, OLDER)
    watch = GpuWatch(driver)
    assert [gpu.reasons for gpu in watch.look()] == [0x48, None]
    assert driver.asked == 3
    watch.look()
    assert driver.asked == 4


def test_without_nvidia_smi_it_is_asked_once() -> None:
    driver = NoDriver(0, "")
    watch = GpuWatch(driver)
    assert watch.look() == watch.look() == ()
    assert driver.asked == 1


def test_warnings_between_the_lines_are_no_gpus() -> None:
    assert parse("Warning: infoROM is corrupted at gpu 0000:01:00.0\n" + NEWER, 1) == parse(NEWER, 1)


def gpu(index: str = "0", reasons: int = 0, **more: object) -> tuple[GpuClocks, ...]:
    return (GpuClocks(index, reasons, **more),)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("reasons", "said"),
    [
        (0x20, "GPU 0 was slowed down at 91 °C: heat, by the driver; see to its cooling"),
        (0x48, "GPU 0 was slowed down at 91 °C: hardware slow-down, heat, by the hardware; see"),
        (0x84, "GPU 0 was slowed down at 91 °C: power brake; see"),
    ],
)
def test_heat_at_any_look_is_told(reasons: int, said: str) -> None:
    hot = gpu(reasons=reasons, temperature_c=91.0)
    for looks in ([hot, gpu(), gpu()], [gpu(), hot, gpu()], [gpu(), gpu(), hot]):
        assert (slowdown(looks, 10.0) or "").startswith(said)


@pytest.mark.parametrize("reasons", [0x0, 0x1, 0x2, 0x4, 0x10, 0x100])
def test_idle_set_clocks_and_a_power_cap_are_no_slow_down(reasons: int) -> None:
    assert slowdown([gpu(reasons=reasons)] * 3, 10.0) is None


def test_counters_tell_what_no_look_saw_and_that_a_moment_is_not_a_round() -> None:
    before, long, short = (gpu(slowed_us={0x40: us}) for us in (1_000_000, 2_200_000, 1_050_000))
    assert slowdown([before, long], 10.0) == (
        "GPU 0 was slowed down for 12% of the round: heat, by the hardware; see to its cooling and power"
    )
    assert slowdown([before, short], 10.0) is None
    assert slowdown([gpu(reasons=0x40, slowed_us={0x40: 0})] * 2, 10.0) is None, "before the round"


def test_one_look_that_succeeded_tells_by_itself_what_counters_cannot() -> None:
    hot = gpu(reasons=0x40, slowed_us={0x40: 5})
    assert (slowdown([(), hot, ()], 10.0) or "").startswith("GPU 0 was slowed down")


def test_nothing_to_look_at_is_no_slow_down() -> None:
    assert slowdown([], 10.0) is None
    assert slowdown([(), ()], 10.0) is None


def test_looks_lie_before_amid_and_after() -> None:
    capped = gpu(reasons=0x4, temperature_c=70.0, sm_mhz=1800.0)
    idle = gpu(reasons=0x1, temperature_c=60.0, sm_mhz=300.0)
    coming = iter([idle, capped, idle])
    with watched(lambda: next(coming), 0.0) as looks:
        while len(looks) < 2:
            pass
    assert looks == [idle, capped, idle]
    assert facts_of_gpus(looks) == {"gpu_power_capped": True, "gpu_temperature_c": 70, "gpu_sm_mhz": 1800}
