"""The lifecycle of what is measured: clean, start, check, measure, stop. No pytest."""

from __future__ import annotations

import contextlib
import datetime as dt
import uuid
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from . import cleanroom
from .about import clocks_of, context_of, headings_of, identity_of
from .config import Target
from .engines.http import HttpxHttp
from .errors import BrokenError, HostError
from .gpuclocks import GpuWatch
from .hosts import Host
from .hosts.audit import redact
from .ledger import Ledger, TargetRecord
from .load.crew import Crew
from .load.headroom import cores_for_client
from .load.measure import measure
from .load.requests import tokens_needed
from .model import Case, CaseStart, ServerStart, SpecConfig
from .prepared import Prepared
from .server import Server, answering
from .services import TakingOver
from .services.registry import free_port
from .startup import verify, wait_ready
from .venue import Venue


class Run(Prepared):
    """One target over one session.

    :param folder: the project's: prompts are looked up there, and its commit is noted
    :param say: told what is going on, one short line each time
    """

    def __init__(
        self, target: Target, ledger: Ledger, *, host: Host, folder: Path, say: Callable[[str], None]
    ) -> None:
        self.venue = Venue(target, host, ledger.add)
        super().__init__(target, self.venue.host, folder)
        self.ledger = ledger
        self.session_id = f"{dt.datetime.now(dt.UTC):%Y%m%dT%H%M%SZ}-{uuid.uuid4().hex[:6]}"
        self.identity: dict[str, Any] = {}
        self.context: dict[str, Any] = {}
        self.say = say
        self._server: Server | None = None
        self._http: HttpxHttp | None = None
        here = target.host.ssh is None and not self.elsewhere
        self._gpus = GpuWatch(self.host)
        self._crew = Crew(target.workload.client_processes, cores_for_client(engine_here=here))
        self._starts = 0
        self._touched = False

    @property
    def touched(self) -> bool:
        """Whether anything may have been stopped or started."""
        return self._touched

    def check(
        self, configs: Iterable[SpecConfig], levels: Iterable[int], *, wait_lease_s: float = 0.0
    ) -> None:
        """Everything that can be known to be wrong before the first stop; the machine is ours from then on.

        A machine that does not answer, or that somebody else uses, shows at the first clean-up.

        :raises ConfigError: naming what cannot be run.
        """
        if self._closed is not None:
            return
        try:
            self.venue.claim(self.service, wait_s=wait_lease_s, say=self.say)
            self.check_settings(list(configs), sorted(set(levels)))
        except (HostError, BrokenError) as error:
            self._closed = str(error)

    @property
    def usable(self) -> bool:
        """Whether the machine answers and is ours; else every case ends broken, and says why."""
        return self._closed is None

    def shut(self, why: str) -> None:
        """Nothing may be done on the machine; every case ends broken with this reason."""
        self._closed = why

    # -- a start --------------------------------------------------------------------------------------

    @answering()
    def clean(self) -> cleanroom.CleanProof:
        """Stop what runs and prove that nothing of it is left.

        :raises BrokenError: when the machine is out of reach, or is not ours, or answers others' requests.
        :raises DirtyError: when that cannot be proven in time.
        """
        self._refuse_traffic()
        return self._clean(None)

    @answering()
    def survey(self) -> None:
        """What has to be known of the service while another one may still be stopped with it: that nobody's
        requests are cut, and how it was found.

        :raises BrokenError: as :meth:`clean`; nothing was stopped then.
        """
        self._refuse_traffic()
        if isinstance(self.service, TakingOver):
            self.service.take_over()

    @answering()
    def vacate(self) -> None:
        """Stop the service, and have nothing of it left, so that another one can start.

        :raises BrokenError: as :meth:`clean`.
        :raises DirtyError: when it does not end in time.
        """
        self._open()
        self._clean(cleanroom.VACATE)

    def _clean(self, steps: Sequence[cleanroom.Step] | None) -> cleanroom.CleanProof:
        self._touched = True
        self.stop()
        return cleanroom.clean(
            self.host,
            self.service,
            port=self.fixed_port() if self.service.managed else None,
            within_s=float(self.target.cleanup.within),
            progress=self.say,
            site=self.venue.site,
            steps=steps,
        )

    def _refuse_traffic(self) -> None:
        self._open()
        port = self.fixed_port() if self.service.managed else None
        self.venue.refuse_traffic(self.service, port, self.headers())

    def _open(self) -> None:
        """:raises BrokenError: when nothing may be done on the machine."""
        if self._closed is not None:
            raise BrokenError(self._closed)
        self.host.lease.ensure()

    @answering()
    def start(self, config: SpecConfig, restart: int) -> Server:
        """A server that is ready and runs ``config``.

        :raises BrokenError: when it does not come up, or runs something else.
        """
        self._open()
        self._touched = True
        port = self.fixed_port() or free_port(self.host)
        flags = self.flags(config) if self.service.managed else ()
        argv = self.service.command(flags, port)
        starting = f"starting steps={config.steps}"
        self.say(starting)
        self.service.start(flags, port, self.environment(config))
        url, headers = self.venue.url(port), self.headers()
        self._http = http = HttpxHttp(url, headers)
        try:
            ready_s = wait_ready(
                self.engine,
                http,
                self.service,
                within_s=float(self.target.service.ready_within),
                say=lambda text: self.say(f"{starting}, {text}"),
            )
            reported = verify(self.engine, http, self.service, config, argv=argv, model=self.target.model)
        except BaseException:
            self.stop()
            raise
        self._starts += 1
        start = ServerStart(
            id=f"{self.session_id}-{self._starts}",
            target=self.target.name,
            config=config,
            restart=restart,
            at=dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds"),
            ready_s=round(ready_s, 3),
            version=self.engine.version(http),
            settings=reported.raw,
            argv=redact(argv),
            host=self.host.name,
        )
        self.ledger.add(start)
        self._describe(argv, start.version)
        model = self.target.model or (reported.models[0] if reported.models else None)
        self._server = Server(start, url, model, self.engine, http, argv, reported, self.service, headers)
        return self._server

    def _describe(self, argv: tuple[str, ...], version: str) -> None:
        """Identity and context of the session, once its first server runs (§6)."""
        if self.identity:
            return
        facts = None if self.elsewhere else self.facts
        self.identity = identity_of(
            self.target, self.engine, argv, facts, self._folder, draft_model=self.speculation.draft_model
        )
        self.context = context_of(self.target, version, facts, self._folder)
        if self.target.host.pool:
            self.context["host"] = self.host.name  # hosts of one kind differ too, and a regression says so
        self._headings = headings_of(self.target, version, self.hardware)
        self._note()

    def _note(self, **more: Any) -> None:
        """Write down what the session is about, with ``more`` in its context."""
        self.context |= more
        record = TargetRecord(
            self.target.name, self.machine, self.identity, dict(self.context), self._headings, self.host.name
        )
        self.ledger.add(record)

    @answering()
    def measure(self, server: Server, case: Case, *, rounds: int | None = None) -> CaseStart:
        """One case on this server.

        :raises BrokenError: when the server died, or cannot run so many requests together, or such long ones.
        """
        died = server.died()
        if died is not None:
            raise BrokenError(f"the engine is gone: {died}")
        limit = server.reported.max_running
        if limit is not None and limit < case.concurrency:
            raise BrokenError(
                f"the engine runs at most {limit} requests together, fewer than concurrency "
                f"{case.concurrency}; raise its limit in the launch command"
            )
        room, needed = server.reported.context_tokens, tokens_needed(self.target.workload, case.concurrency)
        if room is not None and needed > room:
            raise BrokenError(
                f"the workload's longest request needs {needed} tokens, and the engine's context has room "
                f"for {room}; raise it in the launch command, or shorten input_tokens and output_tokens"
            )
        measured = measure(
            server,
            self.target.workload,
            case.concurrency,
            rounds=rounds or self.target.workload.rounds,
            progress=lambda text: self.say(f"steps={case.config.steps} c={case.concurrency} {text}"),
            crew=self._crew,
            gpus=None if self.elsewhere or not self.facts.gpus else self._gpus.look,
            rootdir=self._folder,
        )
        if (clocks := clocks_of(measured)) and not clocks.keys() <= self.context.keys():
            self._note(**clocks)
        return measured

    def revive(self, server: Server) -> Server:
        """The server itself while it lives; otherwise the one that runs now, or a fresh start of the same."""
        current = self._server or server
        if current.config == server.config and current.died() is None:
            return current
        self.clean()
        return self.start(server.config, server.start.restart)

    def stop(self) -> None:
        """Stop the running server, if any. What it leaves behind shows at the next clean-up."""
        running = self._http is not None
        if self._http is not None:
            self._http.close()
        self._http = self._server = None
        if self.service.managed and self._touched:
            if running:
                self.say("stopping the engine")
            with contextlib.suppress(HostError, BrokenError):
                self.service.stop(within_s=float(self.target.cleanup.within))

    def close(self) -> None:
        """Leave everything as it was found. Never raises."""
        close(self)


def close(*runs: Run) -> None:
    """Leave everything as it was found. Never raises.

    All of one machine are stopped before any is put back: two services may not fit on it together.
    """
    with contextlib.ExitStack() as last_first:
        for run in runs:
            last_first.callback(run.venue.close)
        for run in runs:
            last_first.callback(run.service.restore)
        for run in runs:
            last_first.callback(run.stop)
            last_first.callback(run._crew.close)
