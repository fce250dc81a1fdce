"""Command line and ini: read once into a frozen :class:`Settings`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, cast

import pytest

from .errors import ConfigError
from .units import seconds

MAX_STEPS: Final = 1000
Inconclusive = Literal["fail", "skip", "pass"]
RECORD_LONG: Final = "--spec-update-baselines"
RECORD_SHORT: Final = "--update-baselines"


def add_options(parser: pytest.Parser) -> None:
    group = parser.getgroup("specdecode", "speculative-decoding benchmarks")

    def option(name: str, help_text: str, *, metavar: str) -> None:
        dest = "specdecode_" + name.removeprefix("--spec-").replace("-", "_")
        group.addoption(name, dest=dest, default=None, metavar=metavar, help=help_text)

    option(
        "--spec-steps", "speculation steps to run: 1,2,3 or 1-4; 0 or off = no speculation", metavar="LIST"
    )
    option("--spec-concurrency", "concurrency levels to run: 1,4,16", metavar="LIST")
    option("--spec-target", "which target of the configuration file to measure", metavar="NAME")
    option(
        "--spec-against",
        "measure this target too, in turns with the tested one on their host, and judge by its numbers of "
        "this session, not by stored baselines",
        metavar="TARGET",
    )
    option(
        "--spec-config",
        "configuration file (default: specdecode.toml in rootdir; else the embedded CPU target)",
        metavar="FILE",
    )
    option(
        "--spec-baselines", "folder of the stored baselines (default: baselines/ in rootdir)", metavar="DIR"
    )
    option("--spec-restarts", "most server restarts per configuration", metavar="N")
    option("--spec-rounds", "rounds of load per restart", metavar="N")
    option(
        "--spec-inconclusive",
        "what a case that could not be decided counts as: fail (default), skip or pass",
        metavar="fail|skip|pass",
    )
    option(
        "--spec-wait-lease",
        "wait so long for a host that another run holds, such as 10min (default: not at all)",
        metavar="DURATION",
    )
    option("--spec-json", "write the complete report of a benchmark session to FILE", metavar="FILE")
    option("--spec-html", "write the report as one self-contained page with plots to FILE", metavar="FILE")
    option("--spec-markdown", "write the report for a pull request to FILE", metavar="FILE")
    for name, text in {
        RECORD_LONG: "record what ran as new baselines instead of judging it (short: --update-baselines)",
        "--spec-resume": "take what an interrupted run has measured from its journal, and measure the rest",
        "--spec-plan": "say what would be done and which processes would be killed; touch nothing",
        "--spec-extend-baselines": "with --update-baselines: add this session to the stored ones",
        "--spec-accept-slower": "with --update-baselines: let a recording lower the stored numbers",
    }.items():
        dest = "specdecode_" + name.removeprefix("--spec-").replace("-", "_")
        group.addoption(name, dest=dest, action="store_true", default=False, help=text)
    for name, text in _INI.items():
        parser.addini(f"specdecode_{name}", text, default=None)


_INI: Final = {
    "target": "default of --spec-target",
    "config": "default of --spec-config, relative to rootdir",
    "baselines": "default of --spec-baselines, relative to rootdir",
    "restarts": "default of --spec-restarts",
    "rounds": "default of --spec-rounds",
    "inconclusive": "default of --spec-inconclusive",
}


def add_short_option(parser: pytest.Parser) -> None:
    """``--update-baselines``, unless somebody else's option has that name: then theirs stays."""
    try:
        _, unknown = parser.parse_known_and_unknown_args([RECORD_SHORT])
    except pytest.UsageError:  # theirs wants a value
        return
    if RECORD_SHORT in unknown:
        parser.getgroup("specdecode").addoption(
            RECORD_SHORT,
            dest="specdecode_update_baselines",
            action="store_true",
            default=False,
            help=f"short for {RECORD_LONG}",
        )


@dataclass(frozen=True, slots=True)
class Settings:
    """What the command line and the ini file ask for. None: the target's own value holds."""

    benchmark_session: bool
    steps: tuple[int, ...] | None = None
    concurrency: tuple[int, ...] | None = None
    target: str | None = None
    against: str | None = None
    config_file: Path | None = None
    baselines_dir: Path = Path("baselines")
    restarts: int | None = None
    rounds: int | None = None
    inconclusive: Inconclusive = "fail"
    json_file: Path | None = None
    html_file: Path | None = None
    markdown_file: Path | None = None
    plan: bool = False
    resume: bool = False
    wait_lease_s: float = 0.0
    record: bool = False
    extend: bool = False
    accept_slower: bool = False

    @classmethod
    def from_config(cls, config: pytest.Config) -> Settings:
        """Settings of this pytest run.

        :raises pytest.UsageError: naming the option, its value and what was expected.
        """
        steps = _text(config, "steps")
        concurrency = _text(config, "concurrency")
        record = bool(config.getoption("specdecode_update_baselines"))
        plan = bool(config.getoption("specdecode_plan"))
        resume = bool(config.getoption("specdecode_resume"))
        against = _text(config, "against")
        on_command_line = (steps, concurrency, config.getoption("specdecode_target"), against)
        if not (record or plan or resume) and all(value is None for value in on_command_line):
            return cls(benchmark_session=False)
        for flag in ("extend_baselines", "accept_slower"):
            if config.getoption(f"specdecode_{flag}") and not record:
                raise pytest.UsageError(f"--spec-{flag.replace('_', '-')} goes with {RECORD_SHORT}")
        if plan and resume:
            raise pytest.UsageError("--spec-plan touches nothing, --spec-resume measures; drop one")
        if against is not None and record:
            raise pytest.UsageError(
                f"--spec-against={against} judges by this session alone and stores nothing; "
                f"record baselines ({RECORD_SHORT}) in a run of its own"
            )
        if against is not None and resume:
            raise pytest.UsageError(
                f"--spec-against={against} compares within one session, which another one cannot go on with; "
                "run again without --spec-resume"
            )
        return cls(
            benchmark_session=True,
            steps=_numbers("--spec-steps", steps, least=0, words={"off": 0}),
            concurrency=_numbers("--spec-concurrency", concurrency, least=1),
            target=_text(config, "target"),
            against=against,
            config_file=_config_file(config),
            baselines_dir=_path(config, "baselines") or config.rootpath / "baselines",
            restarts=_count("--spec-restarts", _text(config, "restarts")),
            rounds=_count("--spec-rounds", _text(config, "rounds")),
            inconclusive=_inconclusive(_text(config, "inconclusive")),
            json_file=_path(config, "json"),
            html_file=_path(config, "html"),
            markdown_file=_path(config, "markdown"),
            wait_lease_s=_duration("--spec-wait-lease", _text(config, "wait_lease")),
            plan=plan,
            resume=resume,
            record=record,
            extend=bool(config.getoption("specdecode_extend_baselines")),
            accept_slower=bool(config.getoption("specdecode_accept_slower")),
        )


def _text(config: pytest.Config, name: str) -> str | None:
    """The option, else the ini value, else None."""
    given = config.getoption(f"specdecode_{name}")
    if given is not None or name not in _INI:
        return cast("str | None", given)
    try:
        value = config.getini(f"specdecode_{name}")
    except TypeError as error:  # the native TOML format insists on strings
        raise pytest.UsageError(f'specdecode_{name}: {error}; write it as a string, "…"') from None
    return None if value in (None, "") else str(value)


def _path(config: pytest.Config, name: str) -> Path | None:
    """A path from the command line is relative to where pytest was called, one from ini to rootdir."""
    given = config.getoption(f"specdecode_{name}")
    if given is not None:
        return Path(config.invocation_params.dir, given)
    text = _text(config, name)
    return None if text is None else Path(config.rootpath, text)


def _config_file(config: pytest.Config) -> Path | None:
    named = _path(config, "config")
    if named is not None:
        return named
    default = config.rootpath / "specdecode.toml"
    return default if default.exists() else None


def _numbers(
    option: str, text: str | None, *, least: int, words: dict[str, int] | None = None
) -> tuple[int, ...] | None:
    """``1,2,4-6`` → (1, 2, 4, 5, 6): each number once, in the order given."""
    if text is None:
        return None
    found: dict[int, None] = {}
    for part in (part.strip() for part in text.split(",")):
        if words and part in words:
            found[words[part]] = None
            continue
        span = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        first, last = (int(span[1]), int(span[2] or span[1])) if span else (1, 0)
        if not least <= first <= last <= first + MAX_STEPS:
            example = "1,2,3 or 1-4" + ("; 0 or off = no speculation" if words else "")
            raise pytest.UsageError(
                f"{option}={text}: {part!r} is not a number or a range (expected {example})"
            )
        found |= dict.fromkeys(range(first, last + 1))
    return tuple(found)


def _count(option: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdigit() or int(text) < 1:
        raise pytest.UsageError(f"{option}={text}: expected a whole number of at least 1")
    return int(text)


def _duration(option: str, text: str | None) -> float:
    if text is None:
        return 0.0
    try:
        return float(seconds(text))
    except ConfigError as error:
        raise pytest.UsageError(f"{option}={text}: {error}") from None


def _inconclusive(text: str | None) -> Inconclusive:
    if text is None:
        return "fail"
    if text not in ("fail", "skip", "pass"):
        raise pytest.UsageError(f"--spec-inconclusive={text}: expected fail, skip or pass")
    return cast("Inconclusive", text)
