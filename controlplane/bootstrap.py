"""Puts a control plane together in this process and takes it down in order: the start and stop of
its `parts`."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Self

from controlplane import logs
from controlplane.parts import api_address
from controlplane.parts.driver_pools import DriverPools
from controlplane.parts.foundation import Foundation
from controlplane.parts.leading import Leading
from controlplane.parts.process_roles import RoleName
from controlplane.settings import Settings

if TYPE_CHECKING:
    import socket

    from controlplane.api.serving import Serving
    from controlplane.operations.context import Context
    from controlplane.reconciler.loop import Progress
    from controlplane.services.examples.port import ExampleRunner

LOOPBACK = "127.0.0.1"
ENDS_WITHIN_S = 60.0  # after a part of us broke; longer than children are given to end
log = logs.get("server")


class Server(Foundation):
    """One control plane. Role `look`: the API only. Role `show`: the API and read-only pages. Role
    `list`: the API plus a worker (and a driver once there is something to analyse) that run only
    `list`, `connect` and `analyse` tasks. Role `run`: API, worker and pool, until the work is done.
    Role `serve`: the same, and the loop for as long as it leads. All but `look` and `show` hold the
    home.

    A context manager: leaving it ends children and threads, in order, also after an error inside.
    """

    def __init__(
        self, settings: Settings, role: RoleName, host: str = LOOPBACK, port: int = 0
    ) -> None:
        """`port` 0 is any free one."""
        super().__init__(settings, role)
        self._address = (host, port)
        self._loop: threading.Thread | None = None
        self._serving: Serving | None = None
        self.failure: Exception | None = None  # why this process has to end
        self._ended = threading.Event()

    @cached_property
    def pools(self) -> DriverPools:
        return DriverPools(self)

    @cached_property
    def leading(self) -> Leading:
        return Leading(self, self.pools)

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.ends.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _start(self) -> None:
        role = self.role
        if role.holds_home:
            self._hold_home()
        else:
            self.home.prepare()
        bound = self.ends.enter_context(api_address.bind(*self._address))
        self.url = api_address.url_of(bound)
        self.ends.callback(self.store.close)
        self.token = self.first_token()
        self.ends.callback(self._end_api)  # after the pool, whose last reports the API takes
        if role.kinds is not None:
            self._abandon_probes()
        if role.has_pool:
            _ = self.pools.own  # starts
        if role.is_announced:
            self.home.announce(self.url, role.name)
        self._serve_api(bound)
        if role.leads:
            self.ends.callback(self._start_loop().join)
        self.ends.callback(self.interrupt)

    def _hold_home(self) -> None:
        self.ends.callback(self.home.lock(self.role.name).release)
        for path in self.home.tighten():
            log.warning(
                "this was open to other users of the machine, and is closed now", path=str(path)
            )
        from controlplane.lake.lake_objects import check_lake

        check_lake(self.settings.lake)  # an unusable one is reported here, not in every task
        self.pools.open_home()

    def _abandon_probes(self) -> None:
        """End listings and the like of an earlier process that held this home and did not end in
        order."""
        from controlplane.operations.work import rescue

        rescue.abandon_probes(
            self.context("pool"), reason="its worker belonged to an earlier control plane"
        )

    def _serve_api(self, bound: socket.socket) -> None:
        from controlplane.api.edge import LazyServices
        from controlplane.api.serving import Serving
        from controlplane.parts.api_services import build_services, driver_services

        drivers, is_eager = driver_services(self, self.pools), not self.role.ends_with_work
        services = LazyServices(
            partial(build_services, self, self.pools, drivers, self._unready, self._is_alive)
        )
        if is_eager:
            services()  # settings that cannot be used end the start
        self._serving = Serving(drivers, services, bound, self._end_process, eager=is_eager)
        self._serving.start()

    def _end_api(self) -> None:
        """After a command no client waits for an answer."""
        if self._serving:
            self._serving.stop(at_once=not self.role.leads)

    def _start_loop(self) -> threading.Thread:
        election = self.leading.election()
        work = partial(election.run, self.stopping)
        self._loop = threading.Thread(
            target=self._guarded, args=[work], name="reconciler", daemon=True
        )
        self._loop.start()
        return self._loop

    def _guarded(self, work: Callable[[], None]) -> None:
        """Run the loop until it is stopped. An error that ends it ends the process, with a
        reason."""
        from controlplane.core.errors import Broken

        try:
            work()
            if self.stopping.is_set():
                return
            reason = "it returned"
        except BaseException as e:  # noqa: BLE001  # SystemExit too: in a thread it ends nothing else
            reason = f"{type(e).__name__}: {e}"
        log.error("a part of the control plane ended", which="the loop", reason=reason)
        self.failure = Broken(f"the loop ended ({reason}); start the service again")
        self._end_process()

    def _end_process(self) -> None:
        """Also where a broken part keeps it from ending in order; `stop` reports the reason."""
        _end_at_last(self._ended)
        self.interrupt()

    def interrupt(self) -> None:
        """Begin to end: claims, streams and the loop return soon. Any thread may call it."""
        self.stopping.set()
        self.wake.notify_all()

    def stop(self) -> None:
        """Claims and streams return, the loop stops, the pool drains; then API and store close."""
        try:
            self.ends.close()
        finally:
            self._ended.set()

    @property
    def drivers_started(self) -> int:
        return len(self.pools.own.drivers)

    def settle(
        self,
        flows: Iterable[str],
        branch: str,
        on_progress: Callable[[Progress], None],
        again: Callable[[], bool],
    ) -> str:
        """Work until nothing is left of these dataflows and their upstream, or nothing can go on;
        the worst state.

        `again` is called before it ends: True means that there is more to do.
        """
        return self.leading.settle(flows, branch, on_progress, again)

    def _is_working(self) -> bool:
        return self._loop is None or self._loop.is_alive()

    def _is_alive(self) -> bool:
        return self.failure is None and self._is_working()

    def _unready(self) -> str:
        return self.failing_units.stuck_everywhere if self._is_working() else "the loop has ended"


def _end_at_last(ended: threading.Event) -> None:
    """Exit after ENDS_WITHIN_S if the process has not ended in order by then, as a broken part may
    prevent it."""

    def watch() -> None:
        if not ended.wait(ENDS_WITHIN_S):
            os._exit(1)

    threading.Thread(target=watch, name="end", daemon=True).start()


@contextmanager
def read(settings: Settings) -> Iterator[Context]:
    """The database of a home, which is made where it is not there; without an API, its token and
    its threads."""
    foundation = Foundation(settings, "look")
    foundation.home.prepare()
    with closing(foundation.store):
        yield foundation.context("local")


def example_runner() -> AbstractContextManager[ExampleRunner]:
    """A process of the data plane that runs tests of blueprints; leaving the context ends it."""
    from controlplane.services.examples.register import process

    return process()


def upgrade(database_url: str) -> None:
    """Bring a database to this version's schema."""
    from controlplane import store

    store.upgrade(database_url)


def version(database_url: str) -> str | None:
    """The schema's version of a database; None if it has none."""
    from controlplane import store

    return store.version(database_url)
