"""What a machine is made of: what baselines depend on (identity), what may explain a change (context)."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .errors import HostError, NotRunError
from .hosts import Host
from .hosts.redaction import secrets_in

_TIMEOUT_S = 20.0
_SLUG_LENGTH = 64
QUERY = (
    "nvidia-smi",
    "--query-gpu=name,uuid,driver_version,power.limit,mig.mode.current,memory.total",
    "--format=csv,noheader,nounits",
)
_NO_DEVICES = 6  # nvidia-smi(1): "A query to find an object was unsuccessful"
_ENVIRONMENT = re.compile(
    r"(?:CUDA|NCCL|SGLANG|SGL|VLLM|LLAMA|GGML|OMP|MKL|KMP|OPENBLAS|TORCH|PYTORCH|TRITON|FLASHINFER)_\w+"
)
_NOISE = re.compile(
    r"\((?:R|TM)\)|@.*|\bw/.*|\b(?:NVIDIA|Intel|AMD|CPU|Processor|Blackwell|Generation|with .*"
    r"|\d+-Cores?|\d+(?:st|nd|rd|th) Gen|(?:Server|Workstation|Data Center) Edition)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as nvidia-smi describes it. None: it does not tell."""

    name: str
    uuid: str
    driver: str
    power_limit_w: float | None = None
    mig: bool = False
    memory_mib: int | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """A machine. ``cpus`` are logical ones; ``cpus_usable`` are those that this session may run on."""

    cpu: str
    cpus: int
    kernel: str = ""
    memory_mib: int | None = None
    cpus_usable: int | None = None
    gpus: tuple[Gpu, ...] = ()
    mig_profiles: tuple[str, ...] = ()
    """Profiles of the MIG instances, ``1g.10gb``, over all GPUs."""
    gpu_problem: str = ""
    """What nvidia-smi said where it is installed and failed."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that engines and their libraries read; no secrets."""


def gather(host: Host) -> Facts:
    """The facts of ``host``; what cannot be read is left out.

    :raises HostError: when the host does not answer.
    """
    uname = _output(host, "uname", "-srm").split()
    cpu, cpus = parse_cpuinfo(_output(host, "cat", "/proc/cpuinfo"))
    cpu = cpu or parse_lscpu(_output(host, "env", "LC_ALL=C", "lscpu")) or " ".join(uname[-1:])
    gpus, problem = _gpus(host)
    mig = any(gpu.mig for gpu in gpus)
    return Facts(
        cpu=cpu,
        cpus=cpus,
        kernel=" ".join(uname[:2]),
        memory_mib=parse_meminfo(_output(host, "cat", "/proc/meminfo")),
        cpus_usable=parse_allowed(_output(host, "cat", "/proc/self/status")),
        gpus=gpus,
        mig_profiles=parse_mig(_output(host, "nvidia-smi", "-L")) if mig else (),
        gpu_problem=problem,
        environment=parse_environment(_output(host, "env", "-0")),
    )


def _output(host: Host, *argv: str) -> str:
    try:
        result = host.run(argv, timeout=_TIMEOUT_S)
    except NotRunError:
        return ""
    return result.stdout if result.status == 0 else ""


def _gpus(host: Host) -> tuple[tuple[Gpu, ...], str]:
    """(GPUs, why not all could be read). No nvidia-smi, or no device, is no problem."""
    try:
        result = host.run(QUERY, timeout=_TIMEOUT_S)
    except NotRunError:
        return (), ""
    except HostError as error:
        return (), str(error)
    if result.status == _NO_DEVICES:
        return (), ""
    if result.status != 0:
        said = (result.stdout or result.stderr).strip().splitlines()
        last = said[-1] if said else "no message"
        return parse_gpus(result.stdout), f"nvidia-smi: status {result.status}: {last}"
    return parse_gpus(result.stdout), ""


def parse_gpus(text: str) -> tuple[Gpu, ...]:
    """The answer to :data:`QUERY`, one GPU a line; lines of another shape (warnings) are left out."""
    found = []
    for row in csv.reader(text.splitlines(), skipinitialspace=True):
        cells = [cell.strip() for cell in row]
        if len(cells) != 6 or not cells[1].startswith("GPU-"):
            continue
        name, uuid, driver, power, mig, memory = cells
        total = _number(memory)
        found.append(
            Gpu(
                name,
                uuid,
                driver,
                _number(power),
                mig == "Enabled",
                int(total) if total is not None else None,
            )
        )
    return tuple(found)


def _number(cell: str) -> float | None:
    """``600.00``; None for ``[N/A]``, ``[Not Supported]``, ``[Unknown Error]``."""
    return float(cell) if re.fullmatch(r"\d+(?:\.\d+)?", cell, re.ASCII) else None


def parse_mig(text: str) -> tuple[str, ...]:
    """Profiles of the MIG devices that ``nvidia-smi -L`` lists, sorted."""
    return tuple(sorted(re.findall(r"^\s+MIG (\S+)\s+Device", text, re.MULTILINE)))


def parse_cpuinfo(text: str) -> tuple[str, int]:
    """(model, logical CPUs) of /proc/cpuinfo; the model is empty on ARM, where it is not told."""
    names = re.findall(r"^model name\s*:[ \t]*(.*)$", text, re.MULTILINE)
    return (" ".join(names[0].split()) if names else ""), len(
        re.findall(r"^processor\s*:", text, re.MULTILINE)
    )


def parse_lscpu(text: str) -> str:
    names = re.findall(r"^Model name:[ \t]*(\S.*)$", text, re.MULTILINE)
    return " ".join(dict.fromkeys(name.strip() for name in names))


def parse_meminfo(text: str) -> int | None:
    """MemTotal in MiB."""
    found = re.search(r"^MemTotal:\s*(\d+) kB", text, re.MULTILINE)
    return int(found[1]) // 1024 if found else None


def parse_allowed(text: str) -> int | None:
    """How many CPUs /proc/self/status allows (``Cpus_allowed_list: 0-3,8``)."""
    found = re.search(r"^Cpus_allowed_list:\s*([\d,-]+)$", text, re.MULTILINE)
    if found is None:
        return None
    ends = [span.split("-") for span in found[1].split(",")]
    return sum(int(span[-1]) - int(span[0]) + 1 for span in ends)


def parse_environment(text: str) -> dict[str, str]:
    """The variables of ``env -0`` that engines and their libraries read, without secret ones, sorted."""
    variables = dict(entry.split("=", 1) for entry in text.split("\0") if "=" in entry)
    known = {name: value for name, value in variables.items() if _ENVIRONMENT.fullmatch(name)}
    return {name: value for name, value in sorted(known.items()) if not secrets_in({name: value})}


def machine_slug(facts: Facts) -> str:
    """The machine's name in baseline files: ``4x-rtx-pro-6000``, ``2x-xeon-platinum-8481c``.

    Short rather than exact: editions and memory kinds that it leaves out are in the identity.
    """
    models = Counter(gpu.name for gpu in facts.gpus) if facts.gpus else Counter({facts.cpu: facts.cpus})
    parts = [f"{count}x-{_short(name)}" for name, count in sorted(models.items())]
    if facts.mig_profiles:
        parts.append("mig")
    return "-".join(parts)[:_SLUG_LENGTH].rstrip("-.")


def _short(model: str) -> str:
    words = re.sub(r"[^a-z0-9.]+", "-", _NOISE.sub(" ", model).lower()).strip("-.")
    return words or "unknown"


def hardware(facts: Facts) -> str:
    """What was measured on, for people: ``4 × RTX PRO 6000``, ``2 × Xeon Platinum 8481C``."""
    names = [gpu.name for gpu in facts.gpus] or [facts.cpu] * facts.cpus
    return " + ".join(
        f"{count} × {' '.join(_NOISE.sub(' ', name).split())}"
        for name, count in sorted(Counter(names).items())
    )


def identity_facts(facts: Facts) -> dict[str, Any]:
    """What a baseline depends on: GPUs where there are any, else the CPU."""
    if not facts.gpus:
        return {"cpu": facts.cpu, "cpus": facts.cpus}
    return {
        "gpu": _same([gpu.name for gpu in facts.gpus]),
        "gpus": len(facts.gpus),
        "mig": list(facts.mig_profiles) or any(gpu.mig for gpu in facts.gpus),
    }


def context_facts(facts: Facts) -> dict[str, Any]:
    """What may differ and is quoted when a case regresses; what the machine does not tell is left out."""
    known: dict[str, Any] = {
        "kernel": facts.kernel,
        "memory_gib": round(facts.memory_mib / 1024, 1) if facts.memory_mib else None,
        "cpus_usable": facts.cpus_usable,
        "gpu_problem": facts.gpu_problem,
        "environment": dict(facts.environment),
    }
    if facts.gpus:
        known |= {
            "cpu": facts.cpu,
            "cpus": facts.cpus,
            "driver": _same([gpu.driver for gpu in facts.gpus]),
            "power_limit_w": _same([gpu.power_limit_w for gpu in facts.gpus]),
            "gpu_memory_mib": _same([gpu.memory_mib for gpu in facts.gpus]),
            "gpu_uuids": sorted(gpu.uuid for gpu in facts.gpus),
        }
    return {name: value for name, value in known.items() if value not in (None, "", {})}


def _same(values: Sequence[Any]) -> Any:
    """The value that all share, else the list of them."""
    return values[0] if len(set(values)) == 1 else list(values)
