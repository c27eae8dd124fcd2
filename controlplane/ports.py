"""What operations need from the world: the store, the lake, pools of drivers. Protocols only; adapters implement them.

Contract under failure: a method either does all that it says or raises and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from controlplane.core.model.access import Answer, Token
from controlplane.core.model.drivers import Driver
from controlplane.core.model.events import Event
from controlplane.core.model.leases import Leases
from controlplane.core.model.pack_origins import Remains
from controlplane.core.model.projections import Publication, Table, Target
from controlplane.core.model.retention import HOLDERS, Expired, Files, Holder, Pointer, Span, Stored
from controlplane.core.model.revisions import Change, Revision
from controlplane.core.model.scaling import Share
from controlplane.core.model.sources import Listing, SourcePartition
from controlplane.core.model.states import Begun, Building, State
from controlplane.core.model.tasks import SIZES, Asked, Attempt, Fragment, Size, Task, Trace
from dataplane.contract import Json, Kind, TaskError


class Upkeep(Protocol):
    """The part of a transaction that collects what nothing refers to any more, and checks what is there.

    What is dropped is dropped in bounded pieces: the methods return how many rows went, 0 once nothing is left.
    """

    def collections(self) -> int:
        """How many collections of tree nodes have begun. In a writing transaction none begins from here to its end, so
        whoever commits roots that he found in an earlier snapshot compares the two numbers first: if they differ, what
        was reachable then may be gone, and he has to look again."""

    def begin_collection(self) -> int:
        """Count a collection, once all writers that asked for that number have ended; the new number. To be called
        first in a transaction: a snapshot that is opened before its end sees all that those writers committed."""

    def changes_since_collection(self) -> int:
        """Roughly how many transactions superseded tree nodes since the last collection began: commits and marks."""

    def pointers(self, holders: Iterable[Holder] = HOLDERS) -> Iterator[Pointer]:
        """Everything that holds on to a tree (all holders by default), streamed. Empty trees may be among it."""

    def node_digests(self, after: bytes, limit: int) -> tuple[bytes, ...]:
        """Digests of stored tree nodes, in order."""

    def drop_nodes(self, digests: Sequence[bytes], before: float) -> int:
        """Delete those that were last put before this time; one that somebody is putting right now stays."""

    def spans(self) -> Iterator[Span]:
        """Of each dataset that has states, streamed."""

    def drop_states(self, expired: Sequence[Expired]) -> int:
        """Never the newest, whatever is asked."""

    def builds(self, before: float) -> Iterator[tuple[bytes, bytes]]:
        """(key, root) of the build traces that were last put before this time, streamed."""

    def drop_builds(self, keys: Sequence[bytes], before: float) -> int:
        """Those of these build traces that were not put again since."""

    def drop_done(self, limit: int) -> int:
        """Tasks that are done and that nobody demands, and jobs that neither a task nor an attempt names."""

    def drop_events(self, before: float, limit: int) -> int:
        """The oldest ones; whatever is newer than one that stays, stays."""

    def drop_answers(self, before: float, limit: int) -> int: ...

    def drop_drivers(self, before: float, limit: int) -> int:
        """Drivers that ended and were last seen before this time, tokens of theirs, and drivers' tokens that expired
        before it."""

    def stored(self, fragments: Iterable[bytes]) -> dict[bytes, Stored]:
        """What the rows of these fragments say, without their files."""

    def condemn(self, fragments: Sequence[bytes]) -> None:
        """Stored ones are used for nothing new from now on. Their rows stay, and so do their files."""

    def files(self) -> Iterator[Files]:
        """Of all fragments that are stored, streamed in the order of their attempts."""

    def loose_heads(self) -> Iterator[tuple[str, str, int]]:
        """(branch, dataset, seq) of newest states that are not there."""

    def loose_outputs(self) -> Iterator[tuple[bytes, bytes]]:
        """(task, fragment) of traces that name a fragment that is not there."""


class Tx(Upkeep, Leases, Remains, Protocol):
    """One transaction in one namespace: everything is kept on a clean exit of `Store.begin`, nothing otherwise."""

    def now(self) -> float:
        """Seconds since 1970 by the database's clock; the only clock that leases are compared with. One transaction has
        one time."""

    # blueprints and operators' wishes
    def revisions(self, branch: str, dataflows: Iterable[str] | None = None) -> dict[str, Revision]:
        """The newest revision of each live dataflow, or of those named that are live."""

    def put_revision(self, revision: Revision, expected: int | None) -> None:
        """Store revision `number` = newest + 1 (numbers go on after a deletion); StaleRevision unless the newest is
        `expected` (0: none live; None: any), or `number` is another one."""

    def last_number(self, branch: str, dataflow: str) -> int:
        """The newest revision number ever given, deleted ones included; 0 if none."""

    def delete_dataflow(self, branch: str, dataflow: str) -> None:
        """Its revisions, demands, problems and pauses end; states stay for who comes back. NotFound if not live."""

    def known_uids(self, branch: str, dataflow: str) -> dict[str, str]:
        """Component name -> uid, as of the newest revision that had it, deleted ones included."""

    def paused(self, branch: str) -> frozenset[str]:
        """Names that an operator paused: `flow` or `flow.dataset`."""

    def set_paused(self, branch: str, target: str, paused: bool) -> None: ...

    def forces(self, branch: str) -> dict[str, int]:
        """Datasets whose results an operator wanted to be made anew: a number that grows with each time."""

    def force(self, branch: str, datasets: Iterable[str]) -> int:
        """Give these datasets a number that none in the namespace had before, in any branch; the number."""

    def copy_branch(self, source: str, target: str) -> None:
        """A new branch points to what `source` has by now: newest revisions, pauses, forces, states, half-built roots,
        pinned schemas. No tree, no fragment, no history, no demand, no projection. BranchExists unless `target` is
        new."""

    def put_change(self, change: Change) -> None: ...

    def changes(self, limit: int = 100) -> tuple[Change, ...]:
        """Newest first."""

    def answer(self, key: str) -> Answer | None: ...

    def put_answer(self, answer: Answer) -> None:
        """IdempotencyConflict if the key has an answer (somebody else was first: begin again, and read it)."""

    # tree nodes (the NodeStore of core.tree)
    def get_nodes(self, digests: Sequence[bytes]) -> Mapping[bytes, bytes]: ...

    def put_nodes(self, nodes: Mapping[bytes, bytes]) -> None:
        """Nodes that are there already are left alone."""

    # listings
    def listings(self, ids: Iterable[bytes]) -> dict[bytes, Listing]: ...

    def put_listing(self, listing: Listing) -> None:
        """Insert or replace; but `requested` and `served` never go down, so that no request is lost."""

    def confirm_listing(self, id: bytes, served: int) -> None:
        """It was listed again, and is as it was: `at` becomes now. Plans do not depend on that: nothing is marked."""

    def source_partitions(self, listing: bytes, keys: Iterable[str]) -> dict[str, SourcePartition]: ...

    def partitions_of(self, keys: Mapping[bytes, Sequence[str]]) -> dict[bytes, dict[str, SourcePartition]]:
        """Those of several listings, in one statement per 10,000 keys."""

    def put_source_partitions(self, listing: bytes, changed: Iterable[SourcePartition], gone: Iterable[str]) -> None:
        """Remove those that are gone, then insert or replace the changed ones. Both are read chunk by chunk."""

    # states
    def states(self, branch: str, datasets: Iterable[str] | None = None) -> dict[str, State]:
        """The newest state of each dataset that has one."""

    def history(self, branch: str, dataset: str, limit: int, before_seq: int | None = None) -> tuple[State, ...]:
        """Newest first."""

    def commit_state(self, state: State, expected_seq: int) -> None:
        """Append `state` (its seq is expected_seq + 1); StaleState unless the newest is `expected_seq` (0: none)."""

    def unfinished(
        self, branch: str, datasets: Iterable[str] | None = None
    ) -> tuple[dict[str, Building], dict[str, Begun]]:
        """What is being built in windows, and what runs under way read, by dataset; in one statement."""

    def put_building(self, building: Building) -> None:
        """Insert or replace."""

    def drop_building(self, branch: str, dataset: str) -> None: ...

    def settled(self, branch: str, states: Iterable[tuple[str, int]]) -> tuple[State, ...]:
        """Those of these states (dataset, `seq`) that are still there."""

    def put_begun(self, begun: Begun) -> None:
        """Insert or replace."""

    def drop_begun(self, branch: str, datasets: Iterable[str]) -> None: ...

    def marked(self, branch: str, after: int) -> tuple[int, frozenset[str]]:
        """What was marked behind the number `after`, and the number to remember: datasets and write components to which
        something happened that plans depend on (states, tasks that they demand, targets, half-built roots), and the
        marks of `core.model.change_marks`. Numbers grow in the order in which transactions become visible."""

    def pinned_schemas(self, branch: str, datasets: Iterable[str]) -> dict[str, tuple[bytes, Json]]:
        """(digest of the settings it was inferred under, schema) of read components without a declared schema."""

    def pin_schema(self, branch: str, dataset: str, settings: bytes, schema: Json) -> None: ...

    def problems(self, branch: str) -> dict[str, TaskError]:
        """What keeps a dataset from being settled apart from failed tasks: analysis, listing, schema policy."""

    def set_problem(self, branch: str, dataset: str, error: TaskError | None) -> None: ...

    # memory
    def traces(self, keys: Sequence[bytes]) -> dict[bytes, Trace]:
        """Hits only: traces all of whose fragments are stored, with the contents of these."""

    def put_traces(self, traces: Sequence[Trace], fragments: Sequence[Fragment]) -> None:
        """A trace or fragment that is there already (and stored) stays as it is; `seq` is assigned here."""

    def last_trace(self) -> int:
        """The newest trace's seq; 0 if none."""

    def fragments(self, ids: Iterable[bytes]) -> dict[bytes, Fragment]: ...

    def remembered(
        self, builds: Iterable[bytes], memos: Iterable[bytes]
    ) -> tuple[dict[bytes, tuple[bytes, Json]], dict[bytes, Json]]:
        """(output root, schema) of whole datasets that were built under these keys, and memos, in one statement."""

    def put_build_trace(self, key: bytes, root: bytes, schema: Json) -> None: ...

    def memos(self, keys: Iterable[bytes]) -> dict[bytes, Json]:
        """Results of inference and analysis: `{"schema": ...}`; what checks found in rows (core.compile.checks)."""

    def put_memo(self, key: bytes, value: Json) -> None: ...

    def put_memos(self, values: Mapping[bytes, Json]) -> None:
        """Insert or replace many at once."""

    def forget_memos(self, keys: Iterable[bytes]) -> None: ...

    # tasks and attempts
    def jobs(self, digests: Iterable[bytes]) -> dict[bytes, Json]: ...

    def put_job(self, digest: bytes, body: Json) -> None: ...

    def enqueue(self, branch: str, dataset: str, tasks: Sequence[Task], *, after_s: float = 0.0) -> int:
        """Insert tasks that are not there (a `done` one that is asked for again is queued again) and this dataset's
        demand for all of them; priority and size become the maximum, and what failed at a smaller size is queued again.
        So is a running write that nobody demanded any more: something else may have been written since it was claimed.
        What becomes queued stands in the order of claims as if queued `after_s` later, and waits for nothing.
        Returns how many became queued that were not there, done, or such writes."""

    def demands(self, branch: str, dataset: str) -> dict[bytes, Task]:
        """The tasks that this dataset demands, in every state."""

    def demanded(self, branch: str, datasets: Iterable[str]) -> dict[str, dict[bytes, Asked]]:
        """As `demands`, of many datasets, but only how the tasks stand."""

    def drop_demands(self, branch: str, dataset: str, keep: Iterable[bytes] = ()) -> int:
        """End this dataset's demands but those in `keep`; returns how many ended. Queued or failed tasks that nobody
        demands then are deleted."""

    def demanding(self, task: bytes) -> tuple[tuple[str, str], ...]:
        """(branch, dataset) of all who demand a task."""

    def tasks(self, keys: Iterable[bytes]) -> dict[bytes, Task]: ...

    def backlog(self, sizes: Sequence[Size] = SIZES) -> dict[Kind, int]:
        """Queued (and due) plus running tasks of these sizes by kind."""

    def claim(
        self,
        attempt: str,
        driver: str,
        kinds: Sequence[Kind],
        *,
        max_tasks: int,
        max_bytes: int,
        lease_s: float,
        sizes: Sequence[Size] = SIZES,
        without: Sequence[str] = (),
    ) -> Attempt | None:
        """Take the due queued task of highest priority (oldest first) of these kinds and sizes, and more of the same
        job, dataset and size, within the limits (at least one); each becomes running with a raised epoch and this
        attempt. The prefix is `<namespace>/<flow>/<dataset>/_frags/<first two characters of the attempt>/<attempt>`.
        `without`: of none of these dataflows. None: nothing to do."""

    def attempts(self, ids: Iterable[str] | None = None) -> dict[str, Attempt]:
        """Live attempts (all, or those named)."""

    def referenced_attempts(self, ids: Sequence[str]) -> frozenset[str]:
        """Those of these attempts that are live, or of which a fragment that is not deleted or a leftover has files."""

    def extend(self, driver: str, attempts: Sequence[str], lease_s: float) -> frozenset[str]:
        """Renew leases of live attempts of this driver; returns the ids that are (still) live."""

    def finish(self, attempt: str, done: Sequence[bytes]) -> frozenset[bytes]:
        """Running tasks that this attempt holds at its epochs become done; returns which. Others are left alone."""

    def fail(self, attempt: str, task: bytes, error: TaskError) -> bool:
        """A running task of this attempt becomes failed, with its error; False if it is not its own any more."""

    def release(
        self, tasks: Sequence[bytes], *, attempt: str, not_before: float, error: TaskError | None, burn: bool
    ) -> int:
        """Running tasks that this attempt holds go back to queued (`burn`: counting one infrastructure failure), or are
        deleted where nobody demands them any more. Returns how many it held."""

    def end_attempt(self, attempt: str) -> None:
        """The attempt's row goes; its tasks must have been finished, failed or released."""

    def retry(self, branch: str, datasets: Iterable[str]) -> int:
        """Failed tasks that these datasets demand become queued with a fresh budget. Returns how many."""

    # drivers
    def put_driver(self, driver: Driver) -> None: ...

    def drivers(self) -> tuple[Driver, ...]:
        """Those that have not ended."""

    def ends(self, limit: int) -> tuple[Driver, ...]:
        """Drivers that ended remarkably (core.model.driver_ends) and are still remembered, the last ones first."""

    # projections
    def publications(self, branch: str, datasets: Iterable[str] | None = None) -> dict[str, Publication]: ...

    def put_publication(self, publication: Publication) -> None: ...

    def targets(self, branch: str, components: Iterable[str] | None = None) -> dict[str, Target]: ...

    def put_target(self, target: Target) -> None: ...

    # events, tokens
    def put_events(self, events: Sequence[Event]) -> None:
        """Ids grow without gaps being promised; `at` is the database's clock."""

    def events(self, after: int, limit: int = 1000) -> tuple[Event, ...]: ...

    def last_event(self) -> int: ...

    def claim_of(self, attempt: str) -> Event | None:
        """What was told when an attempt began, as long as events are kept. No index leads there: for people's questions
        only."""

    def count_events(self, after: int) -> dict[str, int]:
        """Sum of `n` by kind of the events with id > `after`."""

    def token(self, hashed: bytes) -> Token | None: ...

    def tokens(self) -> tuple[Token, ...]: ...

    def put_token(self, token: Token) -> None:
        """Insert or replace by id."""


class Store(Protocol):
    """The metadata database. Safe to use from many threads, one transaction at a time in each.

    OSError when it cannot be reached, has no room, or gave this transaction up in favour of another: nothing is kept
    (after a connection lost in the commit itself: perhaps all), try again later.
    """

    @property
    def statements(self) -> int:
        """How many SQL statements have been sent so far; the cost that plans are measured by."""

    def begin(self, namespace: str = "default") -> AbstractContextManager[Tx]:
        """Open a writing transaction (serial with others on SQLite)."""

    def read(self, namespace: str = "default") -> AbstractContextManager[Tx]:
        """Open a consistent snapshot for reading only."""

    def close(self) -> None: ...


class ObjectStore(Protocol):
    """The lake: immutable objects under text paths relative to its root. Readers see whole objects only."""

    @property
    def uri(self) -> str: ...

    def read(self, path: str) -> bytes:
        """NotFound if there is none."""

    def stream(self, path: str) -> Iterator[bytes]:
        """The bytes of an object piece by piece. NotFound if there is none, before the first piece."""

    def put_if_absent(self, path: str, body: bytes) -> bool:
        """False, and nothing is changed, if there is another one already. Atomic among any number of writers."""

    def sizes(self, prefix: str) -> dict[str, int]:
        """Path -> size in bytes of every object below a prefix; none is an empty mapping; a failure raises."""

    def link(self, source: str, target: str) -> None:
        """Make the same bytes available under a second path (hard link, server-side copy); repeating is harmless."""

    def delete_prefix(self, prefix: str) -> None:
        """Remove everything below a prefix; nothing there is fine."""

    def folders(self, prefix: str) -> Iterator[str]:
        """Names directly below a prefix."""


LOG_BYTES = 1 << 20  # of a driver's log are read at once, at its end


class DriverPool(Protocol):
    """Where drivers and workers run. Level-triggered: `scale` states what is wanted, `poll` what is. Both raise
    PoolUnavailable where that cannot be known or done at present; it is never taken for "nothing runs"."""

    name: str
    outlives: bool  # drivers go on without this process, and another one of its kind finds them

    shares: tuple[Share, ...]  # what may run in it

    def scale(self, kind: str, wanted: int, size: Size = "standard", busy: Collection[str] = ()) -> None:
        """Start or drain so that `wanted` drivers of a kind ('driver' | 'worker') run. Repeating is harmless. Those
        whose ids are in `busy` go on, if they are more than that."""

    def end(self, driver: str, reason: str) -> None:
        """End one that is of no use any more, as hard as it takes, so that another one has its slot. `poll` tells of it
        with this reason. Repeating is harmless, and so is an id that no driver of this pool has."""

    def poll(self) -> tuple[Driver, ...]:
        """Every driver started by this pool since the last poll or still there, with `ended` and its reason."""

    def log(self, driver: str, lines: int) -> str:
        """The last lines that a driver or worker said, also after its end; fewer where they have more than LOG_BYTES.
        LogGone says why there are none any more, PoolUnavailable that it cannot be known at present. Nothing has to be
        started or polled before, so that any process of a control plane can ask."""

    def close(self) -> None:
        """End all that does not outlive us, and wait until it is gone."""


class Publisher(Protocol):
    """Writes Delta logs, one writer per table at a time."""

    def publish(self, table: Table, told: Callable[[str], None] = ...) -> int:
        """Make the table's content and schema equal `table`; returns the table version that does. Repeating changes
        nothing and returns the same version. A log that no reader can open is made anew, which `told` is given in
        words. Raises OSError for storage faults (try again later)."""

    def close(self) -> None: ...
