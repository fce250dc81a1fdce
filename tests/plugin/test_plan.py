"""``--spec-plan`` says what a run would come to, and does nothing of it. Processes and units: tests/rig."""

from __future__ import annotations

from pathlib import Path

from .conftest import Project


def contents(folder: Path) -> dict[str, bytes]:
    """Files, but for what Python and pytester write."""
    files = (p for p in folder.rglob("*") if p.is_file())
    own = (p for p in files if "__pycache__" not in p.parts and p.name not in {"stdout", "stderr"})
    return {str(p): p.read_bytes() for p in own}


def test_a_plan_tells_order_number_and_length_of_the_starts_and_touches_nothing(recorded: Project) -> None:
    recorded.configure(restarts=2, concurrency=[1])
    before = contents(recorded.pytester.path)
    result = recorded.run("--spec-plan", "-p", "no:cacheprovider")
    result.stdout.fnmatch_lines(
        [
            "plan for fake on *: nothing of this has been done",
            "server starts: 2 to 4, * if all is as fast as it was, in this order",
            "  1. steps=0 at concurrency 1",
            "  2. steps=1 at concurrency 1",
            "  3. steps=0 at concurrency 1 again (r2), what is undecided by then",
            "  4. steps=1 at concurrency 1 again (r2), what is undecided by then",
            "duration: about * (*) and the clean-ups, by the times in the baselines",
            "  the engine's own process tree: SIGTERM, then SIGKILL",
            "start with steps=1, at any free port:",
            "  *server.py -m tiny.gguf * --spec-ngram-mod-n-max *",
            "at the end:",
        ]
    )
    assert result.ret == 0
    assert recorded.starts == []
    assert contents(recorded.pytester.path) == before


def test_a_plan_names_what_a_forced_acceptance_puts_into_the_environment(project: Project) -> None:
    config = project.pytester.path / "specdecode.toml"
    config.write_text(
        "[target.forced]\n"
        'engine = "sglang"\n'
        "steps = [0, 2]\n"
        'service = { command = ["python3", "-m", "sglang.launch_server", "--port", "{port}", "{flags}"] }\n'
        'speculation = { algorithm = "EAGLE", draft_model = "draft" }\n'
        'workload = { forced_acceptance = "80%" }\n'
    )
    result = project.run("--spec-plan", "-p", "no:cacheprovider")
    result.stdout.fnmatch_lines(
        [
            "start with steps=0, at any free port:",
            "  python3 -m sglang.launch_server --port *",
            "start with steps=2, at any free port:",
            "  with SGLANG_SIMULATE_ACC_LEN=2.44*",
            "  python3 -m sglang.launch_server --port * --speculative-algorithm EAGLE *",
        ]
    )
