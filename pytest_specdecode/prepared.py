"""What is known of a target before anything is stopped: its launch command, machine, flags. No pytest."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from . import machine
from .config import Speculation, Target
from .engines import ChecksLaunch, Engine, Launch
from .engines.registry import load_engine
from .errors import BrokenError, ConfigError, HostError, UnknownRunError
from .hosts import CommandResult
from .hosts.roads import RoadHost
from .load.requests import check_workload
from .markers import Defaults
from .model import SpecConfig
from .services.portwatch import local_port
from .services.registry import make_service

HELP_TIMEOUT_S = 60.0


class Prepared:
    """One target on its machine. Asks, and changes nothing.

    :param folder: the project's: prompts are looked up there
    """

    def __init__(self, target: Target, host: RoadHost, folder: Path) -> None:
        self.target = target
        self.engine = load_engine(target.engine)
        self.host = host
        self.service = make_service(_without_speculation(target, self.engine), host)
        self._folder = folder
        self._facts: machine.Facts | None = None
        self._help: CommandResult | None = None
        self._helpless = False
        self._closed: str | None = None

    @property
    def launch(self) -> Launch:
        """What the launch command says, as configured; nothing where the machine does not answer."""
        try:
            return self.engine.read_launch(self.target.service.launch or self._own_command())
        except (HostError, BrokenError) as error:
            self._closed = str(error)
            return Launch()

    def _own_command(self) -> tuple[str, ...]:
        """The command that the service has of itself, its speculation flags included."""
        own = getattr(self.service, "own_command", None)
        return tuple(own()) if own is not None else self.service.command((), 0)

    @property
    def speculation(self) -> Speculation:
        """What steps means here: what the target says, else what its launch command says."""
        return self.launch.complete(self.target.speculation)

    @property
    def defaults(self) -> Defaults:
        """What a configuration is made of where a test does not say."""
        table = self.speculation
        return Defaults(table.algorithm, table.topk or 1, table.draft_tokens, dict(table.args))

    @property
    def facts(self) -> machine.Facts:
        """The machine's facts; asked for once."""
        if self._facts is None:
            self._facts = machine.gather(self.host)
        return self._facts

    @property
    def machine(self) -> str:
        """The machine's name in baseline files."""
        return self.target.machine or machine.machine_slug(self.facts)

    @property
    def hardware(self) -> str:
        """What is measured on, for people."""
        return self.target.machine or "" if self.elsewhere else machine.hardware(self.facts)

    @property
    def elsewhere(self) -> bool:
        """Whether the engine runs on a machine that cannot be asked for its facts."""
        away = self.target.host.ssh is None and local_port(self.target.url) is None
        return not self.service.managed and away

    def check_settings(self, configs: Sequence[SpecConfig], levels: Sequence[int]) -> None:
        """:raises ConfigError: naming what cannot be run."""
        check_workload(self.target.workload, self._folder, levels)
        if self.launch.nodes > 1:
            raise ConfigError(f"target {self.target.name}: an engine over several nodes is not supported")
        if not self.service.managed and len(configs) > 1:
            raise ConfigError(
                f"target {self.target.name} is external, so it runs one configuration; "
                f"{len(configs)} were asked for (steps {', '.join(str(c.steps) for c in configs)})"
            )
        if self.elsewhere and self.target.machine is None:
            raise ConfigError(
                f"target {self.target.name}: {self.target.url} is another machine, whose hardware cannot be "
                'asked for; name it with machine = "…", since baselines are compared on equal hardware only'
            )
        for config in configs:
            if self.service.managed:
                if config.steps and config.algorithm is None:
                    raise ConfigError(
                        f"target {self.target.name}: steps={config.steps} needs an algorithm; neither "
                        "speculation.algorithm nor the launch command names one"
                    )
                argv = self.service.command(self.flags(config), self.fixed_port() or 0)
                if argv and isinstance(self.engine, ChecksLaunch):
                    self.engine.check_launch(argv, config, max(levels, default=1))
        self.api_key()

    def api_key(self) -> str | None:
        """The key of ``api_key_env``; never stored, never printed.

        :raises ConfigError: when the variable is named but not set.
        """
        name = self.target.api_key_env
        if name is None:
            return None
        if not os.environ.get(name):
            raise ConfigError(f"target {self.target.name}: api_key_env names {name}, which is not set")
        return os.environ[name]

    def flags(self, config: SpecConfig) -> tuple[str, ...]:
        """The engine's speculation flags of ``config``."""
        return self.engine.flags(
            config,
            self.speculation,
            help_text=self._help_text(),
            forced_acceptance=self.target.workload.forced_acceptance,
        )

    def environment(self, config: SpecConfig) -> Mapping[str, str]:
        """Environment variables that ``config`` needs beside its flags."""
        return self.engine.environment(config, self.target.workload.forced_acceptance)

    def help(self) -> CommandResult | None:
        """What the engine's ``--help`` comes to, asked for once; None where its command is unknown."""
        command = self.service.command((), 0) if self._help is None else ()
        argv = self.engine.help_argv(command) if command else ()
        if argv:
            self._help = self.host.run(argv, timeout=HELP_TIMEOUT_S)
        return self._help

    def _help_text(self) -> str:
        """What the engine prints for ``--help``; empty where its command is unknown or does not answer."""
        if self._helpless:
            return ""
        try:
            result = self.help()
        except UnknownRunError:  # some import for minutes before they print it
            self._helpless = True
            return ""
        return f"{result.stdout}\n{result.stderr}" if result else ""

    def headers(self) -> dict[str, str]:
        """Of each request."""
        return {"Authorization": f"Bearer {key}"} if (key := self.api_key()) else {}

    def fixed_port(self) -> int | None:
        """The port that the target names, by its URL or launch command; None: a free one is taken."""
        if self.target.url:
            parts = urlsplit(self.target.url)
            return parts.port or (443 if parts.scheme == "https" else 80)
        return self.launch.port or None


def _without_speculation(target: Target, engine: Engine) -> Target:
    """The target whose launch command leaves speculation to each configuration."""
    commands = {
        name: list(engine.without_speculation(words))
        for name in ("command", "start", "exec")
        if (words := getattr(target.service, name))
    }
    return msgspec.structs.replace(target, service=msgspec.structs.replace(target.service, **commands))
