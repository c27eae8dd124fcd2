"""Puts a control plane together in this process: store, lake, pool, publisher, loop, API; takes it down in order.

Everything heavy is imported where it is needed: a `run` with nothing to do is mostly the time that imports take.
"""

from __future__ import annotations

import errno
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from controlplane import logs, spark_engines
from controlplane.core.errors import CannotListen
from controlplane.core.redaction import remember
from controlplane.home import Home
from controlplane.settings import BadSetting, Settings, secrets_in

if TYPE_CHECKING:
    from controlplane.api.services import Counters, Services
    from controlplane.api.serving import Serving
    from controlplane.core.model.alerts import Channel
    from controlplane.drivers.hearing import Hearing
    from controlplane.drivers.tracked import TrackedPool
    from controlplane.drivers.user import User
    from controlplane.issuers.tokens import JwtIssuers
    from controlplane.lake.queries.pool import QueryPool
    from controlplane.operations.context import Context
    from controlplane.operations.troubles import Troubles
    from controlplane.ports.examples import ExampleRunner
    from controlplane.ports.issuers import SignOn
    from controlplane.ports.lake import Publisher
    from controlplane.ports.pool import DriverPool, NamespacedPool
    from controlplane.ports.store import Store
    from controlplane.reconciler.exporting import Exporting
    from controlplane.reconciler.leader import FencedStore
    from controlplane.reconciler.loop import Progress, Reconciler
    from controlplane.reconciler.shared_pool import FairShare
    from controlplane.reconciler.wake import Ends, Wake

Role: TypeAlias = Literal["look", "show", "list", "run", "serve"]
LOOPBACK = "127.0.0.1"
DRIVER_TOKEN_S = 30 * 86400.0
EXPORT_S = 10.0  # a run that is over waits so long for events of lineage that are still to be sent
ENDS_WITHIN_S = 60.0  # after a part of us broke; longer than children are given to end
log = logs.get("server")


class Server:
    """One control plane. Role `look`: the API only. Role `show`: the API and read-only pages. Role `list`: the API plus
    a worker (and a driver once there is something to analyse) that run only `list`, `connect` and `analyse` tasks. Role
    `run`: API, worker and pool, until the work is done. Role `serve`: the same, and the loop for as long as it leads.
    All but `look` and `show` hold the home.

    A context manager: leaving it ends children and threads, in order, whatever happened inside.
    """

    def __init__(self, settings: Settings, role: Role, host: str = LOOPBACK, port: int = 0) -> None:
        """`port` 0 is any free one."""
        self.settings, self.role, self.home = settings, role, Home(settings.home)
        remember(secrets_in(os.environ, settings))
        self._address = (host, port)
        self._ends = ExitStack()
        self._loop: threading.Thread | None = None
        self._serving: Serving | None = None
        self._no_driver = ""  # why the driver of our own ended
        self.failure: Exception | None = None  # why this process has to end
        self.stopping = threading.Event()
        self._ended = threading.Event()

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._ends.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self) -> None:
        """Ends are pushed as things begin, so that they are undone in the opposite order."""
        if self.role in ("look", "show"):
            self.home.prepare()
        else:
            self._ends.callback(self.home.lock(self.role).release)
            for path in self.home.tighten():
                log.warning("this was open to other users of the machine, and is closed now", path=str(path))
            self._check_lake()
            self._open_to_drivers()
        bound = self._ends.enter_context(_bind(*self._address))
        self.url = _url(*bound.getsockname()[:2])
        self._ends.callback(self.store.close)
        self.token = _first_token(self.home, self.store, self.settings.admin_token)
        if self.role == "run":
            self._ends.callback(self.publisher.close)
        self._ends.callback(self._end_api)
        if self.role == "list":
            self._free_looks()
        if self.role in ("list", "run"):
            self._ends.callback(self.pool.close)
            _start_worker(self.pool)
        if self.role in ("run", "serve"):  # `list` ends with its answer, and takes no other requests
            self.home.announce(self.url, self.role)
        self._serve_api(bound)
        if self.role == "serve":
            self._ends.callback(self._stand().join)
        self._ends.callback(self.interrupt)

    def _free_looks(self) -> None:
        """End listings and the like of an earlier process that held this home and did not end in order."""
        from controlplane.operations.work import rescue

        rescue.abandon_looks(self.context("pool"), reason="its worker belonged to an earlier control plane")

    def _check_lake(self) -> None:
        """Report an unusable lake at the start, and not in every task."""
        from controlplane.lake.objects import check_lake

        check_lake(self.settings.lake)

    def _open_to_drivers(self) -> None:
        """To the user as whom they run, if that is another than ours."""
        if self._driver_user is not None:
            from controlplane.drivers.user import open_to

            open_to(self._driver_user, self.home.path, self.settings.lake)

    @cached_property
    def _driver_user(self) -> User | None:
        if self.settings.driver_user is None or self.settings.pool != "local":
            return None
        from controlplane.drivers import user

        try:
            return user.read(self.settings.driver_user)
        except user.BadUser as e:
            raise BadSetting(f"HEADGATE_DRIVER_USER: {e}") from e

    @property
    def _drivers_own(self) -> Path:
        """The folder in which drivers of this machine keep packages and caches of sources."""
        return self.home.path if self._driver_user is None else self.home.path / "driver"

    def _serve_api(self, bound: socket.socket) -> None:
        from controlplane.api.serving import Serving

        self._serving = Serving(self._services(), bound, self._without_api, eager=self.role != "run")
        self._serving.start()

    def _end_api(self) -> None:
        """Stop the API after the pool, whose last reports it takes. After a run no client waits for an answer."""
        if self._serving is not None:
            self._serving.stop(at_once=self.role == "run")

    def _guarded(self, part: str, work: Callable[[], None]) -> None:
        """A thread that runs until it is stopped. An error that ends it ends the process, with a reason."""
        from controlplane.core.errors import Broken

        try:
            work()
            if self.stopping.is_set():
                return
            reason = "it returned"
        except BaseException as e:  # noqa: BLE001  # SystemExit too: in a thread it ends nothing else
            reason = f"{type(e).__name__}: {e}"
        log.error("a part of the control plane ended", which=part, reason=reason)
        self.failure = Broken(f"{part} ended ({reason}); start the service again")
        _end_at_last(self._ended)
        self.interrupt()

    def _without_api(self) -> None:
        """End the process; `stop` reports the reason."""
        _end_at_last(self._ended)
        self.interrupt()

    def interrupt(self) -> None:
        """Begin to end: claims, streams and the loop return soon. Any thread may call it."""
        self.stopping.set()
        self.wake.notify_all()

    @property
    def drivers_started(self) -> int:
        return len(self.pool.drivers)

    def stop(self) -> None:
        """Claims and streams return, the loop stops, the pool drains; then the API, publisher and store close."""
        try:
            self._ends.close()
        finally:
            self._ended.set()

    @cached_property
    def notify(self) -> tuple[Channel, ...]:
        """The installation's channels for alerts. BadSetting where the file cannot be used."""
        if self.settings.notify is None:
            return ()
        return _channels(self.settings.notify, self.settings.pool)

    @cached_property
    def wake(self) -> Wake:
        from controlplane.reconciler.wake import Wake

        return Wake()

    @cached_property
    def store(self) -> Store:
        from controlplane.store import open_store, upgrade

        upgrade(self.settings.database_url)
        return open_store(self.settings.database_url)

    @cached_property
    def publisher(self) -> Publisher:
        from controlplane.lake.publisher import DeltaPublisher

        return DeltaPublisher(self.settings.lake)

    @cached_property
    def pool(self) -> TrackedPool:
        return self._open_pool()

    def _open_pool(self) -> TrackedPool:
        from controlplane.drivers.tracked import TrackedPool

        return TrackedPool(self._made_pool(self.wake.notify_all))

    def _made_pool(self, nudge: Callable[[], None] | None) -> NamespacedPool:
        if self.settings.pool == "none":
            from controlplane.drivers.external import ExternalPool

            return ExternalPool()
        if self.settings.pool == "kubernetes":
            return self._kubernetes(nudge)
        from controlplane.drivers.local import LocalPool

        return LocalPool(
            self.url,
            self.home.path,
            self._mint,
            hearing=self._hearing,
            silent_s=self.settings.silent_s,
            user=self._driver_user,
            own=self._drivers_own,
            driver_idle_s=self.settings.driver_idle_s,
        )

    def _log(self, driver: str, lines: int) -> str:
        """The log of a driver. Any process can read it, by a pool of its own that starts, ends and follows nothing."""
        with closing(self._made_pool(None)) as reading:
            return reading.log(driver, lines)

    def _kubernetes(self, nudge: Callable[[], None] | None) -> NamespacedPool:
        cluster = spark_engines.read_pools(self.settings)
        api = spark_engines.api_of(cluster, self.settings)()
        from controlplane.drivers.kubernetes import KubernetesPool

        named = replace(cluster, url=cluster.url or self.url)
        return KubernetesPool(named, api, self._mint, keep=self.role == "serve" or nudge is None, nudge=nudge)

    def _mint(self, driver: str) -> str:
        """A token for one driver of the pool, in the namespace of the driver's id."""
        from controlplane.core.model import namespaces
        from controlplane.operations.desired import tokens

        theirs = replace(self.context("pool"), namespace=namespaces.of_id(driver))
        text, _ = tokens.create(theirs, f"of {driver}", ("driver",), subject=driver, ttl_s=DRIVER_TOKEN_S)
        return text

    def context(self, actor: str) -> Context:
        """For operations that this process itself asks for."""
        from controlplane.operations.context import Context

        return Context(
            self.store,
            actor=actor,
            request_id=secrets.token_hex(16),
            wake=self.wake.notify,
            lake=self.settings.lake,
            troubles=self.troubles,
            notify=self.notify,
            exports=self.settings.openlineage is not None,
        )

    def settle(
        self, flows: Iterable[str], branch: str, on_progress: Callable[[Progress], None], again: Callable[[], bool]
    ) -> str:
        """Work until nothing is left of these dataflows and their upstream, or nothing can go on; the worst state.

        `again` is called before it ends: True means that there is more to do.
        """
        loop = self._reconciler(
            self.store, self.publisher, self.pool, flows=frozenset(flows), branch=branch, on_progress=on_progress
        )
        with ExitStack() as ends:
            self._export(self.store, ends, EXPORT_S)
            ends.callback(loop.close)
            return loop.settle(self.stopping, again)

    def _export(
        self, store: Store, ends: ExitStack, within_s: float = 0.0, *, namespace: str = "default"
    ) -> Exporting | None:
        """Send events of lineage until the end, which waits so long for unsent events."""
        if self.settings.openlineage is None:
            return None
        from controlplane.operations.openlineage import Export
        from controlplane.reconciler.exporting import Exporting
        from controlplane.sinks.openlineage import open_sink

        sink = open_sink(self.settings.openlineage, self.settings.openlineage_token)
        ends.callback(sink.close)
        count = partial(self.counters.add, "openlineage_events")
        exporting = Exporting(Export(store, namespace, sink, self.settings.lake, count), self.troubles.of(namespace))
        exporting.start()
        ends.callback(exporting.close, within_s)
        return exporting

    def _passed(self, exporting: Exporting | None) -> None:
        """After a pass of the loop."""
        self.counters.add("ticks")
        if exporting is not None:
            exporting.nudge()

    def _reconciler(
        self,
        store: Store,
        publisher: Publisher,
        pool: DriverPool,
        *,
        namespace: str = "default",
        fair: FairShare | None = None,
        **options: Any,
    ) -> Reconciler:
        from controlplane.lake.objects import open_lake
        from controlplane.operations.context import Context
        from controlplane.operations.work.claims import LEASE_S
        from controlplane.reconciler.fleet import Fleet
        from controlplane.reconciler.loop import Reconciler

        logs.tame()
        wake, troubles = self.wake.of(namespace), self.troubles.of(namespace)
        context = Context(store, namespace, actor="reconciler", wake=wake.notify)
        silent_s = max(0.0, self.settings.silent_s - LEASE_S)
        fleet = Fleet(context, open_lake(self.settings.lake), pool, troubles, silent_s, fair=fair)
        return Reconciler(
            store,
            fleet,
            publisher,
            wake,
            namespace=namespace,
            packages=self._packages(namespace),
            notify=self.notify if namespace == "default" else (),
            wake_of=lambda reader: self.wake.of(reader).notify(),
            **options,
        )

    def _services(self) -> Services:
        from controlplane.api.services import Services
        from controlplane.lake.changes import ChangeRenderer
        from controlplane.lake.checkpoints import make_checkpoint
        from controlplane.lake.contents import damages
        from controlplane.lake.objects import open_lake
        from controlplane.lake.queries.results import ResultFolder
        from controlplane.lake.records import RecordRenderer
        from controlplane.lake.row_diff import RowComparer
        from controlplane.operations.inspect.queries import Queries
        from controlplane.operations.inspect.spark_sessions import SparkSessions
        from dataplane.contract.kinds import LOOKS

        lake = open_lake(self.settings.lake)
        is_service = self.role in ("serve", "look")
        spark = spark_engines.queries(
            self.settings, self._query_pool, self._s3_secret, self._ends, is_service=is_service
        )
        sessions = spark_engines.sessions(self.settings, self.store, self._ends, is_service=is_service)
        return Services(
            self.store,
            lake,
            self.wake,
            RecordRenderer(self._record_pool),
            self._log,
            self.counters,
            stopping=self.stopping,
            unready=self._unready,
            is_alive=lambda: self.failure is None and self._is_working(),
            troubles=self.troubles,
            packages=self._packages,
            heard=self._hearing.note,
            has_spark=self._hearing.note_spark,
            deaf=self._hearing.note_deaf,
            damages=partial(damages, lake.uri),
            compare=RowComparer(lake.uri, self.stopping),
            render_changes=ChangeRenderer(lake.uri, self.stopping),
            queries=Queries(self._query_pool, ResultFolder(self.home.path / "queries"), spark=spark),
            spark_sessions=SparkSessions(sessions),
            examples=spark_engines.examples(self.settings, self._ends, is_service=self.role == "serve"),
            notify=self.notify,
            s3_secret=self._s3_secret(),
            exports=self.settings.openlineage is not None,
            checkpoint=make_checkpoint,
            issuers=self._issuers,
            sign_on=self._sign_on(),
            hosts=self.settings.hosts,
            is_shown_only=self.role == "show",
            kinds=LOOKS if self.role == "list" else None,
            analyser=self._own_driver if self.role == "list" else lambda: "",
        )

    @cached_property
    def _issuers(self) -> JwtIssuers:
        from controlplane.issuers.tokens import JwtIssuers

        return JwtIssuers()

    def _sign_on(self) -> SignOn | None:
        """Sign-on of people at the issuer of the settings. MissingPackage where a package that it needs is not
        installed."""
        if self.settings.sign_on is None or self.role != "serve":
            return None
        from controlplane.issuers.sign_on import OidcSignOn
        from controlplane.issuers.tokens import library

        library()
        return OidcSignOn(self.settings.sign_on, self._issuers)

    @cached_property
    def _query_pool(self) -> QueryPool:
        """It has processes once there is a query. `stop` ends them."""
        from controlplane.lake.queries.memory import memory_bytes
        from controlplane.lake.queries.pool import QueryPool

        pool = QueryPool(self.settings.lake, each=self.settings.queries_per_user, memory_bytes=memory_bytes())
        self._ends.callback(pool.close)
        return pool

    @cached_property
    def _record_pool(self) -> QueryPool:
        """As `_query_pool`, for bodies of records."""
        from controlplane.lake.queries.memory import memory_bytes
        from controlplane.lake.records import RecordPool

        pool = RecordPool(self.settings.lake, memory_bytes=memory_bytes())
        self._ends.callback(pool.close)
        return pool

    def _s3_secret(self) -> bytes:
        """The installation's, from which the secrets of S3 keys are made: the one that was chosen, or that of the first
        token that was chosen, or the home's."""
        from controlplane.operations.desired import s3_keys

        text, shared = self.settings.s3_secret, self.settings.admin_token
        if text is None:
            text = self.home.s3_secret() if shared is None else s3_keys.installation_secret(shared)
        remember([text])
        return text.encode()

    def _own_driver(self) -> str:
        """Have one driver, which ends with this process. Why there is none, if it ended by itself."""
        from controlplane.core.errors import PoolUnavailable

        try:
            ended = [d.reason for d in self.pool.poll() if d.kind == "driver" and d.ended]
            if ended:
                self._no_driver = ended[0]
            if not self._no_driver:
                self.pool.scale("driver", 1)
        except PoolUnavailable as e:
            return str(e)
        return self._no_driver

    @cached_property
    def _hearing(self) -> Hearing:
        from controlplane.drivers.hearing import Hearing

        return Hearing()

    def _packages(self, namespace: str) -> Callable[[Collection[str]], int]:
        """Forgets packages that drivers of this home installed for a namespace."""
        from controlplane.drivers.folders import forget, own_of

        home = own_of(self._drivers_own, namespace)
        return lambda needed: forget(home, needed, time.time())

    @cached_property
    def counters(self) -> Counters:
        from controlplane.api.services import Counters

        return Counters()

    def _is_working(self) -> bool:
        return self._loop is None or self._loop.is_alive()

    def _unready(self) -> str:
        return self.troubles.stuck_everywhere if self._is_working() else "the loop has ended"

    @cached_property
    def troubles(self) -> Troubles:
        """The failures of the loop, which outlive its terms."""
        from controlplane.operations.troubles import Troubles

        return Troubles()

    def _stand(self) -> threading.Thread:
        """For leader: a thread that has the loop while no other process has it."""
        from controlplane.reconciler.leader import LeaderElection

        if self.settings.pool == "kubernetes":
            spark_engines.read_pools(self.settings)  # an unusable one raises now
        candidate = LeaderElection(self.store, self._name, self.settings.lease_s, self._lead, self.wake.notify_all)
        self._loop = threading.Thread(
            target=self._guarded,
            args=["the loop", partial(candidate.run, self.stopping)],
            name="reconciler",
            daemon=True,
        )
        self._loop.start()
        return self._loop

    @cached_property
    def _name(self) -> str:
        return f"{socket.gethostname()}/{self.home.instance()}"

    def _lead(self, store: FencedStore, over: Ends) -> None:
        """Drivers and the writer of tables belong to a term: the next one may be another process's."""
        from controlplane.lake.publisher import DeltaPublisher
        from controlplane.reconciler.loops import Loops
        from controlplane.reconciler.shared_pool import FairShare, SharedPool

        with ExitStack() as ends:
            publisher = DeltaPublisher(self.settings.lake, may_commit=store.check)
            ends.callback(publisher.close)
            pool = self._open_pool()
            ends.callback(pool.close)
            _start_worker(pool)
            shared, fair = SharedPool(pool), FairShare()

            @contextmanager
            def serving(namespace: str) -> Iterator[Reconciler]:
                with ExitStack() as parts:
                    exporting = self._export(store, parts, namespace=namespace)
                    loop = self._reconciler(
                        store,
                        publisher,
                        shared.of(namespace),
                        namespace=namespace,
                        fair=fair,
                        on_progress=lambda _: self._passed(exporting),
                    )
                    parts.callback(loop.close)
                    yield loop

            Loops(store, serving, shared, fair, self.wake, self.troubles).run(over)


def _end_at_last(ended: threading.Event) -> None:
    """Exit after ENDS_WITHIN_S if the process has not ended in order by then, as a broken part may prevent it."""

    def watch() -> None:
        if not ended.wait(ENDS_WITHIN_S):
            os._exit(1)

    threading.Thread(target=watch, name="end", daemon=True).start()


def _channels(path: Path, pool: str) -> tuple[Channel, ...]:
    from controlplane.core.blueprint.notify import parse_channels
    from controlplane.core.errors import InvalidBlueprint

    try:
        channels = parse_channels(path.read_bytes(), file=str(path))
    except OSError as e:
        raise BadSetting(f"HEADGATE_NOTIFY is {str(path)!r}, which cannot be read: {e.strerror}") from e
    except InvalidBlueprint as e:
        raise BadSetting("; ".join(f"{p.file}:{p.line}:{p.column}: {p.summary}" for p in e.problems)) from e
    if pool != "local" and any(channel.to == "command" for channel in channels):
        raise BadSetting(f"{path} has a command, which only local workers run; HEADGATE_POOL is {pool!r}")
    return channels


def _start_worker(pool: DriverPool) -> None:
    """It starts while we go on, and waits at the socket."""
    if not pool.outlives:
        pool.scale("worker", 1)


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # The protocol by its name: asyncio sends small answers at once on such sockets only, else each waits for 40 ms.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen(512)
    except OSError as error:
        bound.close()
        raise CannotListen(_unbound(error, host, port)) from error
    return bound


def _unbound(error: OSError, host: str, port: int) -> str:
    """Why there is no socket, and what to do."""
    if error.errno == errno.EADDRINUSE:
        return f"port {port} of {host} is in use by another process: end that one, or choose another with --port"
    if error.errno == errno.EACCES:
        return f"port {port} of {host} is closed to this user: choose one above 1023 with --port"
    if error.errno == errno.EADDRNOTAVAIL or isinstance(error, socket.gaierror):
        return f"{host} is no address of this machine: choose another with --host, such as 127.0.0.1 or 0.0.0.0"
    return f"port {port} of {host}: {error.strerror or error}: choose another with --host or --port"


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _first_token(home: Home, store: Store, chosen: str | None) -> str:
    """The home's own token; made at the first start, and again if it is lost or revoked, unless one was chosen."""
    from controlplane.operations.context import Context
    from controlplane.operations.desired import tokens

    if chosen is not None:
        tokens.admit(Context(store, actor="local"), chosen, "admin", ("admin",))
        home.keep_token(chosen)
        return chosen
    text = home.token()
    if text is None or tokens.authenticate(store, text) is None:
        text, _ = tokens.create(Context(store, actor="local"), "home", ("admin",))
        home.keep_token(text)
    return text


@contextmanager
def read(settings: Settings) -> Iterator[Context]:
    """The database of a home, which is made where it is not there; without an API, its token and its threads."""
    server = Server(settings, "look")
    server.home.prepare()
    with closing(server.store):
        yield server.context("local")


def example_runner() -> AbstractContextManager[ExampleRunner]:
    """A process of the data plane that runs tests of blueprints; leaving the context ends it."""
    from controlplane.drivers.examples import ExampleProcess

    return ExampleProcess()


def upgrade(database_url: str) -> None:
    """Bring a database to this version's schema."""
    from controlplane import store

    store.upgrade(database_url)


def version(database_url: str) -> str | None:
    """The schema's version of a database; None if it has none."""
    from controlplane import store

    return store.version(database_url)
