"""The event loop that a round of load runs on: uvloop's where it is installed, and no garbage collection."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

_T = TypeVar("_T")
LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def run(main: Coroutine[Any, Any, _T]) -> _T:
    """``main`` on a loop of its own; Ctrl-C cancels it."""
    with no_garbage_collection(), asyncio.Runner(loop_factory=_loop_factory()) as runner:
        return runner.run(main)


def name() -> str:
    """Of the loop that :func:`run` uses: ``uvloop`` or ``asyncio``."""
    return "asyncio" if _loop_factory() is None else "uvloop"


def _loop_factory() -> LoopFactory | None:
    """uvloop's, from the extra ``fast``, costs less CPU time for each event; None: asyncio's own."""
    try:
        uvloop: Any = importlib.import_module("uvloop")
    except ImportError:
        return None
    factory: LoopFactory = uvloop.new_event_loop
    return factory


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """A collection in mid-round would stop the clock of every stream, and reading makes no cycles."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
