"""Random sequences of calls get equal answers from memory and from SQLite."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.core.errors import HeadgateError
from controlplane.core.model.access import Answer
from controlplane.core.model.addresses import Generation, Moment
from controlplane.core.model.events import NO_BRANCH
from controlplane.core.model.pins import Pin
from controlplane.core.model.retention import Expired
from controlplane.core.model.tasks import SIZES, Size
from controlplane.ports.store import Store, Tx
from controlplane.store import open_store, upgrade
from dataplane.contract.kinds import Kind, Placement
from tests.store.conftest import World
from tests.store.examples import (
    SCHEMA,
    alert,
    begun,
    branch,
    browser_session,
    change,
    d,
    driver,
    error,
    event,
    fragment,
    hold,
    link,
    listing,
    message,
    past,
    publication,
    read,
    revision,
    share,
    shared_table,
    source_partition,
    state,
    stored_job,
    target,
    task,
    token,
    trace,
)

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
tasks = st.builds(tasks_of, numbers, small, st.sampled_from(KINDS), small, times, st.sampled_from(SIZES), places)

DESIRED = [
    call(
        lambda b, f, n, e: lambda tx: tx.blueprints.put(revision(n, f, uids={str(n): f}, branch=b), e),
        branches,
        flows,
        small,
        small | st.none(),
    ),
    call(
        lambda b, f: lambda tx: tx.blueprints.put(revision(tx.blueprints.last_number(b, f) + 1, f, branch=b), None),
        branches,
        flows,
    ),
    call(lambda b, f: lambda tx: tx.blueprints.delete_dataflow(b, f), branches, flows),
    call(lambda b, n, p: lambda tx: tx.blueprints.set_paused(b, n, p), branches, names, st.booleans()),
    call(lambda b, n, s: lambda tx: tx.states.put_hold(hold(n, branch=b, seq=s)), branches, names, small),
    call(lambda b, ns: lambda tx: tx.states.drop_holds(b, ns), branches, st.lists(names, max_size=2)),
    call(lambda n, e: lambda tx: tx.events.move_cursor(n, e), names, small),
    call(lambda b, ns: lambda tx: tx.blueprints.force(b, ns), branches, st.lists(names, max_size=2)),
    call(lambda b, n, k: lambda tx: tx.blueprints.bring_forces(b, {n: k}), branches, names, st.integers(1, 4)),
    call(lambda n, b: lambda tx: tx.audit.put_change(change(str(n), b)), small, told_in),
    call(lambda n, s, p: lambda tx: tx.branches.create(branch(n, source=s, pinned=p)), others, branches, st.booleans()),
    call(lambda n: lambda tx: tx.branches.pin(n), others),
    call(lambda n, p: lambda tx: tx.branches.put(branch(n, protected=p)), others, st.booleans()),
    call(lambda n: lambda tx: tx.branches.drop(n), others),
    call(lambda ns: lambda tx: tx.branches.share("dev", ns), st.lists(names, max_size=2)),
    call(lambda f: lambda tx: tx.branches.share_dataflows("dev", [f]), flows),
    call(lambda n, r: lambda tx: tx.links.put(link(str(n), revoked=r, at=float(n % 2))), small, st.booleans()),
    call(lambda n: lambda tx: tx.shares.put(share(f"s{n}", id=str(n))), small),
    call(lambda n: lambda tx: tx.shares.drop(share(f"s{n}", id=str(n))), small),
    call(lambda n, s: lambda tx: tx.shares.put_table(shared_table(f"t{n}", str(s))), small, small),
    call(lambda n, s: lambda tx: tx.shares.drop_table(shared_table(f"t{n}", str(s))), small, small),
    call(lambda n: lambda tx: tx.audit.put_answer(Answer(str(n), d(n), 200, "")), small),
]
SETTLED = [
    call(lambda b, n, s: lambda tx: tx.states.commit(state(s + 1, n, branch=b), s), branches, names, small),
    call(lambda n, e: lambda tx: tx.states.set_problem("main", n, error(str(e)) if e else None), names, small),
    call(lambda b, n, s: lambda tx: tx.states.commit(state(s + 1, n, branch=b), s), branches, names, small),
    call(lambda n: lambda tx: tx.branches.create(branch(n)), others),
    call(lambda b, n, s: lambda tx: tx.states.pin_schema(b, n, Pin(d(s), SCHEMA)), branches, names, small),
    call(lambda ns: lambda tx: tx.branches.share("dev", ns), st.lists(names, max_size=2)),
    call(lambda n, r, s: lambda tx: tx.listings.put(listing(n, requested=r, served=s)), small, small, small),
    call(
        lambda p, c, g: (
            lambda tx: tx.listings.put_partitions(d(p), [source_partition(str(k), p) for k in c], map(str, g))
        ),
        small,
        st.sets(small),
        numbers,
    ),
    call(lambda ns: lambda tx: tx.nodes.put_nodes({d(n): str(ns).encode() for n in ns}), numbers),
    call(
        lambda b, g, n: lambda tx: tx.projections.put_publication(replace(publication(g, n), branch=b)),
        branches,
        small,
        names,
    ),
    call(lambda b, n: lambda tx: tx.projections.drop_publication(b, n), branches, names),
    call(lambda b, n, s: lambda tx: tx.states.put_begun(begun(n, branch=b, states={"é": s})), branches, names, small),
    call(lambda b, ns: lambda tx: tx.states.drop_begun(b, ns), branches, st.lists(names, max_size=2)),
    call(
        lambda n, g, o: lambda tx: tx.projections.put_target(replace(target(n, g), order=o, wish=d(o))),
        names,
        small,
        small,
    ),
]
REMEMBERED = [
    call(
        lambda ts, out, fs, status: (
            lambda tx: tx.traces.put([trace(t, *out) for t in ts], [fragment(f, status=status) for f in fs])
        ),
        numbers,
        st.lists(small, max_size=2),
        numbers,
        statuses,
    ),
    call(lambda k, n: lambda tx: tx.traces.put_build(d(k), d(n), SCHEMA), small, small),
    call(lambda k, n: lambda tx: tx.traces.put_memo(d(k), {"schema": n}), small, small),
    call(lambda k, n: lambda tx: tx.traces.put_memos({d(k): {"rows": n}, d(k + 1): {"rows": k}}), small, small),
    call(lambda ns: lambda tx: tx.traces.forget_memos(digests(ns)), numbers),
    call(lambda ns, n: lambda tx: tx.traces.put_profiles({d(x): str(n).encode() for x in ns}), numbers, small),
]
CLAIMS = [
    call(
        lambda a, k, n, s, z: lambda tx: tx.queue.claim(a, "driver", k, max_tasks=n, max_bytes=s, lease_s=5, sizes=z),
        attempts,
        st.sampled_from([KINDS, KINDS, KINDS[:1], ()]),
        small,
        small,
        st.sampled_from([SIZES, SIZES, SIZES[:1], SIZES[1:]]),
    ),
]
QUEUE = [
    call(lambda b, n, ts: lambda tx: tx.queue.enqueue(b, n, ts), branches, names, tasks),
    call(lambda b, n, k: lambda tx: tx.queue.drop_demands(b, n, digests(k)), branches, names, numbers),
    call(lambda b, ns: lambda tx: tx.queue.retry(b, ns), branches, st.lists(names, max_size=2)),
    call(lambda b, ns, k: lambda tx: tx.queue.retry(b, ns, digests(k)), branches, st.lists(names, max_size=2), numbers),
    *CLAIMS,
    call(lambda a, ns: lambda tx: tx.queue.finish(a, digests(ns)), attempts, numbers),
    call(lambda a, n: lambda tx: tx.queue.fail(a, d(n), error()), attempts, small),
    call(
        lambda a, ns, t, b: lambda tx: tx.queue.release(digests(ns), attempt=a, not_before=t, error=error(), burn=b),
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
    call(lambda ns, b: lambda tx: tx.events.put([event(str(n), n, b) for n in ns]), numbers, told_in),
    call(lambda n, e: lambda tx: tx.drivers.put(driver(str(n), ended=e)), small, st.booleans()),
    call(lambda n, r: lambda tx: tx.access.put_token(token(str(n), revoked=r)), small, st.booleans()),
    call(lambda n, t: lambda tx: tx.access.touch_token(str(n), t), small, times),
    call(lambda b, n, t: lambda tx: tx.audit.put_reads([read(n, b, at=t)]), branches, names, times),
    call(lambda t, n: lambda tx: tx.audit.drop_reads(t, n), times, small),
    call(
        lambda n, b, d, t, s, k: (
            lambda tx: tx.past_attempts.put([past(str(n), branch=b, dataset=d, ended_at=t, seconds=s, outcome=k)])
        ),
        st.integers(0, 9),
        told_in,
        names,
        times,
        st.sampled_from([None, 0.5, 2.0]),
        st.sampled_from(["done", "done", "failed"]),
    ),
]
SESSIONS = [
    call(lambda n, t: lambda tx: tx.access.put_browser_session(browser_session(n, ends=t)), small, times),
    call(lambda n: lambda tx: tx.access.drop_browser_session(d(n)), small),
    call(lambda t: lambda tx: tx.access.drop_browser_sessions(t), times),
]
ALERTS = [
    call(lambda b, n, t: lambda tx: tx.alerts.put([alert(n, b, told=tuple(map(str, t)))]), branches, names, numbers),
    call(lambda b, n: lambda tx: tx.alerts.drop([alert(n, b)]), branches, names),
    call(lambda n, b, t: lambda tx: tx.alerts.put_messages([message(str(n), b, tries=t)]), small, branches, small),
    call(lambda ns: lambda tx: tx.alerts.drop_messages(map(str, ns)), numbers),
]
COLLECTED = [
    call(lambda n, t: lambda tx: tx.upkeep.drop_nodes([d(n)], t), small, times),
    call(
        lambda b, n, s, g: lambda tx: tx.upkeep.drop_states([Expired(b, n, s, g, 2e9)]), branches, names, small, small
    ),
    call(lambda n, t: lambda tx: tx.upkeep.drop_builds([d(n)], t), small, times),
    call(lambda: lambda tx: tx.upkeep.drop_done(99)),
    call(lambda n, t: lambda tx: tx.events.drop(t, n), small, times),
    call(lambda t: lambda tx: tx.audit.drop_answers(t, 99), times),
    call(lambda t: lambda tx: tx.drivers.drop(t, 99), times),
    call(lambda t: lambda tx: tx.past_attempts.drop(t, 99), times),
    call(lambda: lambda tx: (tx.upkeep.begin_collection(), tx.upkeep.collections())),
]


GROUPS = {
    "alerts": ALERTS,
    "all": [*ALERTS, *SESSIONS, *QUEUE, *DESIRED, *SETTLED, *REMEMBERED, *NOTED, *COLLECTED],
    "collected": [*COLLECTED, *QUEUE[:1], *SETTLED, *REMEMBERED, *NOTED],
    "desired": [*DESIRED, *NOTED],
    "queue": [*QUEUE, *QUEUE[:1] * 3, *CLAIMS * 2],
    "remembered": REMEMBERED,
    "sessions": SESSIONS,
    "settled": SETTLED,
}
FILLED: tuple[Call, ...] = (
    lambda tx: tx.queue.enqueue("main", "flights.a", tasks_of([0, 1], 0, "list", 1, 0.0)),
    lambda tx: tx.queue.claim("a1", "driver", KINDS, max_tasks=9, max_bytes=9, lease_s=5),
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
        [tx.events.cursor(n) for n in ("flights", "flights.a", "flights.b", "other.a")],
        [(tx.states.newest(b), tx.states.newest(b, ["flights.a"]), tx.blueprints.forces(b)) for b in ASKED],
        [tx.states.history(b, "flights.a", n, before) for b in ASKED for n in (1, 9) for before in (None, 2)],
        [tx.states.find(b, "flights.a", point) for b in ASKED for point in POINTS],
        [tx.states.oldest(b, name) for b in ASKED for name in ("flights.a", "other.a")],
        tx.branches.all(),
        [tx.links.all(), tx.links.get("1")],
        [tx.access.browser_session(d(n)) for n in range(4)],
        [tx.shares.all(), *(tx.shares.tables(str(n)) for n in range(4))],
        [tx.blueprints.revision(b, "flights", n) for b in ASKED for n in range(4)],
        [tx.states.recent(b, some, n) for b in ASKED for some in (None, ["flights.a", "x"]) for n in (1, 2)],
        [(tx.states.unfinished(b), tx.states.unfinished(b, ["flights.a"])) for b in ("main", "dev")],
        [sorted(tx.states.settled(b, SETTLED_ASKED), key=lambda state: (state.dataset, state.seq)) for b in ASKED],
        [(tx.blueprints.paused(b), tx.states.problems(b), tx.states.pinned_schemas(b, ["flights.a"])) for b in ASKED],
        tx.audit.changes("main", 3),
        [tx.audit.answer(str(n)) for n in range(4)],
        [tx.nodes.get_nodes(ALL), tx.listings.get(ALL), tx.traces.memos(ALL), tx.queue.jobs(ALL)],
        [tx.listings.partitions(k, map(str, range(4))) for k in ALL],
        [
            (tx.projections.publications(b), tx.projections.publications(b, ["flights.a"]), tx.projections.targets(b))
            for b in ASKED
        ],
        tx.projections.branch_publications(),
        [
            tx.traces.hits(ALL),
            tx.traces.fragments(ALL),
            tx.traces.last(),
            tx.traces.remembered(ALL, ALL),
            tx.traces.profiles(ALL),
        ],
        [
            tx.queue.tasks(ALL),
            tx.queue.backlog(),
            tx.queue.backlog(["large"]),
            tx.queue.attempts(),
            [tx.queue.demanding(k) for k in ALL],
        ],
        [tx.queue.branches_of(ALL), tx.queue.branches_of([]), [tx.queue.demand_counts(b) for b in ASKED]],
        [tx.queue.demands(b, n) for b in ("main", "dev") for n in ("flights", "flights.a", "flights.b", "other.a")],
        [tx.traces.referenced_attempts(["a1", "attempt-1", "attempt-2", "x"])],
        [tx.events.newer(None, 0), tx.events.newer("main", 1, 2), tx.events.last(), tx.audit.changes("dev")],
        [tx.events.count(b, 1, flows) for b in ("main", "dev") for flows in (None, ["other"], ["flights"])],
        [tx.events.of_kind("main", kind, since) for kind in ("0", "1") for since in (999.0, 1000.0)],
        [tx.past_attempts.newest(b, ["flights.a", "flights.b"], limit=3) for b in ("main", "dev", "")],
        [tx.past_attempts.newest("main", ended=(0.0, 1000.0)), sorted(tx.past_attempts.find(["1", "2", "x"]))],
        [dict(tx.past_attempts.costs(b, ["flights.a", "flights.b", "x"])) for b in ("main", "dev")],
        [(tx.alerts.all(b), tx.alerts.messages(b)) for b in ("main", "dev")],
        [tx.drivers.running(), tx.access.tokens(), tx.access.token(token("1").hash)],
        [tx.audit.reads(b, 3) for b in (None, "main", "dev")],
        [tx.audit.reads(None, 9, since=999.0, until=1000.0)],
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
    upgrade(url)
    made = [open_store(u, clock=lambda: 1000.0) for u in ("memory:", url)]
    yield made
    for store in made:
        store.close()


@pytest.mark.parametrize("group", GROUPS)
@settings(max_examples=settings().max_examples // 6)
@given(data=st.data())
def test_memory_and_sqlite_answer_alike(twins: list[Store], group: str, data: st.DataObject) -> None:
    namespace = uuid.uuid4().hex
    memory, sqlite = (World(store, namespace) for store in twins)
    some = st.lists(st.one_of(*GROUPS[group]), min_size=12, max_size=30)
    script = data.draw(st.lists(st.tuples(some, rarely), min_size=2, max_size=3))
    for calls, is_abandoned in [(list(FILLED), False), *script]:
        assert play(memory, calls, is_abandoned) == play(sqlite, calls, is_abandoned)
    with memory.read() as ours, sqlite.read() as theirs:
        assert look(ours) == look(theirs)
