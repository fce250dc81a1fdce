"""``llama-server`` for those who have only xllamacpp: ``python -m pytest_specdecode.launchers.llama_server``.

The same flags, endpoints and exit statuses as the real program (llama.cpp's own HTTP server runs inside it),
so a target works with either. Two differences, on purpose: SIGTERM ends it at once, streams or not, where
llama-server waits up to 30 s for its clients; and ``-m builtin:demo`` is the embedded target's model.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from ..errors import ConfigError
from . import llama_options as options

DEFAULT_PORT = 8080
DEMO = "builtin:demo"
"""In place of a model's file: the embedded target's model, made if it is missing."""


def main(argv: Sequence[str]) -> int:
    """Serve until told to stop. Exit status as llama-server's: 0 when stopped, 1 for what it cannot do."""
    try:
        asked = list(options.parse(argv))
        special = {option for option, _ in asked} & {options.HELP, options.VERSION}
        if options.HELP in special:
            sys.stdout.write(options.help_text())
        elif special:
            sys.stdout.write(f"version: {_version(_engine())}\n")
        else:
            _serve(_engine(), asked)
    except options.WrongArgument as wrong:
        sys.stderr.write(f"{wrong}\n")
        return 1
    return 0


def _engine() -> Any:
    try:
        import xllamacpp  # noqa: PLC0415  (--help and a wrong flag need no engine)
    except ImportError as missing:
        raise options.WrongArgument(
            f'error: {missing}; install the engine: pip install "pytest-specdecode[demo]"'
        ) from missing
    return xllamacpp


def _serve(engine: Any, asked: Sequence[tuple[options.Option, Any]]) -> NoReturn:
    """The engine installs signal handlers of its own once it has loaded; ours replace them right after."""
    params = _params(engine, asked)
    try:
        server = engine.Server(params)
    except RuntimeError as failed:
        where = f"{','.join(params.hostnames)}:{params.port}"
        raise options.WrongArgument(
            f"error: cannot serve on {where} ({failed}); the lines above say why"
        ) from failed
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    time.sleep(0.2)
    if not _listens(server.listening_address):  # a signal fell between the engine's handlers and ours
        _stop()
    while True:
        signal.pause()


def _params(engine: Any, asked: Sequence[tuple[options.Option, Any]]) -> Any:
    params = engine.CommonParams()
    params.port, params.n_parallel = DEFAULT_PORT, -1
    for option, value in asked:
        _set(params, option.field, value)
    _share_threads(params)
    params.model_tags = {_version(engine)}
    if params.model.path == DEMO:
        params.model.path = _demo_model()
    if not params.model.path:
        raise options.WrongArgument("error: no model given; pass -m FNAME")
    for path in filter(None, (params.model.path, params.speculative.draft.mparams.path)):
        if not Path(path).is_file():
            raise options.WrongArgument(f"error: failed to load model '{path}': no such file")
    return params


def _demo_model() -> str:
    from ..demo.model import ensure_model, user_cache  # noqa: PLC0415  (imports numpy)

    try:
        return str(ensure_model(user_cache()))
    except ConfigError as error:
        raise options.WrongArgument(f"error: {error}") from error


def _stop(*_: object) -> NoReturn:
    """Destroying the server would wait for its clients; ending the process closes their sockets instead."""
    sys.stderr.flush()
    os._exit(0)


def _listens(address: str) -> bool:
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=1).close()
    except OSError:
        return False
    return True


def _set(params: Any, field: str, value: Any) -> None:
    *path, last = field.split(".")
    for name in path:
        params = getattr(params, name)
    setattr(params, last, value)


def _share_threads(params: Any) -> None:
    """Unset thread counts follow the others, as llama-server's do: -t, then -tb, -td, -tbd."""
    draft = params.speculative.draft
    chain = (params.cpuparams, params.cpuparams_batch, draft.cpuparams, draft.cpuparams_batch)
    follows = (None, params.cpuparams, params.cpuparams, draft.cpuparams)
    for cpu, other in zip(chain, follows, strict=True):
        if cpu.n_threads <= 0:
            cpu.n_threads = other.n_threads if other else os.cpu_count() or 1


def _version(engine: Any) -> str:
    return f"xllamacpp-{engine.__version__}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
