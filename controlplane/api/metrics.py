"""Counts of this process, and gauges that are read from the store at each request, in Prometheus'
text format."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from controlplane.api.driver_services import Counters
from controlplane.core.model.answers import DatasetStatus, SourceLag
from controlplane.core.model.leases import LOOP
from controlplane.core.model.namespaces import DEFAULT
from controlplane.operations import export_cursor
from controlplane.operations.desired import namespaces
from controlplane.operations.failing_units import FailingUnits
from controlplane.ports.store import Store
from dataplane.contract.kinds import DRIVER_KINDS, WORKER_KINDS

NO_LAGS: Mapping[str, SourceLag] = MappingProxyType({})
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
COUNTED = {  # name -> words, label
    "http_answers": ("Answers by status.", "status"),
    "token_failures": ("Requests without a valid token, or with one that may not.", ""),
    "claims": ("Claims by outcome.", "outcome"),
    "s3_answers": ("Answers of the S3 view by status, refusals by code.", "code"),
    "iceberg_answers": ("Answers of the catalogue of Iceberg by status.", "status"),
    "sharing_answers": ("Answers to recipients of Delta Sharing by status.", "status"),
    "s3_sent_bytes": ("Bytes that the S3 view sent.", ""),
    "openlineage_events": ("OpenLineage events by what became of them.", "outcome"),
    "ticks": ("Passes of the loop.", ""),
}


def render(
    store: Store,
    counters: Counters,
    states: Mapping[str, int],
    failing_units: FailingUnits,
    late_s: float = 0.0,
    *,
    lags: Mapping[str, SourceLag] = NO_LAGS,
    namespace: str = DEFAULT,
    exports: bool = False,
) -> bytes:
    """The text of all counters and gauges; `states` counts datasets and targets by state, `late_s`
    is how far the listing that is the latest is behind. `lags`: of streams, by dataset. `exports`:
    events of lineage are sent.
    Counts of this process are about the whole installation, and are in `default` alone."""
    registry = CollectorRegistry()
    if namespace == DEFAULT:
        ProcessCollector(registry=registry)
        registry.register(_Counted(counters))
        registry.register(_Waiting(store))
    registry.register(
        _Gauges(store, states, failing_units, late_s, namespace=namespace, exports=exports)
    )
    registry.register(_Lags(lags))
    return generate_latest(registry)


def lags_of(datasets: Iterable[DatasetStatus]) -> dict[str, SourceLag]:
    """By dataset. A paused or held one is not to be computed, so its rows are not late."""
    going_on = (dataset for dataset in datasets if dataset["state"] not in ("paused", "held"))
    return {dataset["name"]: dataset["lag"] for dataset in going_on if "lag" in dataset}


class _Lags(Collector):
    """How far streams are behind. An unknown lag has no value."""

    def __init__(self, lags: Mapping[str, SourceLag]) -> None:
        self._lags = lags

    def collect(self) -> Iterator[GaugeMetricFamily]:
        rows = {name: n for name, lag in self._lags.items() if (n := lag["rows"]) is not None}
        seconds = {name: s for name, lag in self._lags.items() if (s := lag["seconds"]) is not None}
        listed = "Rows of a stream that are listed and not committed."
        yield _gauge("headgate_source_lag_rows", listed, "dataset", rows)
        oldest = "Time since the oldest of these rows was listed."
        yield _gauge("headgate_source_lag_seconds", oldest, "dataset", seconds)


class _Counted(Collector):
    """The counts of this process since its start."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters

    def collect(self) -> Iterator[CounterMetricFamily]:
        values_by_name: dict[str, dict[str, float]] = defaultdict(dict)
        for (name, label), value in self._counters.snapshot().items():
            values_by_name[name][label] = value
        for name, (words, label) in COUNTED.items():
            family = CounterMetricFamily(f"headgate_{name}", words, labels=[label] if label else [])
            for key, value in sorted(values_by_name[name].items()):
                family.add_metric([key] if label else [], value)
            yield family


# Alerts add up what there is, and nothing is no number.
NOTHING = dict.fromkeys(sorted(DRIVER_KINDS | WORKER_KINDS), 0)
NO_DRIVERS = {"driver": 0, "worker": 0}


class _Waiting(Collector):
    """Work of each namespace, which shares drivers with the others."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def collect(self) -> Iterator[GaugeMetricFamily]:
        words = "Queued and running tasks by namespace."
        family = GaugeMetricFamily("headgate_namespace_tasks", words, labels=["namespace"])
        for name in namespaces.names(self._store):
            with self._store.read(name) as tx:
                family.add_metric([name], sum(tx.queue.backlog().values()))
        yield family


class _Gauges(Collector):
    """The store's values at one moment."""

    def __init__(
        self,
        store: Store,
        states: Mapping[str, int],
        failing_units: FailingUnits,
        late_s: float,
        *,
        namespace: str,
        exports: bool,
    ) -> None:
        self._store, self._states, self._failing_units, self._late_s = (
            store,
            states,
            failing_units,
            late_s,
        )
        self._namespace, self._exports = namespace, exports

    def collect(self) -> Iterator[GaugeMetricFamily]:
        with self._store.read(self._namespace) as tx:
            backlog = tx.queue.backlog()
            attempts = NOTHING | Counter(a.kind for a in tx.queue.attempts().values())
            drivers = NO_DRIVERS | Counter(d.kind for d in tx.drivers.running())
            behind = export_cursor.behind(tx) if self._exports else None
            lease, now = tx.leases.get(LOOP), tx.now()  # of `default`, which all share
        leaders = [lease] if lease is not None and lease.until > now else []
        yield _gauge("headgate_tasks", "Queued and running tasks.", "kind", backlog)
        yield _gauge("headgate_attempts", "Live attempts.", "kind", attempts)
        yield _gauge(
            "headgate_drivers", "Drivers and workers that have not ended.", "kind", drivers
        )
        yield _gauge("headgate_datasets", "Datasets and targets by state.", "state", self._states)
        failing = Counter(unit.partition(" ")[0] for unit in self._failing_units.units)
        yield _gauge(
            "headgate_failing_units",
            "Parts of the loop's work whose last try failed.",
            "unit",
            failing,
        )
        lateness = "Of the listing that is furthest behind its period."
        yield GaugeMetricFamily("headgate_listing_lateness_seconds", lateness, value=self._late_s)
        if behind is not None:
            unsent = "Events that the OpenLineage export has not looked at."
            yield GaugeMetricFamily("headgate_openlineage_behind_events", unsent, value=behind)
        yield _gauge(
            "headgate_leader_epoch",
            "Of who has the loop.",
            "holder",
            {x.holder: x.epoch for x in leaders},
        )
        yield _gauge(
            "headgate_leader_since_seconds",
            "Of who has it.",
            "holder",
            {x.holder: x.since for x in leaders},
        )


def _gauge(name: str, words: str, label: str, values: Mapping[Any, float]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, words, labels=[label])
    for key, value in sorted(values.items()):
        family.add_metric([key], value)
    return family
