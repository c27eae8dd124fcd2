"""Truth and Thrift with branches: random runs that change main and its branches, compared with the
model of them.

A run edits, lets files come, change and go, makes branches that follow or are pinned, and branches
of branches; it merges, reverts, updates, rolls back, resumes, ends and collects. After each step
every dataset of every branch is what its text makes of the files that it sees, and only what nobody
had computed before was computed. Does not belong here: what is true (branch_model), which runs
there are and the faults that they have to find (test_branches).

    python -m tests.property.branching SEED [URL] [busy]
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from copy import deepcopy
from dataclasses import replace
from itertools import chain, combinations
from pathlib import Path
from typing import Any

from controlplane.core.errors import GenerationGone, MergeConflict
from controlplane.core.model.addresses import Generation, Moment
from controlplane.core.model.branches import MAIN
from controlplane.operations.desired import branches, controls, merging, revert, rollback
from controlplane.operations.inspect import time_travel
from controlplane.operations.planning.snapshot import plan_now
from controlplane.operations.upkeep.collect import collect
from controlplane.operations.upkeep.fsck import fsck
from tests.property.branch_model import (
    FIELDS,
    NAMES,
    Flow,
    Line,
    Main,
    Parts,
    Rows,
    Task,
    merged,
    rows_of,
)
from tests.unit.branches.world import BranchWorld

STEPS = 14
MOST = 4  # branches at a time
FILES = ("a.csv", "b.csv", "c.csv", "d.csv")
PLACES = ("b0", "b1", "b2", "b3", "b4")  # names of branches, which are given again


class Run:
    """One world from one seed."""

    def __init__(self, seed: int, world: BranchWorld) -> None:
        self.chance, self.told, self.world = random.Random(seed), list[str](), world
        self.files: dict[str, Rows] = {}
        self.main = Line([Flow()])
        self.lines: dict[str, Line] = {}  # of branches
        # Main when a step ended, under its names of now
        self.past: list[tuple[float, dict[str, Parts]]] = []
        self.kept: set[Task] = set()  # computed, and not to be done again
        self.known: set[Task] = set()  # computed once; what of it was collected, may be done again
        self.passing: set[Task] = set()  # may have been needed on the way
        self.joined: set[object] = set()  # work for `both` since the last collection
        self.has_collected = False
        world.apply(Flow().text)
        self.put()

    def go(self, steps: int = STEPS) -> None:
        self.settle()
        self.create()
        often: list[Callable[[], None]] = [self.edit, self.race, self.roll_back]
        seldom = [
            self.revert,
            self.put,
            self.withdraw,
            self.create,
            self.update,
            self.resume,
            self.end,
            self.collect,
        ]
        for _ in range(steps):
            self.chance.choice([*often, *often, self.merge, *seldom])()
            self.settle()
        self.mend()

    def mend(self) -> None:
        """Nothing is held any more: so all is known of each dataset."""
        for branch in self.names:
            self.resume_in(branch, "shop")
            self.settle()
        found = fsck(self.world.store, "default", self.world.lake)
        assert not found, found

    def tell(self, *words: object) -> None:
        self.told.append(" ".join(map(str, words)))

    # --- what there is

    @property
    def names(self) -> list[str]:
        return [MAIN, *self.lines]

    def line(self, branch: str) -> Line:
        return self.main if branch == MAIN else self.lines[branch]

    def mains(self, branch: str) -> Main:
        """Main as the branch sees it."""
        now = Main(len(self.main.texts) - 1, self.files, self.main.holds, self.main.seen)
        return self.line(branch).pin or now

    def flow(self, branch: str) -> Flow:
        texts = self.line(branch).texts
        return texts[-1] if texts else self.main.texts[self.mains(branch).last]

    def own(self, branch: str) -> set[str]:
        """Datasets that are not those of main."""
        if branch == MAIN:
            return set()
        flow, main = self.flow(branch), self.main.texts[self.mains(branch).last]
        theirs = main.codes
        edited = {d for d, code in flow.codes.items() if d not in theirs or theirs[d] != code}
        return flow.below(edited | self.line(branch).holds.keys())

    def held(self, branch: str) -> dict[str, Parts]:
        """What is held there, by whomever."""
        line, own = self.line(branch), self.own(branch)
        of_main = {} if branch == MAIN else self.mains(branch).holds
        found = {**{d: parts for d, parts in of_main.items() if d not in own}, **line.holds}
        return {d: parts for d, parts in found.items() if d in self.flow(branch).codes}

    def wanted(self, branch: str) -> tuple[dict[str, Parts], set[Task]]:
        return self.flow(branch).made_of(self.mains(branch).files, self.held(branch))

    # --- files

    def put(self) -> None:
        """A file comes, or is corrected."""
        name = self.chance.choice(FILES)
        rows = tuple(
            (self.chance.randint(1, 3), self.chance.randint(0, 9))
            for _ in range(self.chance.randint(1, 3))
        )
        self.tell("put", name, rows)
        self.files[name] = rows
        self.world.put(name, *rows)

    def withdraw(self) -> None:
        if len(self.files) > 1:
            name = self.chance.choice(sorted(self.files))
            self.tell("withdraw", name)
            del self.files[name]
            (self.world.home / "orders" / name).unlink()

    # --- branches

    def create(self) -> None:
        if len(self.lines) == MOST:
            return
        name = self.chance.choice([name for name in PLACES if name not in self.lines])
        source = self.chance.choice([MAIN, MAIN, *self.lines])
        is_pinned = self.chance.random() < 0.4
        place = f"/out/{name}-{len(self.told)}" if self.chance.random() < 0.3 else ""
        self.tell("create", name, "of", source, "pinned" if is_pinned else "", place)
        redirect = {"shop.copy": place} if place else {}
        branches.create(self.world.ctx, name, source=source, pinned=is_pinned, redirect=redirect)
        made = Line() if source == MAIN else deepcopy(self.lines[source])
        if made.pin is None and is_pinned:
            made.pin = self.pinned()
        made.place = place
        self.lines[name] = made

    def pinned(self) -> Main:
        return deepcopy(Main(len(self.main.texts) - 1, self.files, self.main.holds, self.main.seen))

    def update(self) -> None:
        pinned = sorted(name for name, line in self.lines.items() if line.pin)
        if not pinned:
            return
        name = self.chance.choice(pinned)
        self.tell("update", name)
        branches.update(self.world.ctx, name)
        line = self.lines[name]
        line.pin = self.pinned()
        if line.texts and line.texts[-1] == self.main.texts[-1]:
            line.texts.clear()

    def end(self) -> None:
        if self.lines:
            name = self.chance.choice(sorted(self.lines))
            self.tell("end", name)
            branches.delete(self.world.ctx, name)
            del self.lines[name]

    # --- edits and merges

    def edit(self) -> None:
        self.edit_in(self.chance.choice(self.names))

    def edit_in(self, branch: str) -> None:
        field_ = self.chance.choice(FIELDS)
        values: dict[str, tuple[Any, ...]] = {"name": NAMES, "owner": ("ann", "bob")}
        wish: dict[str, Any] = {field_: self.chance.choice(values.get(field_, (1, 2, 3, 4)))}
        before = self.flow(branch)
        after = replace(before, **wish)
        if after != before:
            self.tell("edit", branch, wish)
            self.world.apply_in(branch, after.text)
            self.store(branch, after)

    def store(self, branch: str, after: Flow) -> None:
        """A new text. It ends the holds of what it edits."""
        line, before = self.line(branch), self.flow(branch)
        if after == before:
            return
        if branch != MAIN and not line.texts:
            line.fork = self.mains(branch).last
        line.texts.append(after)
        for dataset in list(line.holds):
            if dataset in before.codes and after.codes.get(dataset, self) != before.codes[dataset]:
                del line.holds[dataset]
        if branch == MAIN and after.name != before.name:
            self.past.clear()

    def revert(self) -> None:
        """To any text that the branch has had, also while it was main."""
        branch = self.chance.choice(self.names)
        line = self.line(branch)
        known = self.main.texts[: (line.fork if line.texts else self.mains(branch).last) + 1]
        known = line.texts if branch == MAIN else [*known, *line.texts]
        number = self.chance.randint(1, len(known))
        self.tell("revert", branch, "to", number)
        revert.revert(self.world.ctx, branch, "shop", number)
        self.store(branch, known[number - 1])

    def merge(self) -> None:
        self.merge_of(self.chance.choice(self.names), self.chance.choice([MAIN, *self.names]))

    def race(self) -> None:
        """Two move apart, and come together."""
        source, into = self.chance.choice(self.names), self.chance.choice([MAIN, *self.names])
        for _ in range(2):
            self.edit_in(source)
            self.edit_in(into)
        self.settle()
        self.merge_of(source, into)

    def merge_of(self, source: str, into: str) -> None:
        if source in (MAIN, into):
            return
        self.tell("merge", source, "into", into)
        base, ours, theirs = self.base(source, into), self.flow(into), self.flow(source)
        expected = merged(base, ours, theirs) if self.lines[source].texts else ours
        try:
            merging.merge_branch(self.world.ctx, source, into)
        except MergeConflict:
            is_conflict = True
        else:
            is_conflict = False
        assert is_conflict == (expected is None), (
            "a conflict where there is none, or none where there is one"
        )
        if expected is None:
            return
        line = self.lines[source]
        self.store(into, expected)
        if into == MAIN and line.pin is None:
            line.texts.clear()
        elif into != MAIN and line.texts:
            self.store(source, expected)

    def base(self, source: str, into: str) -> Flow:
        """The newest text that both come from."""
        line, target = self.lines[source], self.line(into)
        if into == MAIN:
            theirs, last = self.main.texts[line.fork + 1 :], len(self.main.texts) - 1
        else:
            theirs, last = target.texts, target.fork if target.texts else self.mains(into).last
        common = [text for text in line.texts if text in theirs] if into != MAIN or line.pin else []
        return common[-1] if common else self.main.texts[min(line.fork, last)]

    # --- rolling back

    def roll_back(self) -> None:
        if self.chance.random() < 0.2:
            self.roll_all_back()
            return
        branch = self.chance.choice(self.names)
        dataset = self.chance.choice(sorted(self.flow(branch).codes))
        newest = self.world.generations(branch).get(dataset, 0)
        earlier = sorted(n for n in self.line(branch).seen.get(dataset, {}) if n < newest)
        if not earlier:
            return
        to = self.chance.choice(earlier)
        self.tell("roll back", branch, dataset, "to", to)
        try:
            rows = self.earlier_rows(branch, dataset, to)
            rollback.rollback(self.world.ctx, branch, dataset, Generation(to))
        except GenerationGone:
            assert self.has_collected
            return
        self.line(branch).holds[dataset] = rows

    def earlier_rows(self, branch: str, dataset: str, generation: int) -> Parts:
        return self.line(branch).seen[dataset][generation]

    def roll_all_back(self) -> None:
        """Main, to what it was when a step ended."""
        if not self.past:
            return
        at, datasets = self.chance.choice(self.past)
        self.tell("roll main back to", at)
        try:
            rollback.rollback(self.world.ctx, MAIN, "shop", Moment.of(at), force=True)
        except GenerationGone:
            assert self.has_collected
            return
        self.main.holds |= datasets

    def resume(self) -> None:
        held = [(name, dataset) for name in self.names for dataset in sorted(self.line(name).holds)]
        if not held:
            return
        branch, dataset = self.chance.choice(held)
        self.resume_in(branch, self.chance.choice([dataset, "shop"]))

    def resume_in(self, branch: str, target: str) -> None:
        """What goes on at the same time may read each other's held rows for a moment."""
        self.tell("resume", branch, target)
        controls.resume(self.world.ctx, branch, target)
        line = self.line(branch)
        left = {d: parts for d, parts in line.holds.items() if target not in (d, "shop")}
        released = line.holds.keys() - left.keys()
        held = line.holds
        for still in chain.from_iterable(
            combinations(sorted(released), n) for n in range(1, len(released))
        ):
            line.holds = left | {dataset: held[dataset] for dataset in still}
            self.passing |= self.all_wanted()
        line.holds = left

    def collect(self) -> None:
        self.tell("collect")
        collect(
            self.world.store,
            "default",
            now=self.clock() + 10.0,
            generations=1,
            days=0.0,
            grace_s=0.0,
        )
        self.kept = self.all_wanted()
        self.joined.clear()
        self.has_collected = True

    # --- what is true

    def clock(self) -> float:
        with self.world.store.read() as tx:
            return tx.now()

    def all_wanted(self) -> set[Task]:
        return set[Task]().union(*(self.wanted(branch)[1] for branch in self.names))

    def executed(self) -> int:
        """Tasks that ran, but those for `both`, none of which may be done again."""
        done, self.world.engine.done = self.world.engine.done, []
        for work in [work for work in done if work.dataset == "shop.both"]:
            assert work.key not in self.joined, f"computed again: {work}"
            self.joined.add(work.key)
        return sum(work.dataset != "shop.both" for work in done)

    def settle(self) -> None:
        for name, line in self.lines.items():  # what main has given up is held nowhere
            line.holds = {d: parts for d, parts in line.holds.items() if d in self.flow(name).codes}
        self.world.settle()
        self.check_thrift()
        for branch in self.names:
            self.check(branch)
        self.check_copies()
        joined = tuple(self.world.values(MAIN, "shop.both"))  # it may have waited
        self.past.append((self.clock(), self.wanted(MAIN)[0] | {"shop.both": {"": joined}}))
        self.world.now += 100.0

    def check_thrift(self) -> None:
        ran, wanted = self.executed(), self.all_wanted()
        least, most = len(wanted - self.known), len((wanted | self.passing) - self.kept)
        assert least <= ran <= most, f"{ran} tasks ran, of {least} to {most}"
        self.kept |= wanted
        self.known |= wanted | self.passing
        self.passing.clear()

    def check(self, branch: str) -> None:
        flow, held, line = self.flow(branch), self.held(branch), self.line(branch)
        truth = self.wanted(branch)[0]
        if flow.below(set(held)) & {"shop.both"} and "shop.both" not in held:
            del truth["shop.both"]  # it may wait for states that agree
        there = self.world.generations(branch)
        for dataset, parts in truth.items():
            assert dataset in there, f"{branch} has no {dataset}"
            found = self.world.values(branch, dataset)
            assert found == rows_of(parts), (
                f"{dataset} of {branch} is {found} and not {rows_of(parts)}"
            )
        with self.world.store.read() as tx:
            own, holds = set(tx.branches.own_datasets(branch)), tx.states.holds(branch).keys()
        assert holds == line.holds.keys(), f"{branch} holds {set(holds)} and not {set(line.holds)}"
        if branch != MAIN:
            self.check_own(branch, own)
        self.note(branch, truth, own)

    def check_own(self, branch: str, own: set[str]) -> None:
        expected = self.own(branch)
        assert own <= expected, f"{branch} has {own} of its own, not {expected}"
        # What main has, or once had under a name that it has given up, may be just what the branch
        # wants.
        main, truth = self.mains(branch), self.wanted(branch)[0]
        theirs = self.main.texts[main.last].made_of(main.files, main.holds)[0]
        lacking = {
            d
            for d in expected - own - {self.flow(branch).scaled, "shop.both"}
            if truth[d] != theirs.get(d)
        }
        assert not lacking, f"{branch} has only {own} of its own"
        assert not self.world.branching._failing_units.failures(f"branch:{branch}"), (
            f"{branch} cannot be planned"
        )
        with self.world.ctx.read_plan(branch) as (kept, facts):
            fresh, _ = plan_now(facts.tx, branch, None)
            assert facts.owned(kept).decisions == fresh.decisions, (
                f"a kept plan of {branch} is another one"
            )

    def check_copies(self) -> None:
        """Main's, and those of branches that were redirected; nobody else writes."""
        places = {MAIN: "/out/copy"} | {
            name: line.place for name, line in self.lines.items() if line.place
        }
        for branch, place in places.items():
            written = [
                row for rows in self.world.engine.targets.get(place, {}).values() for row in rows
            ]
            expected = self.world.values(branch, self.flow(branch).scaled)
            assert sorted(written, key=repr) == expected, (
                f"{place} has {written} and not {expected}"
            )
        with self.world.store.read() as tx:
            writing = {name for name in self.lines if tx.projections.targets(name)}
        assert writing == places.keys() - {MAIN}, f"{writing} write"

    def note(self, branch: str, truth: Mapping[str, Parts], own: set[str]) -> None:
        """Which rows each generation has. What is shared goes on as main does, whatever it was
        before."""
        line, generations = self.line(branch), self.world.generations(branch)
        for dataset, parts in truth.items():
            if branch != MAIN and dataset not in own:
                line.seen[dataset] = dict(self.mains(branch).seen.get(dataset, {}))
                continue
            number = generations[dataset]
            before = line.seen.get(dataset, {})
            line.seen[dataset] = {n: rows for n, rows in before.items() if n < number} | {
                number: parts
            }


class Busy(Run):
    """Much happens while work on what happened before is under way. Then not all is known: which
    rows generations have that came in between, and which work was needed on the way. No work is
    done twice."""

    def go(self, steps: int = STEPS) -> None:
        self.settle()
        self.create()
        at_work: list[Callable[[], None]] = [
            self.edit,
            self.put,
            self.merge,
            self.roll_back,
            self.resume,
            self.revert,
        ]
        seldom = [self.withdraw, self.end, self.collect]
        for _ in range(steps // 3):
            self.chance.choice([self.create, self.update])()
            for _ in range(self.chance.randint(2, 6)):
                self.chance.choice([*at_work, *at_work, *seldom])()
                self.advance()
            self.settle()
        self.mend()

    def advance(self) -> None:
        """Some of the work."""
        if self.chance.random() < 0.5:
            self.world.refresh()
        for _ in range(self.chance.randint(1, 3)):
            self.world.once()
            for _ in range(self.chance.randint(0, 4)):
                self.world.engine.step()
            self.world.now += self.chance.choice([0.0, 2.0])

    def check_thrift(self) -> None:
        self.executed()

    def executed(self) -> int:
        for work in self.world.engine.done:
            assert work.key not in self.joined, f"computed again: {work}"
            self.joined.add(work.key)
        self.world.engine.done.clear()
        return 0

    def earlier_rows(self, branch: str, dataset: str, generation: int) -> Parts:
        with self.world.store.read() as tx:
            state = time_travel.state_of(tx, branch, dataset, Generation(generation))
        return self.world.parts(state)


@contextmanager
def a_home() -> Iterator[Path]:
    home = Path(tempfile.mkdtemp(prefix="headgate-branches-"))
    try:
        yield home
    finally:
        shutil.rmtree(home)


def run(
    seed: int,
    url: str = "memory:",
    steps: int = STEPS,
    world: Callable[[Path, str], BranchWorld] = BranchWorld,
    kind: type[Run] = Run,
) -> None:
    """Raises AssertionError, with all that happened before."""
    with (
        a_home() as home,
        closing(world(home, f"sqlite:///{home}/metadata.db" if url == "sqlite" else url)) as made,
    ):
        going = kind(seed, made)
        try:
            going.go(steps)
        except Exception as error:
            error.add_note(f"seed {seed}, after\n  " + "\n  ".join(going.told))
            raise


if __name__ == "__main__":
    run(
        int(sys.argv[1]),
        (sys.argv[2:3] or ["memory:"])[0],
        kind=Busy if "busy" in sys.argv else Run,
    )
