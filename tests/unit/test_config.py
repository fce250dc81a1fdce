"""specdecode.toml: what is read, and what is refused with which words."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdecode.config import Target, TargetTable, load_targets, read_targets
from pytest_specdecode.configchecks import complaints
from pytest_specdecode.errors import ConfigError
from pytest_specdecode.strict import decode

MINIMAL = """
[target.qwen]
engine = "llamacpp"

[target.qwen.service]
command = ["llama-server", "--port", "{port}", "{flags}"]
"""

FULL = """
[target.qwen]
engine = "sglang"
url = "http://10.1.230.174:30000"
machine = "rack7"
model = "Qwen/Qwen3.5-122B-A10B"
revision = "main"
steps = [1, 2, 3]
concurrency = [1, 4, 16, 32, 64]
reference_steps = 1
api_key_env = "SGLANG_API_KEY"

[target.qwen.speculation]
algorithm = "EAGLE"
topk = 1
draft_tokens = 4
draft_model = "some/draft"
args = { window = 4, mode = "fast", loose = true }

[target.qwen.service]
start = ["docker", "run", "--name", "qwen", "sglang", "{flags}"]
stop = ["docker", "rm", "-f", "qwen"]
env = { OMP_NUM_THREADS = "1" }
extra_args = ["--enable-metrics"]
ready_within = "15min"
exclusive = true

[target.qwen.cleanup]
within = "60s"

[target.qwen.workload]
prompts = "prompts.jsonl"
endpoint = "chat"
input_tokens = 256
output_tokens = 512
temperature = 0
extra_body = { top_p = 0.9, chat_template_kwargs = { thinking = false } }
requests = "max(4c, 16)"
warmup_rounds = 1
rounds = 5
seed = 0

[target.qwen.gate]
metric = ["tok_s", "total_tok_s"]
tolerance = "5%"
margin = "1%"
confidence = 0.99
restarts = 3
"""


def read(text: str) -> Target:
    return read_targets(text, Path("/conf"))["qwen"]


def with_line(table: str, line: str) -> str:
    """FULL with ``line`` in ``[target.qwen<table>]``, in place of that key's line where there is one."""
    head = f"[target.qwen{table}]"
    before, rest = FULL.split(head)
    body, bracket, after = rest.partition("\n[")
    key = line.split(" = ")[0]
    kept = [old for old in body.splitlines() if old.split(" = ")[0] != key]
    return before + "\n".join([head, *kept, line]) + bracket + after


def test_a_minimal_target_gets_the_defaults() -> None:
    target = read(MINIMAL)
    assert target.name == "qwen"
    assert (target.steps, target.concurrency) == ([0, 1, 2, 3], [1])
    assert (target.gate.tolerance, target.gate.margin, target.gate.restarts) == (0.05, 0.01, 3)
    assert target.gate.metrics == ("tok_s",)
    assert float(target.service.ready_within) == 15 * 60
    assert float(target.cleanup.within) == 60
    assert target.workload.prompts == "builtin:mixed"


def test_every_key_of_a_full_target_arrives() -> None:
    target = read(FULL)
    assert target.gate.metrics == ("tok_s", "total_tok_s")
    assert target.speculation.args == {"window": 4, "mode": "fast", "loose": True}
    assert target.service.stop == ["docker", "rm", "-f", "qwen"]
    assert target.service.launch[0] == "docker"
    assert target.workload.temperature == 0.0
    assert target.workload.extra_body == {"top_p": 0.9, "chat_template_kwargs": {"thinking": False}}


def test_a_prompt_file_is_relative_to_the_configuration_file() -> None:
    assert read(FULL).workload.prompts == "/conf/prompts.jsonl"


def test_targets_keep_the_order_of_the_file() -> None:
    text = "\n".join(MINIMAL.replace("qwen", name) for name in ("zeta", "alpha"))
    assert list(read_targets(text, Path())) == ["zeta", "alpha"]


@pytest.mark.parametrize(
    ("table", "line", "key", "said"),
    [
        ("", 'engin = "x"', "target.qwen.engin", 'unknown key; did you mean "engine"?'),
        (".gate", 'tolerence = "5%"', "target.qwen.gate.tolerence", 'did you mean "tolerance"?'),
        (
            ".gate",
            "tolerance = 5",
            "target.qwen.gate.tolerance",
            '5 is not a percentage such as "5%".*write "5%"',
        ),
        (".gate", "tolerance = 0.05", "target.qwen.gate.tolerance", 'write "5%"'),
        (".gate", 'tolerance = "0%"', "target.qwen.gate.tolerance", 'expected between "0%" and "100%"'),
        (".gate", 'margin = "6%"', "target.qwen.gate.margin", '"6%" is more than gate.tolerance, "5%"'),
        (".gate", "confidence = 0.5", "target.qwen.gate.confidence", "0.5; expected above 0.5 and below 1"),
        (".gate", "confidence = 1", "target.qwen.gate.confidence", "expected above 0.5 and below 1"),
        (".gate", "confidence = nan", "target.qwen.gate.confidence", "expected above 0.5 and below 1"),
        (".gate", "restarts = 0", "target.qwen.gate.restarts", "0; expected 1 or more"),
        (".gate", 'metric = "toks"', "target.qwen.gate.metric", "unknown metric 'toks'; there are: tok_s,"),
        (".gate", "metric = []", "target.qwen.gate.metric", r"\[\]; expected a metric's name"),
        (".gate", "metric = [1]", "target.qwen.gate.metric", "not a string or a list of strings"),
        ("", "steps = []", "target.qwen.steps", "expected different whole numbers"),
        ("", "steps = [1, 1]", "target.qwen.steps", r"\[1, 1\]; expected different whole numbers"),
        ("", "steps = [-1]", "target.qwen.steps", "0 \\(off\\) or more"),
        ("", 'steps = [1, "two"]', r"target.qwen.steps\[1\]", '"two" is not a whole number'),
        ("", "steps = [1.5]", r"target.qwen.steps\[0\]", "1.5 is not a whole number"),
        ("", "steps = [true]", r"target.qwen.steps\[0\]", "true is not a whole number"),
        ("", "steps = 2", "target.qwen.steps", "2 is not a list of whole numbers"),
        ("", "concurrency = [0]", "target.qwen.concurrency", "1 or more"),
        ("", "reference_steps = -1", "target.qwen.reference_steps", "0 \\(off\\) or more"),
        ("", 'machine = "a/b"', "target.qwen.machine", "a file name"),
        ("", 'url = "localhost:30000"', "target.qwen.url", 'such as "http://127.0.0.1:30000"'),
        ("", 'url = "http://h:99999"', "target.qwen.url", 'such as "http://127.0.0.1:30000"'),
        ("", 'url = "http://me:secret@h:1"', "target.qwen.url", r"\(not shown\)"),
        ("", "model = 3", "target.qwen.model", "3 is not a string"),
        (".speculation", "topk = 0", "target.qwen.speculation.topk", "1 or more"),
        (".speculation", "draft_tokens = 0", "target.qwen.speculation.draft_tokens", "1 or more"),
        (".speculation", "args = { x = [1] }", "target.qwen.speculation.args.x", r"\[1\] is not a string or"),
        (".service", "ready_within = 900", "target.qwen.service.ready_within", 'write "900s"'),
        (".service", 'ready_within = "0s"', "target.qwen.service.ready_within", "longer than nothing"),
        (".service", "exclusive = 1", "target.qwen.service.exclusive", "1 is not true or false"),
        (".service", "env = { A = 1 }", "target.qwen.service.env.A", "1 is not a string"),
        (
            ".service",
            'stop = ["x", "{flags}"]',
            "target.qwen.service.stop",
            "the command that starts the engine",
        ),
        (".service", "start = []", "target.qwen.service.start", "names no program"),
        (".cleanup", "within = -1", "target.qwen.cleanup.within", "is not a duration"),
        (".workload", 'endpoint = "chats"', "target.qwen.workload.endpoint", 'one of "completions", "chat"'),
        (".workload", "output_tokens = 1", "target.qwen.workload.output_tokens", "2 or more"),
        (".workload", "input_tokens = 0", "target.qwen.workload.input_tokens", "1 or more"),
        (".workload", "temperature = inf", "target.qwen.workload.temperature", "0 or more"),
        (".workload", "rounds = 0", "target.qwen.workload.rounds", "1 or more"),
        (".workload", "warmup_rounds = -1", "target.qwen.workload.warmup_rounds", "0 or more"),
        (".workload", "extra_body = { a = 2026-01-01 }", "target.qwen.workload.extra_body.a", "JSON"),
    ],
)
def test_a_wrong_value_is_named_with_key_and_remedy(table: str, line: str, key: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"^{key}: .*{said}"):
        read(with_line(table, line))


@pytest.mark.parametrize(
    ("requests", "said"),
    [
        ("many", r'cannot be read .*; write for example "max\(4c, 16\)"'),
        ("16", "gives 16 requests at concurrency 32"),
    ],
)
def test_the_number_of_requests_must_fit_every_concurrency(requests: str, said: str) -> None:
    with pytest.raises(ConfigError, match=rf'^target\.qwen\.workload\.requests = "{requests}" {said}'):
        read(with_line(".workload", f'requests = "{requests}"'))


def test_extra_body_does_not_replace_what_the_load_sets() -> None:
    with pytest.raises(ConfigError, match=r"extra_body\.max_tokens: .*; use workload\.output_tokens"):
        read(with_line(".workload", "extra_body = { max_tokens = 5 }"))


@pytest.mark.parametrize(("value", "read_as"), [("4", 4), ('"auto"', "auto")])
def test_client_processes_are_a_number_or_auto(value: str, read_as: object) -> None:
    assert read(with_line(".workload", f"client_processes = {value}")).workload.client_processes == read_as


@pytest.mark.parametrize("value", ["0", '"many"', "true", "1.5"])
def test_other_client_processes_are_refused(value: str) -> None:
    with pytest.raises(ConfigError, match=r"^target\.qwen\.workload\.client_processes: .*auto"):
        read(with_line(".workload", f"client_processes = {value}"))


@pytest.mark.parametrize(
    ("service", "said"),
    [
        ("", "found none of them"),
        ('command = ["x", "{flags}"]\nexternal = true', "found command and external"),
        ('start = ["x", "{flags}"]', "found start"),
        ('stop = ["x"]', "found stop"),
        (
            'command = ["x", "{flags}"]\nstart = ["x", "{flags}"]\nstop = ["x"]',
            "found command and start and stop",
        ),
    ],
)
def test_a_service_is_exactly_one_of_its_kinds(service: str, said: str) -> None:
    text = f'[target.qwen]\nengine = "x"\nurl = "http://h:1"\n[target.qwen.service]\n{service}\n'
    with pytest.raises(ConfigError, match=f"^target.qwen.service: expected exactly one of .*; {said}$"):
        read(text)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ('["x"]', '"{flags}" 0 times'),
        ('["x", "{flags}", "{flags}"]', '"{flags}" 2 times'),
        ('["bash", "-c", "x {flags}"]', "must be an element of its own"),
    ],
)
def test_flags_are_one_element_of_the_launch_command(command: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read(f'[target.qwen]\nengine = "x"\nurl = "http://h:1"\nservice.command = {command}\n')


def test_somebody_must_say_where_the_server_listens() -> None:
    with pytest.raises(ConfigError, match=r'target.qwen.url: missing; give it, or put "{port}"'):
        read(MINIMAL.replace("{port}", "8080"))
    with pytest.raises(ConfigError, match=r"target.qwen.url: missing; an external service"):
        read('[target.qwen]\nengine = "x"\nservice.external = true\n')


def test_an_external_service_takes_no_arguments() -> None:
    service = 'service = { external = true, extra_args = ["-v"] }'
    with pytest.raises(ConfigError, match=r"service.external: .*extra_args and env have no effect"):
        read(f'[target.qwen]\nengine = "x"\nurl = "http://h:1"\n{service}\n')


@pytest.mark.parametrize("name", ['"a b"', '"a/b"', '""', '"a@b"', '"-a"', '".hidden"', f'"{"x" * 65}"'])
def test_a_target_name_must_be_safe_in_a_file_name(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be a target's name"):
        read_targets(MINIMAL.replace("qwen", name), Path())


def test_secrets_are_not_repeated_in_errors() -> None:
    for text in (with_line("", 'api_key_env = "sk-123"'), with_line(".service", "env = { HF_TOKEN = 123 }")):
        with pytest.raises(ConfigError) as caught:
            read(text)
        assert "123" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[target.qwen\n", r"is not TOML: .*line 1"),
        (b"a = 1\n\nb == 2\n", r"is not TOML: .*line 3"),
        (b"\xff\xfe", "is not UTF-8"),
        (b"", "target: missing; expected a table"),
        (b"[target]\n", r"target: no target is configured; write a table \[target.NAME\]"),
        (b'target = "qwen"\n', 'target: "qwen" is not a table'),
        (b'[targets.qwen]\nengine = "x"\n', 'targets: unknown key; did you mean "target"?'),
        (b"[target.qwen]\n", "target.qwen.engine: missing; expected a string"),
        (b"[target]\nqwen = 3\n", "target.qwen: 3 is not a table"),
    ],
)
def test_what_is_wrong_with_a_file_names_the_file(tmp_path: Path, content: bytes, said: str) -> None:
    file = tmp_path / "specdecode.toml"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=f"^{file}: {said}"):
        load_targets(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read: No such file"):
        load_targets(tmp_path / "none.toml")


def test_the_case_studys_example_loads() -> None:
    file = Path(__file__).parents[2] / "examples" / "qwen" / "specdecode.toml"
    target = load_targets(file)["qwen"]
    assert (target.steps, target.concurrency) == ([1, 2, 3], [1, 4, 16, 32, 64])


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.dates(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(st.sampled_from(["steps", "gate", "service", "workload", "speculation", "url", "x"]), PLAIN)
def test_whatever_a_key_holds_nothing_but_a_config_error_comes_of_it(key: str, value: object) -> None:
    try:
        said = list(complaints("t", decode(TargetTable, {"engine": "x", key: value}, "target.t")))
    except ConfigError as error:
        said = [str(error)]
    assert said
    assert all(line.startswith("target.t.") for line in said)
