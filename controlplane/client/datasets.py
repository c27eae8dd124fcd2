"""How dataflows and datasets stand, what states they have had, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from controlplane.client.connection import HttpConnection
from controlplane.client.requests import Time, refreshing, state_of
from controlplane.core import rest
from controlplane.core.model.addresses import time_of

if TYPE_CHECKING:
    from controlplane.core.model.answers import (
        AllChecksAnswer,
        ChecksAnswer,
        DatasetAnswer,
        GenerationsAnswer,
        HistoryAnswer,
        PartitionsAnswer,
        StatusAnswer,
        TargetStatus,
        WhyAnswer,
    )
    from controlplane.core.model.answers.datasets import PartitionWork
    from controlplane.core.model.answers.lineage import Direction, LineageAnswer


class DatasetCalls(HttpConnection):
    """How dataflows and datasets stand, what states they have had, and why."""

    def status(
        self,
        target: str | None = None,
        *,
        branch: str = "main",
        long: bool = False,
        refresh_s: float | None = None,
    ) -> StatusAnswer:
        """`refresh_s`: how long to wait at most for workers to list the sources first; None has
        nothing listed. `long`: also the time that the last commits took, and the work under way."""
        timeout_s, query = self._waiting(refresh_s), refreshing(refresh_s)
        return self._call(
            rest.STATUS, timeout_s, branch=branch, target=target, long=long or None, **query
        )

    def dataset(self, name: str, *, branch: str = "main") -> DatasetAnswer:
        """Exports have `target`."""
        return cast("DatasetAnswer", self._call(rest.DATASET, branch=branch, dataset=name))

    def target(self, name: str, *, branch: str = "main") -> TargetStatus:
        """How a copy elsewhere stands."""
        return cast("TargetStatus", self._call(rest.DATASET, branch=branch, dataset=name))

    # which state is meant: by an address (`shop.totals@12`) in place of the name, by `generation`,
    # or by `at`, a time
    def partitions(
        self,
        name: str,
        *,
        branch: str = "main",
        after: str | None = None,
        limit: int = 100,
        generation: int | None = None,
        at: Time | None = None,
        prefix: str | None = None,
        state: PartitionWork | None = None,
        changed_in: int | None = None,
    ) -> PartitionsAnswer:
        """`prefix`: keys that begin so. `state`: those with work to do, or with a failed task.
        `changed_in`: those that a generation added, changed or removed."""
        keys = {
            "after": after,
            "limit": limit,
            "prefix": prefix,
            "state": state,
            "changed_in": changed_in,
        }
        return self._call(rest.PARTITIONS, branch=branch, **keys, **state_of(name, generation, at))

    def history(
        self,
        name: str,
        *,
        branch: str = "main",
        before: int | None = None,
        limit: int = 100,
        generation: int | None = None,
        at: Time | None = None,
    ) -> HistoryAnswer:
        """Generations, newest first, up to the one that is meant."""
        state = state_of(name, generation, at)
        return self._call(rest.HISTORY, branch=branch, before=before, limit=limit, **state)

    def generations(
        self,
        dataflow: str,
        *,
        branch: str = "main",
        at: Time | None = None,
        consistent: bool = False,
    ) -> GenerationsAnswer:
        """Which generation each dataset has, or had at a time. `consistent`: those made of the same
        sources."""
        name, moment = time_of(dataflow, at)
        query = {"at": None if moment is None else str(moment), "consistent": consistent or None}
        return self._call(rest.GENERATIONS, branch=branch, dataflow=name, **query)

    def checks(
        self,
        name: str,
        *,
        branch: str = "main",
        generation: int | None = None,
        at: Time | None = None,
    ) -> ChecksAnswer:
        return self._call(rest.CHECKS, branch=branch, **state_of(name, generation, at))

    def all_checks(self, *, branch: str = "main") -> AllChecksAnswer:
        """The checks of the newest generation of each dataset that has some."""
        return self._call(rest.ALL_CHECKS, branch=branch)

    def why(
        self,
        name: str,
        partition: str | None = None,
        *,
        branch: str = "main",
        shows_all: bool = False,
        generation: int | None = None,
        at: Time | None = None,
    ) -> WhyAnswer:
        """The causes of a dataset or partition. `shows_all`: with inputs that did not change."""
        state = state_of(name, generation, at)
        return self._call(
            rest.WHY, branch=branch, partition=partition, all=shows_all or None, **state
        )

    def lineage(
        self,
        name: str,
        *,
        column: str | None = None,
        partition: str | None = None,
        generation: int | None = None,
        at: Time | None = None,
        direction: Direction = "upstream",
        object: str | None = None,
        branch: str = "main",
        limit: int | None = None,
    ) -> LineageAnswer:
        """Where columns and partitions come from; `downstream`, what depends on them. `object`: the
        partitions that rows of a source object of a read component are in."""
        begin = {"column": column, "partition": partition, "object": object}
        state = state_of(name, generation, at)
        return self._call(
            rest.LINEAGE, branch=branch, direction=direction, limit=limit, **begin, **state
        )
