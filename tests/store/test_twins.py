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
from dataplane.contract.kinds import Kind
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
    ns: list[int], priority: int, kind: str, size_bytes: int, not_before: float, size: Size = "standard"
) -> list[Any]:
    more = {"priority": priority, "kind": kind, "size_bytes": size_bytes, "not_before": not_before, "size": size}
    return [task(n, job=d(n % 2), **more) for n in ns]


tasks = st.builds(tasks_of, numbers, small, st.sampled_from(KINDS), small, times, st.sampled_from(SIZES))

DESIRED = [
    call(
        lambda b, f, n, e: lambda tx: tx.put_revision(revision(n, f, uids={str(n): f}, branch=b), e),
        branches,
        flows,
        small,
        small | st.none(),
    ),
    call(
        lambda b, f: lambda tx: tx.put_revision(revision(tx.last_number(b, f) + 1, f, branch=b), None), branches, flows
    ),
    call(lambda b, f: lambda tx: tx.delete_dataflow(b, f), branches, flows),
    call(lambda b, n, p: lambda tx: tx.set_paused(b, n, p), branches, names, st.booleans()),
    call(lambda b, n, s: lambda tx: tx.put_hold(hold(n, branch=b, seq=s)), branches, names, small),
    call(lambda b, ns: lambda tx: tx.drop_holds(b, ns), branches, st.lists(names, max_size=2)),
    call(lambda n, e: lambda tx: tx.move_cursor(n, e), names, small),
    call(lambda b, ns: lambda tx: tx.force(b, ns), branches, st.lists(names, max_size=2)),
    call(lambda b, n, k: lambda tx: tx.bring_forces(b, {n: k}), branches, names, st.integers(1, 4)),
    call(lambda n, b: lambda tx: tx.put_change(change(str(n), b)), small, told_in),
    call(lambda n, s, p: lambda tx: tx.create_branch(branch(n, source=s, pinned=p)), others, branches, st.booleans()),
    call(lambda n: lambda tx: tx.pin_now(n), others),
    call(lambda n, p: lambda tx: tx.put_branch(branch(n, protected=p)), others, st.booleans()),
    call(lambda n: lambda tx: tx.drop_branch(n), others),
    call(lambda ns: lambda tx: tx.share("dev", ns), st.lists(names, max_size=2)),
    call(lambda f: lambda tx: tx.share_dataflows("dev", [f]), flows),
    call(lambda n, r: lambda tx: tx.put_link(link(str(n), revoked=r, at=float(n % 2))), small, st.booleans()),
    call(lambda n: lambda tx: tx.put_share(share(f"s{n}", id=str(n))), small),
    call(lambda n: lambda tx: tx.drop_share(share(f"s{n}", id=str(n))), small),
    call(lambda n, s: lambda tx: tx.put_shared_table(shared_table(f"t{n}", str(s))), small, small),
    call(lambda n, s: lambda tx: tx.drop_shared_table(shared_table(f"t{n}", str(s))), small, small),
    call(lambda n: lambda tx: tx.put_answer(Answer(str(n), d(n), 200, "")), small),
]
SETTLED = [
    call(lambda b, n, s: lambda tx: tx.commit_state(state(s + 1, n, branch=b), s), branches, names, small),
    call(lambda n, e: lambda tx: tx.set_problem("main", n, error(str(e)) if e else None), names, small),
    call(lambda b, n, s: lambda tx: tx.commit_state(state(s + 1, n, branch=b), s), branches, names, small),
    call(lambda n: lambda tx: tx.create_branch(branch(n)), others),
    call(lambda b, n, s: lambda tx: tx.pin_schema(b, n, Pin(d(s), SCHEMA)), branches, names, small),
    call(lambda ns: lambda tx: tx.share("dev", ns), st.lists(names, max_size=2)),
    call(lambda n, r, s: lambda tx: tx.put_listing(listing(n, requested=r, served=s)), small, small, small),
    call(
        lambda p, c, g: (
            lambda tx: tx.put_source_partitions(d(p), [source_partition(str(k), p) for k in c], map(str, g))
        ),
        small,
        st.sets(small),
        numbers,
    ),
    call(lambda ns: lambda tx: tx.put_nodes({d(n): str(ns).encode() for n in ns}), numbers),
    call(lambda b, g, n: lambda tx: tx.put_publication(replace(publication(g, n), branch=b)), branches, small, names),
    call(lambda b, n: lambda tx: tx.drop_publication(b, n), branches, names),
    call(lambda b, n, s: lambda tx: tx.put_begun(begun(n, branch=b, states={"é": s})), branches, names, small),
    call(lambda b, ns: lambda tx: tx.drop_begun(b, ns), branches, st.lists(names, max_size=2)),
    call(lambda n, g, o: lambda tx: tx.put_target(replace(target(n, g), order=o, wish=d(o))), names, small, small),
]
REMEMBERED = [
    call(
        lambda ts, out, fs, status: (
            lambda tx: tx.put_traces([trace(t, *out) for t in ts], [fragment(f, status=status) for f in fs])
        ),
        numbers,
        st.lists(small, max_size=2),
        numbers,
        statuses,
    ),
    call(lambda k, n: lambda tx: tx.put_build_trace(d(k), d(n), SCHEMA), small, small),
    call(lambda k, n: lambda tx: tx.put_memo(d(k), {"schema": n}), small, small),
    call(lambda k, n: lambda tx: tx.put_memos({d(k): {"rows": n}, d(k + 1): {"rows": k}}), small, small),
    call(lambda ns: lambda tx: tx.forget_memos(digests(ns)), numbers),
    call(lambda ns, n: lambda tx: tx.put_profiles({d(x): str(n).encode() for x in ns}), numbers, small),
]
CLAIMS = [
    call(
        lambda a, k, n, s, z: lambda tx: tx.claim(a, "driver", k, max_tasks=n, max_bytes=s, lease_s=5, sizes=z),
        attempts,
        st.sampled_from([KINDS, KINDS, KINDS[:1], ()]),
        small,
        small,
        st.sampled_from([SIZES, SIZES, SIZES[:1], SIZES[1:]]),
    ),
]
QUEUE = [
    call(lambda b, n, ts: lambda tx: tx.enqueue(b, n, ts), branches, names, tasks),
    call(lambda b, n, k: lambda tx: tx.drop_demands(b, n, digests(k)), branches, names, numbers),
    call(lambda b, ns: lambda tx: tx.retry(b, ns), branches, st.lists(names, max_size=2)),
    call(lambda b, ns, k: lambda tx: tx.retry(b, ns, digests(k)), branches, st.lists(names, max_size=2), numbers),
    *CLAIMS,
    call(lambda a, ns: lambda tx: tx.finish(a, digests(ns)), attempts, numbers),
    call(lambda a, n: lambda tx: tx.fail(a, d(n), error()), attempts, small),
    call(
        lambda a, ns, t, b: lambda tx: tx.release(digests(ns), attempt=a, not_before=t, error=error(), burn=b),
        attempts,
        numbers,
        times,
        st.booleans(),
    ),
    call(lambda a: lambda tx: tx.extend("driver", [a], 7), attempts),
    call(lambda a: lambda tx: tx.end_attempt(a), attempts),
    call(lambda n: lambda tx: tx.put_job(d(n), stored_job(n=n)), small),
]
NOTED = [
    call(lambda ns, b: lambda tx: tx.put_events([event(str(n), n, b) for n in ns]), numbers, told_in),
    call(lambda n, e: lambda tx: tx.put_driver(driver(str(n), ended=e)), small, st.booleans()),
    call(lambda n, r: lambda tx: tx.put_token(token(str(n), revoked=r)), small, st.booleans()),
    call(lambda n, t: lambda tx: tx.touch_token(str(n), t), small, times),
    call(lambda b, n, t: lambda tx: tx.put_reads([read(n, b, at=t)]), branches, names, times),
    call(lambda t, n: lambda tx: tx.drop_reads(t, n), times, small),
    call(
        lambda n, b, d, t, s, k: (
            lambda tx: tx.put_past_attempts([past(str(n), branch=b, dataset=d, ended_at=t, seconds=s, outcome=k)])
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
    call(lambda n, t: lambda tx: tx.put_browser_session(browser_session(n, ends=t)), small, times),
    call(lambda n: lambda tx: tx.drop_browser_session(d(n)), small),
    call(lambda t: lambda tx: tx.drop_browser_sessions(t), times),
]
ALERTS = [
    call(lambda b, n, t: lambda tx: tx.put_alerts([alert(n, b, told=tuple(map(str, t)))]), branches, names, numbers),
    call(lambda b, n: lambda tx: tx.drop_alerts([alert(n, b)]), branches, names),
    call(lambda n, b, t: lambda tx: tx.put_messages([message(str(n), b, tries=t)]), small, branches, small),
    call(lambda ns: lambda tx: tx.drop_messages(map(str, ns)), numbers),
]
COLLECTED = [
    call(lambda n, t: lambda tx: tx.drop_nodes([d(n)], t), small, times),
    call(lambda b, n, s, g: lambda tx: tx.drop_states([Expired(b, n, s, g, 2e9)]), branches, names, small, small),
    call(lambda n, t: lambda tx: tx.drop_builds([d(n)], t), small, times),
    call(lambda: lambda tx: tx.drop_done(99)),
    call(lambda n, t: lambda tx: tx.drop_events(t, n), small, times),
    call(lambda t: lambda tx: tx.drop_answers(t, 99), times),
    call(lambda t: lambda tx: tx.drop_drivers(t, 99), times),
    call(lambda t: lambda tx: tx.drop_past_attempts(t, 99), times),
    call(lambda: lambda tx: (tx.begin_collection(), tx.collections())),
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
    lambda tx: tx.enqueue("main", "flights.a", tasks_of([0, 1], 0, "list", 1, 0.0)),
    lambda tx: tx.claim("a1", "driver", KINDS, max_tasks=9, max_bytes=9, lease_s=5),
)
ALL = [d(n) for n in range(4)]
POINTS = (None, Generation(1), Generation(2), Moment(1_000_000_000_250))
ASKED = ("main", "dev", "try")
SETTLED_ASKED = [("flights.a", 1), ("flights.a", 2), ("flights.b", 1), ("x.y", 1)]


def look(tx: Tx) -> list[object]:
    """Everything that can be asked."""
    everything: list[object] = [
        [tx.known_uids(b, f) for b in ASKED for f in ("flights", "other")],
        [tx.last_number(b, f) for b in ASKED for f in ("flights", "other")],
        [(tx.revisions(b), tx.revisions(b, ["other"]), tx.own_dataflows(b), tx.own_datasets(b)) for b in ASKED],
        [tx.holds(b) for b in ASKED],
        [tx.cursor(n) for n in ("flights", "flights.a", "flights.b", "other.a")],
        [(tx.states(b), tx.states(b, ["flights.a"]), tx.forces(b)) for b in ASKED],
        [tx.history(b, "flights.a", n, before) for b in ASKED for n in (1, 9) for before in (None, 2)],
        [tx.state_of(b, "flights.a", point) for b in ASKED for point in POINTS],
        [tx.oldest_state(b, name) for b in ASKED for name in ("flights.a", "other.a")],
        tx.branches(),
        [tx.links(), tx.link("1")],
        [tx.browser_session(d(n)) for n in range(4)],
        [tx.shares(), *(tx.shared_tables(str(n)) for n in range(4))],
        [tx.revision(b, "flights", n) for b in ASKED for n in range(4)],
        [tx.recent_states(b, some, n) for b in ASKED for some in (None, ["flights.a", "x"]) for n in (1, 2)],
        [(tx.unfinished(b), tx.unfinished(b, ["flights.a"])) for b in ("main", "dev")],
        [sorted(tx.settled(b, SETTLED_ASKED), key=lambda state: (state.dataset, state.seq)) for b in ASKED],
        [(tx.paused(b), tx.problems(b), tx.pinned_schemas(b, ["flights.a"])) for b in ASKED],
        tx.changes("main", 3),
        [tx.answer(str(n)) for n in range(4)],
        [tx.get_nodes(ALL), tx.listings(ALL), tx.memos(ALL), tx.jobs(ALL)],
        [tx.source_partitions(k, map(str, range(4))) for k in ALL],
        [(tx.publications(b), tx.publications(b, ["flights.a"]), tx.targets(b)) for b in ASKED],
        tx.branch_publications(),
        [tx.traces(ALL), tx.fragments(ALL), tx.last_trace(), tx.remembered(ALL, ALL), tx.profiles(ALL)],
        [tx.tasks(ALL), tx.backlog(), tx.backlog(["large"]), tx.attempts(), [tx.demanding(k) for k in ALL]],
        [tx.branches_of(ALL), tx.branches_of([]), [tx.demand_counts(b) for b in ASKED]],
        [tx.demands(b, n) for b in ("main", "dev") for n in ("flights", "flights.a", "flights.b", "other.a")],
        [tx.referenced_attempts(["a1", "attempt-1", "attempt-2", "x"])],
        [tx.events(None, 0), tx.events("main", 1, 2), tx.last_event(), tx.changes("dev")],
        [tx.count_events(b, 1, flows) for b in ("main", "dev") for flows in (None, ["other"], ["flights"])],
        [tx.events_of("main", kind, since) for kind in ("0", "1") for since in (999.0, 1000.0)],
        [tx.past_attempts(b, ["flights.a", "flights.b"], limit=3) for b in ("main", "dev", "")],
        [tx.past_attempts("main", ended=(0.0, 1000.0)), sorted(tx.find_past_attempts(["1", "2", "x"]))],
        [dict(tx.past_costs(b, ["flights.a", "flights.b", "x"])) for b in ("main", "dev")],
        [(tx.alerts(b), tx.messages(b)) for b in ("main", "dev")],
        [tx.drivers(), tx.tokens(), tx.token(token("1").hash)],
        [tx.reads(b, 3) for b in (None, "main", "dev")],
        [tx.reads(None, 9, since=999.0, until=1000.0)],
        [sorted(map(str, tx.pointers())), sorted(map(str, tx.spans())), tx.node_digests(b"", 99), tx.collections()],
        [sorted(tx.builds(2000.0)), tx.stored(ALL), sorted(tx.loose_outputs()), list(tx.loose_heads())],
        [[(f.attempt, f.files) for f in tx.files()]],
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
