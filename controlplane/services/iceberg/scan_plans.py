"""Plans of scans: the files of a snapshot that may hold rows of a filter, page by page.

Nothing is stored between pages: the token of the next page says where it begins, and the
filter. Rights are checked for each page. A page ends after so many partitions, files, comparisons
or bytes, so each takes as long however large the table and the filter are.
"""

from __future__ import annotations

import binascii
import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Final

from controlplane.core import tree
from controlplane.core.iceberg import data_files, scan_filter
from controlplane.core.model.addresses import Generation
from controlplane.core.model.roll_ups import file_batches
from controlplane.core.model.states import State
from controlplane.core.model.tasks import Fragment
from controlplane.core.records import pruning
from controlplane.core.records.pruning import PartitionKeyPart, may_match
from controlplane.core.tree import Entry
from controlplane.operations import known_fragments
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
MOST_RANGES: Final = 10_000  # nodes of the partition tree that a page may leave out
MOST_READ: Final = 2_000  # partitions whose files are looked at for a page
MOST_FILES: Final = 1_000  # of a page
MOST_BYTES: Final = 4_000_000  # of a page, about
MOST_WORK: Final = 300_000  # comparisons of a page: with keys, and with columns of files
LONGEST_FILTER: Final = 16_000  # bytes
BATCH: Final = 500
_TASK_BYTES, _COUNT_BYTES = 500, 20  # of a task, and of the count of one column in it
_ROOT: Final = re.compile(r"[0-9a-f]{2,128}", re.ASCII)


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
    _check_filter(rows)
    return PlanRequest(snapshot, rows)


def _size(rows: Json) -> int:
    """The bytes of a filter as JSON. Raises ValueError, RecursionError."""
    return len(json.dumps(rows, ensure_ascii=False, allow_nan=False).encode())


def _check_filter(rows: Json) -> None:
    """Raises IcebergRefused."""
    try:
        size = _size(rows)
    except (ValueError, RecursionError):
        raise IcebergRefused(
            400, "the filter has NaN, Infinity, or a text that is no Unicode"
        ) from None
    if size > LONGEST_FILTER:
        raise IcebergRefused(400, f"the filter is longer than {LONGEST_FILTER:,} bytes")


def task_of(body: bytes) -> tuple[PlanRequest, str]:
    """The request of a page, and the root of its snapshot. Raises IcebergRefused."""
    token = _object(body).get("plan-task")
    try:
        text = urlsafe_b64decode(token.encode("ascii"))  # type: ignore[union-attr]
        snapshot, root, rows, after = json.loads(text)
        after.encode()
        if type(snapshot) is not int or not _ROOT.fullmatch(root):
            raise ValueError("of other types")
    except (AttributeError, TypeError, ValueError, binascii.Error, RecursionError):
        raise IcebergRefused(
            404, "this is no plan-task of ours; plan again", NO_PLAN_TASK
        ) from None
    _check_filter(rows)
    return PlanRequest(snapshot, rows, after), root


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
        self._tx, self._catalogue = tx, catalogue
        self._state, self._request = state, request
        self._files_of = catalogue.files.files_of(address, state)
        self._condition: Condition | None = None
        self._parts: Sequence[PartitionKeyPart] = ()
        if request.filter is not None:
            self._condition = scan_filter.condition_of(request.filter, state.schema)
            self._parts = key_parts(ctx, tx, address.ref.branch, state)
        self._bounds_of_key = pruning.of_keys(self._parts, state.schema)
        self._last = request.after or ""  # key of the page
        self._work = 0
        self._ranges = 0  # of keys that were compared with the filter
        self._look = 1 + (pruning.comparisons(self._condition) if self._condition else 0)
        self._most_ranges = min(MOST_RANGES, MOST_WORK // self._look)
        columns = len(state.schema["fields"])
        self._file_work = self._look + columns
        self._task_bytes = _TASK_BYTES + _COUNT_BYTES * columns + _size(request.filter)

    def tasks(self) -> Json:
        tasks: list[Json] = []
        for partition, fragment in self._fragments():
            tasks += self._tasks(partition, fragment)
            size = len(tasks) * self._task_bytes
            if len(tasks) >= MOST_FILES or size >= MOST_BYTES or self._work >= MOST_WORK:
                self._last = partition.key
                break
        answer: Json = {"file-scan-tasks": tasks, "plan-tasks": [], "delete-files": []}
        if self._is_behind(self._last):
            answer["plan-tasks"] = [self._request.following(self._state, self._last)]
        return answer

    def _fragments(self) -> Iterator[tuple[Entry, Fragment]]:
        """Partitions whose files are looked at, with their fragments, read batch by batch."""
        entries = islice(self._entries(), MOST_READ)
        for batch in file_batches(entries, BATCH):
            fragments = known_fragments.of(self._tx, batch)
            yield from ((partition, fragments[partition.fragment]) for partition in batch)

    def _entries(self) -> Iterator[Entry]:
        """Partitions whose keys do not rule out all of their rows."""
        most = min(MOST_KEYS, 1 + MOST_WORK // self._look)
        for partition in islice(self._behind(self._request.after), most):
            self._last = partition.key
            if self._may_have(partition):
                yield partition

    def _behind(self, after: str | None) -> Iterator[Entry]:
        """Partitions behind a key, without those of nodes all of whose keys are ruled out."""
        nodes = self._catalogue.nodes.over(self._tx.nodes)
        self._ranges = 0
        entries = tree.scan(nodes, self._state.root, start=after or "", may_hold=self._may_hold)
        return (partition for partition in entries if partition.key != after)

    def _may_hold(self, low: str, high: str) -> bool:
        """Whether a partition with a key from `low` to `high` may have rows of the filter. Beyond
        MOST_RANGES all may: the page goes on key by key, and ends."""
        self._ranges += 1
        if self._condition is None or not self._parts or self._ranges > self._most_ranges:
            return True
        bounds_of = cache(pruning.of_key_range(low, high, self._parts, self._state.schema))
        return may_match(self._condition, bounds_of)

    def _is_behind(self, last: str) -> bool:
        """Whether there may be partitions of the filter behind the last one that was looked at."""
        return self._state.partitions > 0 and next(self._behind(last), None) is not None

    def _may_have(self, partition: Entry) -> bool:
        if self._condition is None or not self._parts:
            return True
        return may_match(self._condition, self._bounds_of_key(partition.key))

    def _tasks(self, partition: Entry, fragment: Fragment) -> Iterator[Json]:
        """The filter is still the reader's to apply. It stands in each task: pyiceberg takes a task
        without one for a file all of whose rows fit."""
        for stored, file in zip(fragment.files, self._files_of(partition, fragment), strict=True):
            self._work += self._file_work
            bounds_of = cache(pruning.of_file(stored, self._state.schema))
            if self._condition is not None and not may_match(self._condition, bounds_of):
                continue
            task: Json = {"data-file": data_files.as_task(file)}
            if self._request.filter is not None:
                task["residual-filter"] = self._request.filter
            yield task
