"""How dataflows and datasets stand, what states they have had, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controlplane.client.connection import Connection
from controlplane.client.requests import Time, dataset_path, only_given, refreshing, segment, state_path
from controlplane.core.model.addresses import time_of

if TYPE_CHECKING:
    from controlplane.core.model.answers import (
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


class Datasets(Connection):
    """How dataflows and datasets stand, what states they have had, and why."""

    def status(
        self,
        target: str | None = None,
        *,
        branch: str = "main",
        long: bool = False,
        refresh_s: float | None = None,
    ) -> StatusAnswer:
        """`refresh_s`: how long to wait at most for workers to list the sources first; None has nothing listed. `long`:
        also the time that the last commits took, and the work under way."""
        parameters = only_given(target=target, long="true" if long else None)
        path, query = f"/v1/branches/{segment(branch)}/status", {**parameters, **refreshing(refresh_s)}
        return self._get(path, query, wait_s=refresh_s)

    def dataset(self, name: str, *, branch: str = "main") -> DatasetAnswer:
        """Exports have `target`."""
        return self._get(dataset_path(branch, name))

    def target(self, name: str, *, branch: str = "main") -> TargetStatus:
        """How a copy elsewhere stands."""
        return self._get(dataset_path(branch, name))

    # which state is meant: by an address (`shop.totals@12`) in place of the name, by `generation`, or by `at`, a time
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
        """`prefix`: keys that begin so. `state`: those with work to do, or with a failed task. `changed_in`: those that
        a generation added, changed or removed."""
        path, query = state_path(branch, name, generation, at)
        parameters = only_given(after=after, limit=limit, prefix=prefix, state=state, changed_in=changed_in)
        return self._get(f"{path}/partitions", {**query, **parameters})

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
        path, query = state_path(branch, name, generation, at)
        return self._get(f"{path}/history", {**query, **only_given(before=before, limit=limit)})

    def generations(
        self, dataflow: str, *, branch: str = "main", at: Time | None = None, consistent: bool = False
    ) -> GenerationsAnswer:
        """Which generation each dataset has, or had at a time. `consistent`: those made of the same sources."""
        name, moment = time_of(dataflow, at)
        query = only_given(at=None if moment is None else str(moment), consistent="true" if consistent else None)
        path = f"/v1/branches/{segment(branch)}/dataflows/{segment(name)}/generations"
        return self._get(path, query)

    def checks(
        self, name: str, *, branch: str = "main", generation: int | None = None, at: Time | None = None
    ) -> ChecksAnswer:
        path, query = state_path(branch, name, generation, at)
        return self._get(f"{path}/checks", query)

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
        path, query = state_path(branch, name, generation, at)
        parameters = only_given(partition=partition, all="true" if shows_all else None)
        return self._get(f"{path}/why", {**query, **parameters})

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
        """Where columns and partitions come from; `downstream`, what depends on them. `object`: the partitions that
        rows of a source object of a read component are in."""
        path, query = state_path(branch, name, generation, at)
        parameters = only_given(column=column, partition=partition, object=object, limit=limit)
        return self._get(f"{path}/lineage", {**query, **parameters, "direction": direction})
