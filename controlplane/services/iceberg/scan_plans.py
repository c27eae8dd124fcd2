"""Plans of scans: the files of a snapshot that may hold rows of a filter, page by page.

Nothing is stored between pages: the token of the next page says where it begins, and the
filter. Rights are checked for each page. A page ends after so many partitions or files, so each
takes as long however large the table is.
"""

from __future__ import annotations

import binascii
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from controlplane.core import tree
from controlplane.core.iceberg import data_files, scan_filter
from controlplane.core.model.addresses import Generation
from controlplane.core.model.states import State
from controlplane.core.records import pruning
from controlplane.core.records.pruning import PartitionKeyPart, may_match
from controlplane.core.tree import Entry
from controlplane.operations.context import Context
from controlplane.operations.inspect.records import key_parts
from controlplane.operations.inspect.time_travel import state_of
from controlplane.ports.store import Tx
from controlplane.services.iceberg.http.iceberg_refusals import NO_PLAN_TASK, IcebergRefused
from controlplane.services.iceberg.iceberg_catalogue import IcebergCatalogue
from controlplane.services.s3.s3_addresses import TableAddress
from dataplane.contract.predicates import Condition
from dataplane.contract.schemas import Json

MOST_KEYS: Final = 20_000  # partitions whose keys are looked at for a page
MOST_READ: Final = 2_000  # partitions whose files are looked at for a page
MOST_FILES: Final = 1_000  # of a page
LONGEST_FILTER: Final = 16_000  # characters
BATCH: Final = 500


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """`snapshot`: None for the current one. `filter`: as in JSON; None for all rows. `after`: the
    page begins behind this key; None for the first page."""

    snapshot: int | None = None
    filter: Json = None
    after: str | None = None

    def following(self, state: State, after: str) -> str:
        """The token of the next page."""
        text = json.dumps([state.generation, state.root.hex(), self.filter, after])
        return urlsafe_b64encode(text.encode()).decode("ascii")


def plan_of(body: bytes) -> PlanRequest:
    """Raises IcebergRefused."""
    request = _object(body)
    if request.get("start-snapshot-id") is not None or request.get("end-snapshot-id") is not None:
        raise IcebergRefused(400, "scans between two snapshots are not planned; scan a snapshot")
    snapshot, rows = request.get("snapshot-id"), request.get("filter")
    if snapshot is not None and (isinstance(snapshot, bool) or not isinstance(snapshot, int)):
        raise IcebergRefused(400, "snapshot-id is no whole number")
    if len(json.dumps(rows)) > LONGEST_FILTER:
        raise IcebergRefused(400, f"the filter is longer than {LONGEST_FILTER:,} characters")
    return PlanRequest(snapshot, rows)


def task_of(body: bytes) -> tuple[PlanRequest, str]:
    """The request of a page, and the root of its snapshot. Raises IcebergRefused."""
    token = _object(body).get("plan-task")
    try:
        text = urlsafe_b64decode(token.encode("ascii"))  # type: ignore[union-attr]
        snapshot, root, rows, after = json.loads(text)
        return PlanRequest(int(snapshot), rows, str(after)), str(root)
    except (AttributeError, TypeError, ValueError, binascii.Error, RecursionError):
        raise IcebergRefused(
            404, "this is no plan-task of ours; plan again", NO_PLAN_TASK
        ) from None


def _object(body: bytes) -> dict[str, Json]:
    try:
        request = json.loads(body or b"{}")
    except (ValueError, RecursionError):
        raise IcebergRefused(400, "the body is no JSON") from None
    if not isinstance(request, dict):
        raise IcebergRefused(400, "the body is no JSON object")
    return request


class ScanPlan:
    """One page at work, in one snapshot of the database."""

    def __init__(
        self, ctx: Context, tx: Tx, catalogue: IcebergCatalogue, address: TableAddress, state: State
    ) -> None:
        self._ctx, self._tx, self._address, self._state = ctx, tx, address, state
        self._catalogue = catalogue

    def page(self, request: PlanRequest, root: str = "") -> Json:
        """Scan tasks, and the token of the next page if there is one. `root`: that the pages before
        were of. Raises IcebergRefused, NotFound, GenerationGone."""
        state = self._snapshot(request)
        if root and root != state.root.hex():
            raise IcebergRefused(404, "this plan is of another table; plan again", NO_PLAN_TASK)
        page = _Page(self._ctx, self._tx, self._catalogue, self._address, state, request)
        return page.tasks()

    def _snapshot(self, request: PlanRequest) -> State:
        newest = self._state
        if request.snapshot is None or request.snapshot == newest.generation:
            return newest
        if not 0 < request.snapshot < newest.generation:
            raise IcebergRefused(400, f"the table has no snapshot {request.snapshot}")
        branch, point = self._address.ref.branch, Generation(request.snapshot)
        return state_of(self._tx, branch, self._address.name, point)


class _Page:
    def __init__(
        self,
        ctx: Context,
        tx: Tx,
        catalogue: IcebergCatalogue,
        address: TableAddress,
        state: State,
        request: PlanRequest,
    ) -> None:
        self._tx, self._catalogue, self._address = tx, catalogue, address
        self._state, self._request = state, request
        self._condition: Condition | None = None
        self._parts: Sequence[PartitionKeyPart] = ()
        if request.filter is not None:
            self._condition = scan_filter.condition_of(request.filter, state.schema)
            self._parts = key_parts(ctx, tx, address.ref.branch, state)
        self._last = request.after or ""  # key of the page

    def tasks(self) -> Json:
        tasks: list[Json] = []
        read = 0
        entries = self._entries()
        while batch := list(islice(entries, BATCH)):
            tasks += map(self._task, self._files(batch))
            read += len(batch)
            if len(tasks) >= MOST_FILES or read >= MOST_READ:
                break
        answer: Json = {"file-scan-tasks": tasks, "plan-tasks": [], "delete-files": []}
        if self._is_behind(self._last):
            answer["plan-tasks"] = [self._request.following(self._state, self._last)]
        return answer

    def _entries(self) -> Iterator[Entry]:
        """Partitions whose keys do not rule out all of their rows."""
        for partition in islice(self._behind(self._request.after), MOST_KEYS):
            self._last = partition.key
            if self._may_have(partition):
                yield partition

    def _behind(self, after: str | None) -> Iterator[Entry]:
        nodes = self._catalogue.nodes.over(self._tx.nodes)
        entries = tree.scan(nodes, self._state.root, start=after or "")
        return (partition for partition in entries if partition.key != after)

    def _is_behind(self, last: str) -> bool:
        """Whether there are partitions behind the last one that was looked at."""
        return self._state.partitions > 0 and next(self._behind(last), None) is not None

    def _may_have(self, partition: Entry) -> bool:
        if self._condition is None or not self._parts:
            return True
        bounds_of = pruning.of_key(partition.key, self._parts, self._state.schema)
        return may_match(self._condition, bounds_of)

    def _files(self, entries: Sequence[Entry]) -> Iterator[data_files.DataFile]:
        files = self._catalogue.files.data_files(self._tx, self._address, self._state, entries)
        for file, stored in files:
            bounds_of = pruning.of_file(stored, self._state.schema)
            if self._condition is None or may_match(self._condition, bounds_of):
                yield file

    def _task(self, file: data_files.DataFile) -> Json:
        """The filter is still the reader's to apply."""
        task: Json = {"data-file": data_files.as_task(file)}
        if self._request.filter is not None:
            task["residual-filter"] = self._request.filter
        return task
