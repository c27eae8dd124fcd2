"""The loop: over some dataflows until their work is done, or over all namespaces while this process
leads."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from controlplane import logs
from controlplane.core.model.namespaces import DEFAULT
from controlplane.parts.driver_pools import DriverPools
from controlplane.parts.foundation import Foundation

if TYPE_CHECKING:
    from controlplane.ports.lake import Publisher
    from controlplane.ports.pool import DriverPool
    from controlplane.ports.store import Store
    from controlplane.reconciler.exporting import Exporting
    from controlplane.reconciler.leader import FencedStore, LeaderElection
    from controlplane.reconciler.loop import Progress, Reconciler
    from controlplane.reconciler.shared_pool import FairShare
    from controlplane.reconciler.wake import Ends

EXPORT_S = 10.0  # a run that is over waits so long for events of lineage that are still to be sent


class Leading:
    def __init__(self, foundation: Foundation, pools: DriverPools) -> None:
        self._foundation, self._pools, self._settings = foundation, pools, foundation.settings

    @cached_property
    def _publisher(self) -> Publisher:
        return self._open_publisher(self._foundation.ends)

    def _open_publisher(self, ends: ExitStack, **options: Any) -> Publisher:
        from controlplane.lake.publisher import DeltaPublisher

        publisher = DeltaPublisher(self._settings.lake, **options)
        ends.callback(publisher.close)
        return publisher

    def settle(
        self,
        flows: Iterable[str],
        branch: str,
        on_progress: Callable[[Progress], None],
        again: Callable[[], bool],
    ) -> str:
        """As `Server.settle`."""
        foundation = self._foundation
        loop = self._reconciler(
            foundation.store,
            self._publisher,
            self._pools.own,
            flows=frozenset(flows),
            branch=branch,
            on_progress=on_progress,
        )
        with ExitStack() as ends:
            self._export(foundation.store, ends, EXPORT_S)
            ends.callback(loop.close)
            return loop.settle(foundation.stopping, again)

    def election(self) -> LeaderElection:
        """Leads whenever no other process does. Raises BadSetting for pools that cannot be used."""
        from controlplane.reconciler.leader import LeaderElection

        if self._settings.pool == "kubernetes":
            from controlplane.drivers.cluster_settings import read_pools

            read_pools(self._settings)
        foundation = self._foundation
        name = f"{socket.gethostname()}/{foundation.home.instance()}"
        return LeaderElection(
            foundation.store, name, self._settings.lease_s, self.lead, foundation.wake.notify_all
        )

    def lead(self, store: FencedStore, over: Ends) -> None:
        """Drivers and the writer of tables belong to a term: the next one may be another
        process's."""
        from controlplane.reconciler.loops import Loops
        from controlplane.reconciler.shared_pool import FairShare, SharedPool

        with ExitStack() as ends:
            publisher = self._open_publisher(ends, may_commit=store.check)
            shared, fair = SharedPool(self._pools.open(ends)), FairShare()

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

            Loops(
                store, serving, shared, fair, self._foundation.wake, self._foundation.failing_units
            ).run(over)

    def _reconciler(
        self,
        store: Store,
        publisher: Publisher,
        pool: DriverPool,
        *,
        namespace: str = DEFAULT,
        fair: FairShare | None = None,
        **options: Any,
    ) -> Reconciler:
        from controlplane.lake.lake_objects import open_lake
        from controlplane.operations.context import Context
        from controlplane.operations.work.claims import LEASE_S
        from controlplane.reconciler.fleet import Fleet
        from controlplane.reconciler.loop import Reconciler

        logs.tame()
        foundation = self._foundation
        wake, failing_units = foundation.wake.of(namespace), foundation.failing_units.of(namespace)
        context = Context(store, namespace, actor="reconciler", wake=wake.notify)
        silent_s = max(0.0, self._settings.silent_s - LEASE_S)
        fleet = Fleet(
            context, open_lake(self._settings.lake), pool, failing_units, silent_s, fair=fair
        )
        return Reconciler(
            store,
            fleet,
            publisher,
            wake,
            namespace=namespace,
            packages=self._pools.packages(namespace),
            notify=foundation.notify if namespace == DEFAULT else (),
            cache=foundation.planners.cache(namespace),
            wake_of=lambda reader: foundation.wake.of(reader).notify(),
            **options,
        )

    def _export(
        self, store: Store, ends: ExitStack, within_s: float = 0.0, *, namespace: str = DEFAULT
    ) -> Exporting | None:
        """Send events of lineage until the end, which waits so long for unsent events."""
        from controlplane.services.openlineage.register import export

        foundation = self._foundation
        count = partial(foundation.counters.add, "openlineage_events")
        lineage = export(self._settings, store, namespace, count, ends)
        if lineage is None:
            return None
        from controlplane.reconciler.exporting import Exporting

        exporting = Exporting(lineage, foundation.failing_units.of(namespace))
        exporting.start()
        ends.callback(exporting.close, within_s)
        return exporting

    def _passed(self, exporting: Exporting | None) -> None:
        """After a pass of the loop."""
        self._foundation.counters.add("ticks")
        if exporting is not None:
            exporting.nudge()
