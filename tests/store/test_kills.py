"""kill -9 at every step of what is done with branches: a process of its own dies, and all of it is
there, or nothing.

Does not belong here: the loop and drivers that are killed (`hostile.test_kills`,
`e2e.test_crashes`).
"""

from __future__ import annotations

import multiprocessing
import shutil
import signal
import uuid
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from controlplane.core.errors import BranchExists, MergeConflict, NotFound
from controlplane.core.model.addresses import Generation
from controlplane.core.model.branches import MAIN
from controlplane.operations.context import Context
from controlplane.operations.desired import branches, rollback
from controlplane.operations.upkeep.fsck import fsck
from controlplane.store import open_store
from controlplane.store.sql import tables
from dataplane.contract.kinds import Kind
from tests.slices import sliced
from tests.store import killed
from tests.store.conftest import STORES
from tests.unit.branches.world import BranchWorld

DOUBLED = "  doubled:\n    transform: {{sql: 'SELECT k, {factor} * v AS v FROM orders'}}\n"
SUMS = "  sums:\n    transform: {sql: 'SELECT k, sum(v) AS v FROM doubled GROUP BY k'}\n"
OTHER = "  other:\n    transform: {{sql: 'SELECT k, v + {plus} AS v FROM orders'}}\n"
EACH, FAR = 12, 24  # steps from one kill to the next; runs of other commits begin at other steps
TURNS = 3


def text(factor: int, plus: int) -> str:
    return DOUBLED.format(factor=factor) + SUMS + OTHER.format(plus=plus)


def begin(home: Path, url: str | None) -> BranchWorld:
    """Main and four branches that differ, all at rest. `dev` and `try` have edited the same
    component."""
    home.mkdir(exist_ok=True)
    made = BranchWorld(home, url=url)
    made.apply(text(2, 1))
    for name, row in (("a.csv", (1, 10)), ("b.csv", (1, 20))):
        made.put(name, row)
        made.settle()
    branches.create(made.ctx, "old", pinned=True)
    for name in ("dev", "try", "safe"):
        branches.create(made.ctx, name)
    edit(made)
    rollback.rollback(made.ctx, MAIN, "shop.sums", Generation(1))
    made.settle()
    return made


def edit(world: BranchWorld) -> None:
    """Main is the last, so it has moved on from what the branches know."""
    for name, edited in (
        ("dev", text(3, 1)),
        ("try", text(4, 1)),
        ("safe", text(2, 7)),
        ("old", text(6, 1)),
    ):
        world.apply_in(name, edited)
    world.apply(text(2, 5))


@pytest.fixture
def world(empty_database: Callable[[], str], tmp_path: Path) -> Iterator[BranchWorld]:
    made = begin(tmp_path, empty_database())
    yield made
    made.store.close()


def url_of(world: BranchWorld) -> str:
    found: str = world.store._engines.writer.url.render_as_string(hide_password=False)  # type: ignore[attr-defined]
    return found


def server() -> Any:
    """Processes are children of a small one, so nothing of this process's threads and locks comes
    along."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.store.killed"])
    return context


def dies_at(url: str, now: float, operation: str, at: int) -> int:
    """Run it in a process that is killed at this step; 0 if the operation came to its end before.
    `at` 0: killed at its first commit; the step that this is."""
    context = server()
    told = context.SimpleQueue()
    process = context.Process(target=killed.perform, args=(url, now, operation, at, told))
    process.start()
    process.join()
    assert process.exitcode in (0, -signal.SIGKILL)
    return (at or told.get()) if process.exitcode else 0


def everything(world: BranchWorld) -> dict[str, list[tuple[Any, ...]]]:
    """All rows of all tables."""
    with world.store._engines.reader.connect() as connection:  # type: ignore[attr-defined]
        found = {
            table.name: connection.execute(select(table)).fetchall()
            for table in tables.metadata.sorted_tables
        }
    return {name: sorted(map(tuple, rows), key=repr) for name, rows in found.items()}


def shown(world: BranchWorld) -> dict[str, object]:
    """What users see of main and of each branch."""
    found: dict[str, object] = {}
    with world.store.read() as tx:
        names = [MAIN, *sorted(tx.branches.all())]
        for name in names:
            texts = {
                flow: one.text.replace(str(world.home), "")
                for flow, one in tx.blueprints.revisions(name).items()
            }
            holds = {dataset: hold.generation for dataset, hold in tx.states.holds(name).items()}
            found[name] = (
                texts,
                holds,
                tx.branches.own_dataflows(name),
                tx.branches.own_datasets(name),
            )
    return found | {f"rows of {name}": rows(world, name) for name in names}


def rows(world: BranchWorld, branch: str) -> dict[str, object]:
    return {name: (n, world.values(branch, name)) for name, n in world.generations(branch).items()}


MERGES = ("merge", "rollback of a dataflow")
OTHERS = (
    "merge into a branch",
    "rollback",
    "rollback in a branch",
    "resume",
    "revert",
    "create",
    "update",
    "delete",
)
AGAIN = {"create": BranchExists, "delete": NotFound}  # what one is told who asks for it once more


# Of the others some are part of every run: they are transactions of the same kind. So are steps
# between others.
@pytest.mark.parametrize("first", sliced(range(1, EACH + 1), EACH))
@pytest.mark.parametrize("operation", [*MERGES, *sliced(OTHERS, 4)])
def test_all_of_it_is_there_or_nothing(
    world: BranchWorld, operation: str, first: int, tmp_path: Path
) -> None:
    url, before = url_of(world), everything(world)
    commit = dies_at(url, world.now, operation, 0)
    for at in (*range(first, commit - 1, EACH), commit - 1, commit):
        assert everything(world) == before, f"it died before step {at}"
        assert dies_at(url, world.now, operation, at)
    assert everything(world) == before, "it died before it was committed"
    assert dies_at(url, world.now, operation, commit + 1)
    assert everything(world) != before
    with pytest.raises(AGAIN[operation]) if operation in AGAIN else nullcontext():
        killed.OPERATIONS[operation](world.ctx)
    undisturbed = begin(tmp_path / "undisturbed", None)
    killed.OPERATIONS[operation](undisturbed.ctx)
    assert world.settle() == undisturbed.settle()
    assert shown(world) == shown(undisturbed)
    assert fsck(world.store, "default") == ()


@pytest.mark.parametrize("first", sliced(range(1, FAR + 1), FAR))
@pytest.mark.parametrize("operation", MERGES)
def test_data_follows_whoever_dies_on_the_way(operation: str, first: int, tmp_path: Path) -> None:
    """The loop after a merge or a rollback: nothing else is computed than by one that lives."""
    world = begin(tmp_path, f"sqlite:///{tmp_path}/metadata.db")
    killed.OPERATIONS[operation](world.ctx)
    world.store.close()
    undisturbed = begin(tmp_path / "undisturbed", None)
    killed.OPERATIONS[operation](undisturbed.ctx)
    killed.follow(undisturbed.ctx)
    at, has_died = first, True
    while has_died:
        url = f"sqlite:///{tmp_path}/{at}.db"
        shutil.copy(tmp_path / "metadata.db", tmp_path / f"{at}.db")
        has_died = bool(dies_at(url, world.now, "follow", at))
        world.store = open_store(url, lambda: world.now)
        killed.follow(Context(world.store, lake="memory:lake"))
        assert shown(world) == shown(undisturbed), f"step {at}"
        assert queued(world) == queued(undisturbed), f"step {at}"
        assert fsck(world.store, "default") == ()
        world.store.close()
        at += FAR
    assert at > 3 * FAR


def queued(world: BranchWorld) -> dict[Kind, int]:
    with world.store.read() as tx:
        return {kind: n for kind, n in tx.queue.backlog().items() if n}


# --- two at once ----------------------------------------------------------------------------------------


@pytest.fixture(params=STORES)
def met(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[BranchWorld]:
    urls: dict[str, Callable[[], str]] = {
        "sqlite": lambda: f"sqlite:///{tmp_path}/metadata.db",
        "postgresql": lambda: request.getfixturevalue("postgres").create(f"t{uuid.uuid4().hex}"),
    }
    made = begin(tmp_path, urls[request.param]())
    yield made
    made.store.close()


def at_once(world: BranchWorld, *operations: str) -> dict[str, str]:
    """How each ended."""
    context = server()
    told, together = context.SimpleQueue(), context.Barrier(len(operations))
    args = [(url_of(world), world.now, operation, together, told) for operation in operations]
    processes = [context.Process(target=killed.compete, args=one) for one in args]
    for process in processes:
        process.start()
    found = dict(told.get() for _ in processes)
    for process in processes:
        process.join()
    return found


def test_of_two_merges_at_once_one_wins_and_the_other_is_told(met: BranchWorld) -> None:
    for _ in range(TURNS):
        ended = at_once(met, "merge", "merge of another")
        winner, loser = sorted(ended, key=lambda one: ended[one] != "done")
        assert ended[winner] == "done"
        assert ended[loser] in ("stale-revision", "merge-conflict")
        factor = {"merge": 3, "merge of another": 4}[winner]
        with met.store.read() as tx:
            assert f"{factor} * v" in tx.blueprints.revisions(MAIN)["shop"].text
            assert "v + 5" in tx.blueprints.revisions(MAIN)["shop"].text
            left = {name for name in ("dev", "try") if tx.branches.own_dataflows(name)}
        assert left == {{"merge": "try", "merge of another": "dev"}[winner]}
        with pytest.raises(MergeConflict):
            killed.OPERATIONS[loser](met.ctx)
        met.apply(text(2, 1))
        for name in ("dev", "try"):
            branches.delete(met.ctx, name)
            branches.create(met.ctx, name)
        edit(met)
    assert fsck(met.store, "default") == ()


def test_of_one_merge_twice_at_once_one_wins(met: BranchWorld) -> None:
    ended = at_once(met, "merge", "merge again")
    assert "done" in ended.values()
    assert set(ended.values()) <= {"done", "stale-revision"}
    with met.store.read() as tx:
        assert tx.blueprints.last_number(MAIN, "shop") == 3


def test_two_branches_merge_into_each_other_at_once(met: BranchWorld) -> None:
    """Neither waits for what the other one has."""
    for turn in range(TURNS):
        met.apply_in("dev", text(3 + turn, 1))
        ended = at_once(met, "merge into a branch", "merge back")
        assert "done" in ended.values()
        assert set(ended.values()) <= {"done", "stale-revision"}
        killed.OPERATIONS["merge into a branch"](met.ctx)
        with met.store.read() as tx:
            found = {tx.blueprints.revisions(name)["shop"].text for name in ("dev", "safe")}
        assert len(found) == 1
        assert f"{3 + turn} * v" in found.pop()
