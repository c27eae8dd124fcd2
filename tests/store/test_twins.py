"""Random sequences of calls get equal answers from the twin of property tests and from SQLite."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.core.errors import HeadgateError
from controlplane.core.model.addresses import Generation, Moment
from controlplane.core.model.events import NO_BRANCH
from controlplane.core.model.pins import Pin
from controlplane.core.model.tasks import SIZES, Size
from controlplane.ports.queue import Candidates
from controlplane.ports.store import Store, Tx
from dataplane.contract.kinds import Kind, Placement
from tests.property.memory_store.store import MEMORY
from tests.store.conftest import World
from tests.store.examples import (
    SCHEMA,
    branch,
    change,
    d,
    error,
    event,
    fragment,
    hold,
    listing,
    past,
    revision,
    source_partition,
    state,
    stored_job,
    target,
    task,
    trace,
    unfinished,
)
from tests.stores import store_at

Call = Callable[[Tx], object]

small = st.integers(0, 3)
rarely = st.sampled_from([False, False, True])
numbers = st.lists(small, min_size=1, max_size=4)
names = st.sampled_from(["flights", "flights.a", "flights.b", "other.a"])
flows = st.sampled_from(["flights", "other"])
branches = st.sampled_from(["main", "dev"])
others = st.sampled_from(["dev", "dev", "try", "main"])
told_in = st.sampled_from(["main", "dev", NO_BRANCH])
attempts = st.sampled_from(["a1", "a2", "a3", "a4"])
times = st.sampled_from([0.0, 999.0, 1000.0, 2000.0])
statuses = st.sampled_from(["stored", "condemned", "deleted"])
KINDS: tuple[Kind, ...] = ("list", "parse")


def digests(ns: list[int]) -> list[bytes]:
    return [d(n) for n in ns]


def call(build: Callable[..., Call], *arguments: st.SearchStrategy[Any]) -> st.SearchStrategy[Call]:
    return st.builds(build, *arguments)


def tasks_of(
    ns: list[int],
    priority: int,
    kind: Kind,
    size_bytes: int,
    not_before: float,
    size: Size = "standard",
    placement: Placement | None = None,
) -> list[Any]:
    more: dict[str, Any] = {
        "priority": priority,
        "kind": kind,
        "size_bytes": size_bytes,
        "not_before": not_before,
        "size": size,
    }
    more |= {"placement": placement} if placement else {}
    return [task(n, job=d(n % 2), **more) for n in ns]


places = st.sampled_from([None, None, "either"])
tasks = st.builds(
    tasks_of, numbers, small, st.sampled_from(KINDS), small, times, st.sampled_from(SIZES), places
)

DESIRED = [
    call(
        lambda b, f, n, e: (
            lambda tx: tx.blueprints.put(revision(n, f, uids={str(n): f}, branch=b), e)
        ),
        branches,
        flows,
        small,
        small | st.none(),
    ),
    call(
        lambda b, f: (
            lambda tx: tx.blueprints.put(
                revision(tx.blueprints.last_number(b, f) + 1, f, branch=b), None
            )
        ),
        branches,
        flows,
    ),
    call(lambda b, f: lambda tx: tx.blueprints.delete_dataflow(b, f), branches, flows),
    call(
        lambda b, n, p: lambda tx: tx.blueprints.set_paused(b, n, p), branches, names, st.booleans()
    ),
    call(
        lambda b, n, s: lambda tx: tx.states.put_hold(hold(n, branch=b, seq=s)),
        branches,
        names,
        small,
    ),
    call(
        lambda b, ns: lambda tx: tx.states.drop_holds(b, ns), branches, st.lists(names, max_size=2)
    ),
    call(
        lambda b, ns: lambda tx: tx.blueprints.force(b, ns), branches, st.lists(names, max_size=2)
    ),
    call(
        lambda b, n, k: lambda tx: tx.blueprints.bring_forces(b, {n: k}),
        branches,
        names,
        st.integers(1, 4),
    ),
    call(lambda n, b: lambda tx: tx.audit.put_change(change(str(n), b)), small, told_in),
    call(
        lambda n, s, p: lambda tx: tx.branches.create(branch(n, source=s, pinned=p)),
        others,
        branches,
        st.booleans(),
    ),
    call(lambda n: lambda tx: tx.branches.pin(n), others),
    call(lambda n, p: lambda tx: tx.branches.put(branch(n, protected=p)), others, st.booleans()),
    call(lambda n: lambda tx: tx.branches.drop(n), others),
    call(lambda ns: lambda tx: tx.branches.share("dev", ns), st.lists(names, max_size=2)),
    call(lambda f: lambda tx: tx.branches.share_dataflows("dev", [f]), flows),
]
SETTLED = [
    call(
        lambda b, s, ns: (
            lambda tx: tx.states.commit_all(b, [state(s + 1, n, branch=b) for n in ns])
        ),
        branches,
        small,
        st.lists(names, max_size=3, unique=True),
    ),
    call(
        lambda b, n, s: lambda tx: tx.states.commit(state(s + 1, n, branch=b), s),
        branches,
        names,
        small,
    ),
    call(
        lambda b, n, s: lambda tx: tx.states.commit(state(s + 1, n, branch=b), s),
        branches,
        names,
        small,
    ),
    call(lambda n: lambda tx: tx.branches.create(branch(n)), others),
    call(
        lambda b, n, s: lambda tx: tx.states.pin_schema(b, n, Pin(d(s), SCHEMA)),
        branches,
        names,
        small,
    ),
    call(lambda ns: lambda tx: tx.branches.share("dev", ns), st.lists(names, max_size=2)),
    call(
        lambda n, r, s: lambda tx: tx.listings.put(listing(n, requested=r, served=s)),
        small,
        small,
        small,
    ),
    call(
        lambda p, c, g: (
            lambda tx: tx.listings.put_partitions(
                d(p), [source_partition(str(k), p) for k in c], map(str, g)
            )
        ),
        small,
        st.sets(small),
        numbers,
    ),
    call(lambda ns: lambda tx: tx.nodes.put_nodes({d(n): str(ns).encode() for n in ns}), numbers),
    call(
        lambda b, n, s: (
            lambda tx: tx.states.put_unfinished(unfinished(n, branch=b, states={"é": s}))
        ),
        branches,
        names,
        small,
    ),
    call(
        lambda b, ns: lambda tx: tx.states.drop_unfinished(b, ns),
        branches,
        st.lists(names, max_size=2),
    ),
    call(
        lambda n, g, o: (
            lambda tx: tx.projections.put_target(
                replace(target(n, g), order=o, content_digest=d(o))
            )
        ),
        names,
        small,
        small,
    ),
]
REMEMBERED = [
    call(
        lambda ts, out, fs, status: (
            lambda tx: tx.traces.put(
                [trace(t, *out) for t in ts], [fragment(f, status=status) for f in fs]
            )
        ),
        numbers,
        st.lists(small, max_size=2),
        numbers,
        statuses,
    ),
    call(lambda k, n: lambda tx: tx.traces.put_build(d(k), d(n), SCHEMA), small, small),
    call(lambda ns, k: lambda tx: tx.traces.executed(digests(ns), k), numbers, small),
    call(
        lambda k, n: lambda tx: tx.traces.put_memos({d(k): {"rows": n}, d(k + 1): {"rows": k}}),
        small,
        small,
    ),
    call(
        lambda ns, n: lambda tx: tx.traces.put_profiles({d(x): str(n).encode() for x in ns}),
        numbers,
        small,
    ),
]


def first_of(salt: int) -> Callable[[Candidates], int]:
    """A number of the first tasks that differs with all that a store says of them."""
    return lambda of: 1 + (salt + len(of.kind) + sum(of.sizes_bytes)) % len(of.sizes_bytes)


CLAIMS = [
    call(
        lambda a, k, n, s, z: (
            lambda tx: tx.queue.claim(
                a, "driver", k, max_tasks=n, lease_s=5, sizes=z, count_of=first_of(s)
            )
        ),
        attempts,
        st.sampled_from([KINDS, KINDS, KINDS[:1], ()]),
        small,
        small,
        st.sampled_from([SIZES, SIZES, SIZES[:1], SIZES[1:]]),
    ),
]
QUEUE = [
    call(lambda b, n, ts: lambda tx: tx.queue.enqueue(b, n, ts), branches, names, tasks),
    call(
        lambda b, n, k: lambda tx: tx.queue.drop_demands(b, n, digests(k)), branches, names, numbers
    ),
    call(
        lambda b, ns: lambda tx: tx.queue.end_demands(b, ns), branches, st.lists(names, max_size=2)
    ),
    call(lambda b, ns: lambda tx: tx.queue.retry(b, ns), branches, st.lists(names, max_size=2)),
    call(
        lambda b, ns, k: lambda tx: tx.queue.retry(b, ns, digests(k)),
        branches,
        st.lists(names, max_size=2),
        numbers,
    ),
    *CLAIMS,
    call(lambda a, ns: lambda tx: tx.queue.finish(a, digests(ns)), attempts, numbers),
    call(lambda a, n: lambda tx: tx.queue.fail(a, d(n), error()), attempts, small),
    call(
        lambda a, ns, t, b: (
            lambda tx: tx.queue.release(digests(ns), attempt=a, not_before=t, error=error(), burn=b)
        ),
        attempts,
        numbers,
        times,
        st.booleans(),
    ),
    call(lambda a: lambda tx: tx.queue.extend("driver", [a], 7), attempts),
    call(lambda a: lambda tx: tx.queue.end_attempt(a), attempts),
    call(lambda n: lambda tx: tx.queue.put_job(d(n), stored_job(n=n)), small),
]
NOTED = [
    call(
        lambda ns, b: lambda tx: tx.events.put([event(str(n), n, b) for n in ns]), numbers, told_in
    ),
    call(lambda t, n: lambda tx: tx.audit.drop_reads(t, n), times, small),
    call(
        lambda n, b, d, t, s, k: (
            lambda tx: tx.past_attempts.put(
                [past(str(n), branch=b, dataset=d, ended_at=t, seconds=s, outcome=k)]
            )
        ),
        st.integers(0, 9),
        told_in,
        names,
        times,
        st.sampled_from([None, 0.5, 2.0]),
        st.sampled_from(["done", "done", "failed"]),
    ),
]
COLLECTED = [
    call(lambda n, t: lambda tx: tx.upkeep.drop_nodes([d(n)], t), small, times),
    call(lambda n, t: lambda tx: tx.upkeep.drop_builds([d(n)], t), small, times),
    call(lambda: lambda tx: tx.upkeep.drop_done(99)),
    call(lambda n, t: lambda tx: tx.events.drop(t, n), small, times),
    call(lambda t: lambda tx: tx.audit.drop_answers(t, 99), times),
    call(lambda t: lambda tx: tx.drivers.drop(t, 99), times),
    call(lambda t: lambda tx: tx.past_attempts.drop(t, 99), times),
    call(lambda: lambda tx: (tx.upkeep.begin_collection(), tx.upkeep.collections())),
]


GROUPS = {
    "all": [*QUEUE, *DESIRED, *SETTLED, *REMEMBERED, *NOTED, *COLLECTED],
    "collected": [*COLLECTED, *QUEUE[:1], *SETTLED, *REMEMBERED, *NOTED],
    "desired": [*DESIRED, *NOTED],
    "queue": [*QUEUE, *QUEUE[:1] * 3, *CLAIMS * 2],
    "remembered": REMEMBERED,
    "settled": SETTLED,
}
FILLED: tuple[Call, ...] = (
    lambda tx: tx.queue.enqueue("main", "flights.a", tasks_of([0, 1], 0, "list", 1, 0.0)),
    lambda tx: tx.queue.claim("a1", "driver", KINDS, max_tasks=9, lease_s=5),
)
ALL = [d(n) for n in range(4)]
POINTS = (None, Generation(1), Generation(2), Moment(1_000_000_000_250))
ASKED = ("main", "dev", "try")
SETTLED_ASKED = [("flights.a", 1), ("flights.a", 2), ("flights.b", 1), ("x.y", 1)]


def look(tx: Tx) -> list[object]:
    """Everything that can be asked."""
    everything: list[object] = [
        [tx.blueprints.uids(b, f) for b in ASKED for f in ("flights", "other")],
        [tx.blueprints.last_number(b, f) for b in ASKED for f in ("flights", "other")],
        [
            (
                tx.blueprints.revisions(b),
                tx.blueprints.revisions(b, ["other"]),
                tx.branches.own_dataflows(b),
                tx.branches.own_datasets(b),
            )
            for b in ASKED
        ],
        [tx.states.holds(b) for b in ASKED],
        [
            (tx.states.newest(b), tx.states.newest(b, ["flights.a"]), tx.blueprints.forces(b))
            for b in ASKED
        ],
        [
            tx.states.history(b, "flights.a", n, before)
            for b in ASKED
            for n in (1, 9)
            for before in (None, 2)
        ],
        [tx.states.find(b, "flights.a", point) for b in ASKED for point in POINTS],
        tx.branches.all(),
        [(tx.blueprints.paused(b), tx.states.pinned_schemas(b, ["flights.a"])) for b in ASKED],
        [tx.projections.targets(b) for b in ASKED],
        [tx.queue.branches_of(ALL), tx.queue.branches_of([])],
        [tx.blueprints.revision(b, "flights", n) for b in ASKED for n in range(4)],
        [
            (tx.states.unfinished(b), tx.states.unfinished(b, ["flights.a"]))
            for b in ("main", "dev")
        ],
        [
            sorted(
                tx.states.settled(b, SETTLED_ASKED), key=lambda state: (state.dataset, state.seq)
            )
            for b in ASKED
        ],
        [tx.nodes.get_nodes(ALL), tx.listings.get(ALL), tx.traces.memos(ALL), tx.queue.jobs(ALL)],
        [tx.listings.partitions(k, map(str, range(4))) for k in ALL],
        tx.projections.branch_publications(),
        [
            tx.traces.hits(ALL),
            tx.traces.fragments(ALL),
            tx.traces.remembered(ALL, ALL),
        ],
        [
            tx.queue.tasks(ALL),
            tx.queue.backlog(),
            tx.queue.backlog(["large"]),
            tx.queue.attempts(),
            tx.queue.waiting_attempts(),
            [tx.queue.demanding(k) for k in ALL],
        ],
        [
            tx.queue.demands(b, n)
            for b in ("main", "dev")
            for n in ("flights", "flights.a", "flights.b", "other.a")
        ],
        [tx.traces.referenced_attempts(["a1", "attempt-1", "attempt-2", "x"])],
        [
            tx.events.count(b, 1, among)
            for b in ("main", "dev")
            for among in (None, "other".__eq__, "flights".__eq__)
        ],
        [dict(tx.past_attempts.costs(b, ["flights.a", "flights.b", "x"])) for b in ("main", "dev")],
        [
            sorted(map(str, tx.upkeep.pointers())),
            sorted(map(str, tx.upkeep.spans())),
            tx.upkeep.node_digests(b"", 99),
            tx.upkeep.collections(),
        ],
        [
            sorted(tx.upkeep.builds(2000.0)),
            tx.traces.stored(ALL),
            sorted(tx.traces.loose_outputs()),
            list(tx.upkeep.loose_heads()),
        ],
        [[(f.attempt, f.files) for f in tx.traces.files()]],
    ]
    return everything


class Abandoned(Exception):
    pass


def play(world: World, calls: list[Call], is_abandoned: bool) -> list[object]:
    """The answers, or errors, of one transaction."""
    answers: list[object] = []
    try:
        with world.begin() as tx:
            answers.extend(attempt(made, tx) for made in calls)
            if is_abandoned:
                raise Abandoned
    except Abandoned:
        answers.append("abandoned")
    return answers


def attempt(made: Call, tx: Tx) -> object:
    try:
        return made(tx)
    except HeadgateError as e:
        return (type(e), str(e))


@pytest.fixture(scope="module")
def twins(tmp_path_factory: pytest.TempPathFactory) -> Any:
    url = f"sqlite:///{tmp_path_factory.mktemp('twins') / 'db'}"
    made = [store_at(u, lambda: 1000.0) for u in (MEMORY, url)]
    yield made
    for store in made:
        store.close()


@pytest.mark.parametrize("group", GROUPS)
@settings(max_examples=settings().max_examples // 6)
@given(data=st.data())
def test_memory_and_sqlite_answer_alike(
    twins: list[Store], group: str, data: st.DataObject
) -> None:
    namespace = uuid.uuid4().hex
    memory, sqlite = (World(store, namespace) for store in twins)
    some = st.lists(st.one_of(*GROUPS[group]), min_size=12, max_size=30)
    script = data.draw(st.lists(st.tuples(some, rarely), min_size=2, max_size=3))
    for calls, is_abandoned in [(list(FILLED), False), *script]:
        assert play(memory, calls, is_abandoned) == play(sqlite, calls, is_abandoned)
    with memory.read() as ours, sqlite.read() as theirs:
        assert look(ours) == look(theirs)
