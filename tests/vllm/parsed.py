"""What vLLM's own parser makes of command lines; runs under the engine's Python.

JSON on stdin: a list of argument lists, as after ``api_server``. JSON on stdout: for each what it sets of
speculation, model, port and limits; null where the parser refuses it.
"""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any

from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser

NAMES = (
    "speculative_config",
    "spec_method",
    "spec_model",
    "spec_tokens",
    "model",
    "port",
    "max_num_seqs",
    "nnodes",
)


def parsed(parser: FlexibleArgumentParser, words: list[str]) -> dict[str, Any] | None:
    with contextlib.suppress(SystemExit):
        found = vars(parser.parse_args(words))
        return {name: found[name] for name in NAMES}
    return None


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    with contextlib.redirect_stdout(sys.stderr):
        made = make_arg_parser(FlexibleArgumentParser())
        answers = [parsed(made, words) for words in asked]
    json.dump(answers, sys.stdout)
