"""One location as the control plane knows it, and a worker that finds there what a test says.

Does not belong here: real folders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from controlplane.core import tree
from controlplane.core.compile import ids
from controlplane.core.model.events import Event
from controlplane.core.model.sources import HeldListing, Listing, SourcePartition
from controlplane.core.model.tasks import Task
from controlplane.lake.lake_objects import LocalObjects
from controlplane.operations.context import Context
from controlplane.operations.work import claims, listings, reports
from controlplane.operations.work.listing_diff import Found
from controlplane.ports.store import Store
from dataplane.contract.claims import CONTRACT, ListClaim
from dataplane.contract.encoding import digest
from dataplane.contract.jobs import ListJob
from dataplane.contract.results import TaskResult
from dataplane.contract.schemas import Json
from dataplane.contract.source_objects import ListedPartition, ListingResult, SourceObject
from dataplane.listing.listed_partitions import listed
from dataplane.listing.result_file import ListingWriter

ID = digest("listing/1", location="a test's")
NEVER = Listing(ID, None, None, 0, 0)


def file(
    name: str, text: str = "", *, columns: Sequence[str] | None = ("a", "b"), modified_ms: int = 1
) -> SourceObject:
    return {
        "name": name,
        "uri": f"file:///data/{name}",
        "size": len(text),
        "modified_ms": modified_ms,
        "version": f"sha256:{text or name}",
        "columns": None if columns is None else list(columns),
    }


def list_job(location: object, **fields: Json) -> ListJob:
    job: ListJob = {
        "location": str(location),
        "format": "csv",
        "options": {},
        "partition": None,
        "metadata": [],
        "deletes_max": 0.5,
        "accept_deletes": False,
        "listing": ID.hex(),
    }
    return cast("ListJob", {**job, **fields})


def after(claim: ListClaim) -> str | None:
    """The key at which the listing ended that the new one only adds to."""
    known = claim["job"]["known"]
    assert known is not None
    return known["key"]


def each(files: Iterable[SourceObject]) -> Iterator[ListedPartition]:
    """A partition for each file, named after it."""
    return (listed(f["name"], [f], ()) for f in files)


def files(count: int, width: int = 2) -> Iterator[SourceObject]:
    columns = [f"column {i}" for i in range(width)]
    return (file(f"{i:07d}.csv", columns=columns) for i in range(count))


def told(
    partitions: Iterable[ListedPartition], place: Callable[[], Path] | None = None
) -> ListingResult:
    """What a worker reports, inline, or with all of it in a file."""
    with closing(ListingWriter(place, 0)) as sheet:
        for partition in partitions:
            sheet.add(partition)
        return sheet.result()


@dataclass(slots=True)
class Location:
    store: Store
    lake: LocalObjects
    namespace: str = "default"
    deletes_max: float = 0.5
    is_growing: bool = False

    @property
    def ctx(self) -> Context:
        return Context(self.store, self.namespace, "test", "", lambda: None)

    @property
    def listing(self) -> Listing:
        with self.store.read(self.namespace) as tx:
            return tx.listings.get([ID]).get(ID, NEVER)

    def entries(self) -> dict[str, tree.Entry]:
        with self.store.read(self.namespace) as tx:
            return {e.key: e for e in tree.scan(tx.nodes, self.listing.root or tree.EMPTY_ROOT)}

    def rows(self, keys: Iterable[str]) -> dict[str, SourcePartition]:
        with self.store.read(self.namespace) as tx:
            return tx.listings.partitions(ID, keys)

    def event(self) -> Event:
        """The last that listings gave rise to."""
        with self.store.read(self.namespace) as tx:
            return [e for e in tx.events.newer("main", 0) if e.kind.startswith("listing.")][-1]

    def claim(self) -> ListClaim:
        """Ask for a listing, and take the work."""
        job = list_job(
            "/data/*", deletes_max=self.deletes_max, **({"known": None} if self.is_growing else {})
        )
        with self.store.begin(self.namespace) as tx:
            known = tx.listings.get([ID]).get(ID, NEVER)
            asked = replace(known, requested=known.served + 1)
            tx.listings.put(asked)
            key = digest("list/1", listing=ID, request=asked.requested)
            task = Task(key, "list", "flow.raw", "", ids.job_id(job), {"request": asked.requested})
            tx.queue.put_job(task.job, job)
            tx.queue.enqueue("main", "flow.raw#listing", [task])
        found = claims.claim(self.ctx, "worker", CONTRACT, ["list"])
        assert found is not None
        assert found["kind"] == "list"
        return found

    def place(self, claim: ListClaim) -> Path:
        return self.lake.root / claim["prefix"] / "listing.jsonl.gz"

    def found(
        self, claim: ListClaim, partitions: Iterable[ListedPartition], *, inline: bool = False
    ) -> ListingResult:
        """What the worker reports, and the file that it writes first."""
        return told(partitions, None if inline else lambda: self.place(claim))

    def report(self, claim: ListClaim, result: ListingResult) -> None:
        [task] = claim["tasks"]
        done: TaskResult = {
            "task": task["task"],
            "epoch": task["epoch"],
            "state": "done",
            "result": result,
        }
        reports.report(self.ctx, "worker", claim["attempt"], [done], lake=self.lake)

    def list(self, found: Iterable[SourceObject], *, inline: bool = False) -> Listing:
        """A listing from end to end."""
        claim = self.claim()
        self.report(claim, self.found(claim, each(found), inline=inline))
        return self.listing

    def accept_deletes(self) -> None:
        with self.store.begin(self.namespace) as tx:
            held: HeldListing = self.listing.held or {}
            tx.listings.put(replace(self.listing, held={**held, "accepted": True}))

    def read(self, claim: ListClaim, result: ListingResult) -> Found:
        """What was found, compared with what is known. To be closed."""
        return listings.read(
            self.store, self.namespace, claim["job"], result, self.lake, claim["prefix"]
        )
