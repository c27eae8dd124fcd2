"""Thousands of commits of one change each: with collections, the database stays as large as what it
serves."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from controlplane.core.model.access import StoredAnswer
from controlplane.operations.upkeep.collect import collect
from controlplane.ports.store import Store
from controlplane.store import open_store, upgrade
from controlplane.store.sql.tables import metadata
from tests.store.conftest import World
from tests.store.examples import d, driver, event, stored_job, task, token
from tests.store.planner import FRAGMENTS, Plan, check_everything, entry, remember

DATASET = "flights.daily"
PARTITIONS, STRIDE = 1200, 517  # changes are spread over all leaves
COMMIT_S = 900.0  # between commits
DAYS = 0.5  # for which generations are kept: 48 of them


@dataclass(frozen=True)
class Size:
    """What the database holds after a collection, and what a commit before it cost."""

    rows: Mapping[str, int]
    pages: int
    statements: frozenset[int]


class Churn:
    """One dataset in one database, and whatever else a commit brings with it."""

    def __init__(self, folder: Path) -> None:
        self._path, self._clock = folder / "metadata.db", 1_000_000.0
        upgrade(f"sqlite:///{self._path}")
        self.store: Store = open_store(f"sqlite:///{self._path}", lambda: self._clock)
        self.world = World(self.store, "default")
        self._commits = 0
        with self.world.begin() as tx:
            remember(tx)
        assert Plan(
            self.world, DATASET, d(0), ((f"{i:07}", entry(f"{i:07}", i)) for i in range(PARTITIONS))
        ).commit()

    def commit(self) -> int:
        """Change one partition; how many statements it took."""
        self._commits += 1
        self._clock += COMMIT_S
        number, before = self._commits, self.store.statements
        key = f"{number * STRIDE % PARTITIONS:07}"
        self._work(number)
        new = entry(key, number + 1 + number // PARTITIONS)
        assert Plan(self.world, DATASET, d(10_000 + number), [(key, new)]).commit()
        return self.store.statements - before

    def _work(self, number: int) -> None:
        """A task from its demand to its end, a driver's life, a request with a key."""
        job = d(-1 - number)
        with self.world.begin() as tx:
            tx.queue.put_job(job, stored_job(number=number))
            tx.queue.enqueue("main", DATASET, [task(10_000 + number, job=job)])
            tx.queue.claim(f"attempt-{number}", "driver", ["transform"], max_tasks=1, lease_s=9)
            tx.queue.finish(f"attempt-{number}", [d(10_000 + number)])
            tx.queue.end_attempt(f"attempt-{number}")
            tx.queue.drop_demands("main", DATASET)
            tx.events.put([event("dataset.committed")])
            tx.audit.put_answer(StoredAnswer(str(number), d(number), 200, "{}"))
            tx.drivers.put(driver(f"driver-{number}", ended=True, seen=self._clock))
            tx.access.put_token(
                token(f"{number}", scopes=("driver",), expires=None, subject=f"driver-{number}")
            )

    def collect(self, statements: frozenset[int]) -> Size:
        found = collect(self.store, "default", generations=30, days=DAYS)
        assert found.nodes > 0
        with sqlite3.connect(self._path) as db:
            (pages,) = db.execute("PRAGMA page_count").fetchone()
            rows = {
                t: db.execute(f"SELECT count(*) FROM {t}").fetchone()[0] for t in metadata.tables
            }
        db.close()
        return Size(rows, pages, statements)


@pytest.mark.parametrize(
    ("commits", "every"),
    [(500, 100), pytest.param(10_000, 1000, marks=pytest.mark.soak, id="10000")],
)
def test_the_database_stays_as_large_as_what_it_serves(
    tmp_path: Path, commits: int, every: int
) -> None:
    churn = Churn(tmp_path)
    sizes = [
        churn.collect(frozenset(churn.commit() for _ in range(every)))
        for _ in range(commits // every)
    ]
    first, *later = sizes[1:]  # from the second one on there is as much to drop as was added
    assert all(size.statements == first.statements for size in later)
    assert all(size.rows == first.rows for size in later), [size.rows for size in later]
    assert all(size.pages <= 1.01 * first.pages for size in later), [size.pages for size in sizes]
    assert first.rows["states"] < 60
    assert check_everything(churn.world) == first.rows["nodes"]
    assert first.rows["fragments"] == FRAGMENTS
    churn.store.close()
