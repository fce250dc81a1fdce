"""Run modules of this package on a machine that does not have it: they travel over stdin.

The argv stays short and readable in audit trails, needs no file over there, and is the same for this machine
and for any other. What is shipped uses the standard library alone.
"""

from __future__ import annotations

import functools
import importlib.util
import json
from collections.abc import Sequence
from pathlib import Path

# Exactly N bytes are read, unbuffered, so that stdin stays usable for what comes after them.
_BOOT = """\
import json,os,sys,types
b=b''
while len(b)<int(sys.argv[1]):
 c=os.read(0,int(sys.argv[1])-len(b))
 if not c: sys.exit('pytest-specdecode: stdin ended early')
 b+=c
sys.modules['pytest_specdecode']=types.ModuleType('pytest_specdecode')
for k,s in json.loads(b):
 m=sys.modules[k]=types.ModuleType(k);exec(compile(s,k,'exec'),m.__dict__)
m.main(sys.argv[2:])"""


@functools.cache
def _sources(modules: tuple[str, ...]) -> bytes:
    texts = []
    for name in modules:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            raise ModuleNotFoundError(f"{name} is not part of this installation")
        texts.append((name, Path(spec.origin).read_text(encoding="utf-8")))
    return json.dumps(texts).encode()


def shipped(python: str, modules: tuple[str, ...], words: Sequence[str]) -> tuple[list[str], bytes]:
    """(argv, stdin) that run ``main(words)`` of the last of ``modules``; those before it are its imports."""
    source = _sources(modules)
    return [python, "-I", "-S", "-c", _BOOT, str(len(source)), *words], source


def is_shipped(argv: Sequence[str]) -> bool:
    return len(argv) > 6 and argv[4] == _BOOT


def words_of(argv: Sequence[str]) -> Sequence[str]:
    """The question of a shipped command; empty for any other command."""
    return argv[6:] if is_shipped(argv) else ()


def readable(argv: Sequence[str]) -> tuple[str, ...]:
    """The command as an audit trail shows it: the boot line, always the same, is left out."""
    return (argv[0], "-", *argv[6:]) if is_shipped(argv) else tuple(argv)
