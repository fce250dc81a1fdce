"""What a machine is, as baselines name and compare it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdecode import machine
from pytest_specdecode.errors import NotRunError
from pytest_specdecode.hosts import Child, CommandResult
from pytest_specdecode.hosts.local import LocalHost
from pytest_specdecode.machine import Facts, Gpu, context_facts, identity_facts, machine_slug

PRO_6000 = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
WORDS = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=12)
NAMES = st.lists(WORDS, min_size=1, max_size=5).map(" ".join)
GPUS = st.builds(
    Gpu,
    name=NAMES,
    uuid=WORDS.map("GPU-{}".format),
    driver=st.from_regex(r"[0-9]{3}\.[0-9]{2,3}\.[0-9]{2}", fullmatch=True),
    power_limit_w=st.none() | st.integers(1, 1200).map(float),
    mig=st.booleans(),
    memory_mib=st.none() | st.integers(1, 10**6),
)


def gpu(name: str = PRO_6000, uuid: str = "GPU-1", **other: object) -> Gpu:
    plain = {"driver": "580.95.05", "power_limit_w": 600.0, "memory_mib": 97887, **other}
    return Gpu(name, uuid, **plain)  # type: ignore[arg-type]


class Recorded:
    """A host that gives recorded answers: stdout, or (status, stdout), by the command's first words."""

    name = "recorded"
    python = "python3"

    def __init__(self, answers: Mapping[str, str | tuple[int, str]]) -> None:
        self._answers = answers

    def run(self, argv: Sequence[str], *, timeout: float, stdin: bytes = b"") -> CommandResult:
        command = " ".join(argv)
        for start, answer in self._answers.items():
            if command.startswith(start):
                status, text = answer if isinstance(answer, tuple) else (0, answer)
                return CommandResult(tuple(argv), status, text, "", 0.0)
        raise NotRunError(f"{argv[0]}: not here")

    def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> Child:
        raise NotRunError(argv[0])

    def close(self) -> None:
        pass


SERVER = {
    "uname": "Linux 6.8.12-9-pve x86_64\n",
    "cat /proc/cpuinfo": "processor\t: 0\nmodel name\t: AMD EPYC 9354 32-Core Processor\n\nprocessor\t: 1\n",
    "cat /proc/meminfo": "MemTotal:       528265404 kB\nMemFree: 1 kB\n",
    "cat /proc/self/status": "Name:\tcat\nCpus_allowed_list:\t0-1\n",
    "env -0": "CUDA_VISIBLE_DEVICES=0,1\0HOME=/root\0VLLM_API_KEY=abc\0OMP_NUM_THREADS=8\0",
    "nvidia-smi --query": "\n".join(
        f"{PRO_6000}, GPU-{i}, 580.95.05, 600.00, [N/A], 97887" for i in range(4)
    ),
}


def test_a_gpu_server_is_named_by_its_gpus() -> None:
    facts = machine.gather(Recorded(SERVER))
    assert machine_slug(facts) == "4x-rtx-pro-6000"
    assert identity_facts(facts) == {"gpu": PRO_6000, "gpus": 4, "mig": False}
    assert context_facts(facts) == {
        "kernel": "Linux 6.8.12-9-pve",
        "memory_gib": 503.8,
        "cpus_usable": 2,
        "environment": {"CUDA_VISIBLE_DEVICES": "0,1", "OMP_NUM_THREADS": "8"},
        "cpu": "AMD EPYC 9354 32-Core Processor",
        "cpus": 2,
        "driver": "580.95.05",
        "power_limit_w": 600.0,
        "gpu_memory_mib": 97887,
        "gpu_uuids": ["GPU-0", "GPU-1", "GPU-2", "GPU-3"],
    }


def test_without_nvidia_smi_the_cpu_names_it() -> None:
    cpu = {name: text for name, text in SERVER.items() if not name.startswith("nvidia")}
    cpu["cat /proc/cpuinfo"] = SERVER["cat /proc/cpuinfo"].replace(
        "AMD EPYC 9354 32-Core Processor", "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz"
    )
    facts = machine.gather(Recorded(cpu))
    assert machine_slug(facts) == "2x-xeon-platinum-8481c"
    assert identity_facts(facts) == {"cpu": "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz", "cpus": 2}


@pytest.mark.parametrize(
    ("status", "text", "gpus", "problem"),
    [
        (6, "No devices were found\n", 0, ""),
        (
            9,
            "NVIDIA-SMI has failed because it couldn't communicate with the driver.\n",
            0,
            "status 9: NVIDIA-SMI",
        ),
        (
            15,
            f"{PRO_6000}, GPU-0, 580.95.05, 600.00, Disabled, 97887\nGPU is lost.\n",
            1,
            "status 15: GPU is lost.",
        ),
    ],
)
def test_a_failing_nvidia_smi_is_said_and_never_hides_a_gpu(
    status: int, text: str, gpus: int, problem: str
) -> None:
    facts = machine.gather(Recorded({**SERVER, "nvidia-smi --query": (status, text)}))
    assert len(facts.gpus) == gpus
    assert problem in context_facts(facts).get("gpu_problem", "")
    assert bool(facts.gpu_problem) == bool(problem)


def test_mig_instances_are_part_of_the_identity() -> None:
    listing = (
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0)\n"
        "  MIG 3g.40gb     Device  0: (UUID: MIG-a)\n"
        "  MIG 1g.10gb     Device  1: (UUID: MIG-b)\n"
    )
    smi = {
        "nvidia-smi --query": "NVIDIA H100 80GB HBM3, GPU-0, 580.95.05, 700.00, Enabled, 81559\n",
        "nvidia-smi -L": listing,
    }
    facts = machine.gather(Recorded({**SERVER, **smi}))
    assert identity_facts(facts)["mig"] == ["1g.10gb", "3g.40gb"]
    assert machine_slug(facts) == "1x-h100-80gb-hbm3-mig"


def test_arm_tells_its_model_through_lscpu() -> None:
    arm = {
        "cat /proc/cpuinfo": "processor\t: 0\nCPU part\t: 0xd0c\n",
        "env LC_ALL=C lscpu": "Model name:  Neoverse-N1\n",
    }
    assert machine_slug(machine.gather(Recorded(arm))) == "1x-neoverse-n1"


@pytest.mark.parametrize(
    ("model", "slug"),
    [
        ("NVIDIA H200", "1x-h200"),
        ("NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition", "1x-rtx-pro-6000-max-q"),
        ("NVIDIA RTX 6000 Ada Generation", "1x-rtx-6000-ada"),
        ("Tesla V100-SXM2-16GB", "1x-tesla-v100-sxm2-16gb"),
        ("NVIDIA A100-SXM4-80GB", "1x-a100-sxm4-80gb"),
        ("NVIDIA GeForce RTX 4090", "1x-geforce-rtx-4090"),
    ],
)
def test_gpu_names_stay_recognisable(model: str, slug: str) -> None:
    assert machine_slug(Facts("cpu", 1, gpus=(gpu(model),))) == slug


@pytest.mark.parametrize(
    ("model", "slug"),
    [
        ("AMD EPYC 7763 64-Core Processor", "8x-epyc-7763"),
        ("13th Gen Intel(R) Core(TM) i7-1360P", "8x-core-i7-1360p"),
        ("AMD Ryzen 7 7840U w/ Radeon 780M Graphics", "8x-ryzen-7-7840u"),
        ("", "8x-unknown"),
    ],
)
def test_cpu_names_stay_recognisable(model: str, slug: str) -> None:
    assert machine_slug(Facts(model, 8)) == slug


def test_unequal_gpus_are_all_named() -> None:
    mixed = (gpu("NVIDIA H100"), gpu("NVIDIA A100"), gpu("NVIDIA H100", power_limit_w=500.0))
    facts = Facts("cpu", 1, gpus=mixed)
    assert machine_slug(facts) == "1x-a100-2x-h100"
    assert identity_facts(facts)["gpu"] == ["NVIDIA H100", "NVIDIA A100", "NVIDIA H100"]
    assert context_facts(facts)["power_limit_w"] == [600.0, 600.0, 500.0]


@settings(max_examples=25)
@given(st.lists(GPUS, max_size=8))
def test_gpu_lines_are_read_back_as_written(gpus: list[Gpu]) -> None:
    def cell(value: float | None, unknown: str) -> str:
        return unknown if value is None else f"{value:.2f}".removesuffix(".00")

    lines = [
        f"{g.name}, {g.uuid}, {g.driver}, {cell(g.power_limit_w, '[N/A]')}, "
        f"{'Enabled' if g.mig else '[N/A]'}, {cell(g.memory_mib, '[Unknown Error]')}"
        for g in gpus
    ]
    assert machine.parse_gpus("\n".join(lines)) == tuple(gpus)


@given(st.text())
def test_no_parser_falls_over_any_text(text: str) -> None:
    machine.parse_gpus(text.replace("\0", ""))
    machine.parse_mig(text)
    machine.parse_cpuinfo(text)
    machine.parse_lscpu(text)
    machine.parse_meminfo(text)
    machine.parse_allowed(text)
    machine.parse_environment(text)


@given(st.sets(st.integers(0, 300), min_size=1))
def test_allowed_cpus_are_counted(cpus: set[int]) -> None:
    spans: list[list[int]] = []
    for cpu in sorted(cpus):
        if spans and cpu == spans[-1][1] + 1:
            spans[-1][1] = cpu
        else:
            spans.append([cpu, cpu])
    text = ",".join(str(a) if a == b else f"{a}-{b}" for a, b in spans)
    assert machine.parse_allowed(f"Name:\tx\nCpus_allowed_list:\t{text}\nMems_allowed:\t1\n") == len(cpus)


@settings(max_examples=25)
@given(
    st.builds(
        Facts, cpu=st.text(max_size=80), cpus=st.integers(1, 512), gpus=st.lists(GPUS, max_size=5).map(tuple)
    )
)
def test_every_machine_has_a_name_that_fits_a_file(facts: Facts) -> None:
    assert re.fullmatch(r"[a-z0-9][a-z0-9.-]{0,62}[a-z0-9]", machine_slug(facts))
    json.dumps([identity_facts(facts), context_facts(facts)])


def test_this_machine_has_a_name() -> None:
    facts = machine.gather(LocalHost())
    assert facts.cpus >= 1
    assert facts.cpus_usable is None or facts.cpus_usable >= 1
    assert re.fullmatch(r"\d+x-[a-z0-9.-]+", machine_slug(facts))
