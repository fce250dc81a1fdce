"""Launch commands with ``{flags}`` and ``{port}`` in them. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import ConfigError

FLAGS = "{flags}"
PORT = "{port}"


def check(template: Sequence[str], *, key: str) -> None:
    """:raises ConfigError: when ``{flags}`` is anything but a whole element, or there are several."""
    for i, word in enumerate(template):
        if FLAGS in word and word != FLAGS:
            raise ConfigError(
                f"{key}[{i}]: {word!r} has {FLAGS} inside another argument, where several flags would become "
                f'one; make "{FLAGS}" an element of its own'
            )
    if list(template).count(FLAGS) > 1:
        raise ConfigError(f'{key}: "{FLAGS}" appears more than once; keep the one where the flags belong')


def expand(
    template: Sequence[str],
    flags: Sequence[str],
    port: int | str | None,
    *,
    key: str,
    extra: Sequence[str] = (),
) -> tuple[str, ...]:
    """The command that is run: flags spliced in, the port filled in, ``extra`` appended. ``port`` as text is
    for people: that of a start that has not been.

    :raises ConfigError: when there are flags and no place for them, or ``{port}`` and no port.
    """
    if flags and FLAGS not in template:
        raise ConfigError(
            f'{key}: has no "{FLAGS}" element, so {" ".join(flags)} cannot be passed and every configuration '
            f'would run alike; add "{FLAGS}" where the engine\'s flags belong'
        )
    words = [w for word in (*template, *extra) for w in (flags if word == FLAGS else [word])]
    if port is None and any(PORT in word for word in words):
        raise ConfigError(f"{key}: has {PORT}, and the target names no port; give its url")
    return tuple(word.replace(PORT, str(port)) for word in words)
