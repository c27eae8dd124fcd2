"""What a fold of many partitions asks for when one changes, and what finding that out reads. Pure:
no store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pytest

from controlplane.core import tree
from controlplane.core.compile import ids
from controlplane.core.compile.compiler import compile_revisions
from controlplane.core.compile.nodes import Desired, Source, Transform
from controlplane.core.model.holds import Hold
from controlplane.core.model.jobs import FragmentsSpec
from controlplane.core.model.revisions import Revision
from controlplane.core.model.states import Consumed, PartialState, State
from controlplane.core.model.tasks import Fragment, Task, Trace
from controlplane.core.plan import Commit, Compute, Decision, plan
from controlplane.core.schema.ddl_schemas import parse_ddl
from controlplane.core.tree import Entry
from dataplane.contract.identity import Content, fragment_id, schema_id
from dataplane.contract.schemas import Json
from tests.trees import MemoryNodes

FLOW = """dataflow: a
components:
  days:
    read: {connector: files, path: /data/d, format: csv, schema: "v INT"}
  total:
    transform:
      sql: SELECT v FROM self UNION ALL SELECT v FROM days
      inputs: {self: previous, days: each}
      schema: "v INT"
"""
SCHEMA = parse_ddl("v INT")
MANY, DEPTH = 20_000, 3
CACHE_BYTES = 64 << 20
KEYS = [f"{number:06}" for number in range(MANY)]


def desired() -> Desired:
    return compile_revisions(
        [Revision("main", "a", 1, FLOW, {}, "/a.yaml", {}, "", "", 0.0)]
    ).require()


def entry(key: str, value: int) -> Entry:
    content = Content(1, value, hash(value) & 0xFFFF)
    return Entry(key, fragment_id(SCHEMA, content), content)


@dataclass(slots=True)
class Observed:
    """The facts that a plan reads, given one by one. `asked` are the look-ups besides those of tree
    nodes."""

    nodes: tree.NodeStore
    states: dict[str, State] = field(default_factory=dict)
    half_built: PartialState | None = None
    known: dict[bytes, Trace] = field(default_factory=dict)
    queued: dict[bytes, Task] = field(default_factory=dict)
    memos: dict[bytes, Json] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def state(self, dataset: str) -> State | None:
        return self.states.get(dataset)

    def history(self, dataset: str, limit: int = 8) -> Sequence[State]:
        return [s for name, s in self.states.items() if name == dataset]

    def unfinished(self, dataset: str) -> None:
        return None

    def settled(self, states: Sequence[tuple[str, int]]) -> Sequence[State]:
        return [s for s in self.states.values() if (s.dataset, s.seq) in states]

    def building(self, dataset: str) -> PartialState | None:
        return self.half_built

    def traces(self, keys: Sequence[bytes]) -> Mapping[bytes, Trace]:
        self.asked.append("traces")
        return {key: self.known[key] for key in keys if key in self.known}

    def tasks(self, keys: Sequence[bytes]) -> Mapping[bytes, Task]:
        self.asked.append("tasks")
        return {key: self.queued[key] for key in keys if key in self.queued}

    def remembered(self, builds: Sequence[bytes], memos: Sequence[bytes]) -> Any:
        self.asked.append("remembered")
        return {}, {key: self.memos[key] for key in memos if key in self.memos}

    def holds(self) -> Mapping[str, Hold]:
        return {}

    def forced(self, dataset: str) -> int:
        return 0

    def forced_at(self, dataset: str, partition: str) -> int:
        return 0

    def is_paused(self, dataset: str) -> bool:
        return False

    def listing(self, id: bytes) -> None: ...
    def source_partitions(self, keys: Mapping[bytes, Sequence[str]]) -> Any: ...
    def pinned(self, dataset: str) -> None: ...
    def fragments(self, ids: Sequence[bytes]) -> Mapping[bytes, Fragment]:
        return {}

    def target(self, component: str) -> None: ...


@cache
def _built(count: int) -> tuple[dict[bytes, bytes], bytes, bytes]:
    nodes = MemoryNodes()
    days = tree.build(nodes, (entry(k, 1) for k in KEYS[:count]))
    return (
        nodes.blobs,
        days,
        tree.build(nodes, (entry(k, 1000 + n) for n, k in enumerate(KEYS[:count]))),
    )


def built(count: int) -> tuple[dict[bytes, bytes], bytes, bytes]:
    blobs, days, totals = _built(count)
    return dict(blobs), days, totals


class Folding:
    """A world in which the sum of key k is 1000 + k; days have the values 1."""

    def __init__(self, keys: Sequence[str] = KEYS) -> None:
        self.desired = desired()
        node = self.desired.nodes["a.total"]
        assert isinstance(node, Transform)
        self.node, self.nodes = node, MemoryNodes()
        self.nodes.blobs, self.days, self.totals = built(len(keys))
        self.world = Observed(self.nodes)
        self.world.memos[ids.analysis_key(node.logic, {"days": SCHEMA})] = {"schema": SCHEMA}
        self.world.states["a.total"] = self.state(
            "a.total", self.totals, {"days": self.consumed(self.days)}
        )
        self.read(self.days)

    def consumed(self, root: bytes) -> Consumed:
        return Consumed("a.days", root, schema_id(SCHEMA))

    def state(self, dataset: str, root: bytes, inputs: Mapping[str, Consumed]) -> State:
        made = self.desired.nodes[dataset]
        assert isinstance(made, Source | Transform)
        cut = {"a.days": root if dataset == "a.days" else next(iter(inputs.values())).root}
        logic, lineage = made.logic, made.lineage
        return State(
            "main",
            dataset,
            1,
            1,
            logic,
            inputs,
            root,
            SCHEMA,
            cut,
            1,
            1,
            "missing",
            1,
            0.0,
            lineage,
        )

    def read(self, root: bytes) -> None:
        self.world.states["a.days"] = self.state("a.days", root, {})

    def change(self, *changes: tuple[str, int | None]) -> None:
        """The days are other ones now."""
        present = self.world.states["a.days"].root
        self.read(
            tree.edit(
                self.nodes,
                present,
                [(k, None if v is None else entry(k, v)) for k, v in sorted(changes)],
            )
        )

    def decide(self) -> Decision:
        self.nodes.reset()
        self.world.nodes = tree.NodeCache(CACHE_BYTES).over(self.nodes)
        self.world.asked.clear()
        above = Decision("a.days", "up_to_date")
        found = plan(
            self.desired,
            self.world,
            "main",
            frozenset({"a.total"}),
            window=100,
            standing={"a.days": above},
        )
        [decision] = found.decisions
        return decision

    def asks(self) -> Task:
        """The one task that is asked for."""
        step = self.decide().step
        assert isinstance(step, Compute)
        [task] = step.tasks
        self.world.half_built = step.building or self.world.half_built
        return task

    def gives(self, task: Task, value: int) -> None:
        content = entry("", value).content
        fragment = fragment_id(SCHEMA, content)
        self.world.known[task.key] = Trace(task.key, {"": fragment}, contents={"": content})

    def commits(self) -> dict[str, int]:
        """What the committed root has that the present one has not, or has otherwise."""
        step = self.decide().step
        assert isinstance(step, Commit)
        changes = tree.diff(self.nodes, self.totals, step.state.root)
        return {c.key: c.after.content.sum1 if c.after else 0 for c in changes}


def spec_of(task: Task) -> FragmentsSpec:
    assert "slots" in task.spec
    return task.spec


@pytest.fixture
def many() -> Folding:
    return Folding()


def test_one_more_at_the_end_is_one_task_that_reads_the_last_partition(many: Folding) -> None:
    many.change(("999999", 1))
    task = many.asks()
    assert task.partition == "999999"
    assert spec_of(task)["slots"]["self"] == [entry("", 1000 + MANY - 1).fragment.hex()]
    assert many.world.asked == ["remembered", "traces", "tasks"]
    assert many.nodes.reads <= 4 * DEPTH
    many.gives(task, 7)
    assert many.commits() == {"999999": 7}
    assert many.world.asked == ["remembered", "traces", "remembered"]
    assert many.nodes.reads <= 4 * DEPTH


def test_what_is_certain_and_what_is_possible(many: Folding) -> None:
    many.change((KEYS[-3], 5))
    certain, possible = many.decide().items
    assert (certain.certain, certain.tasks, certain.keys.listed) == (True, 1, (KEYS[-3],))
    assert (possible.certain, possible.tasks, possible.keys.listed) == (
        False,
        2,
        (KEYS[-2], KEYS[-1]),
    )
    many.change((KEYS[3], 5))
    certain, possible = many.decide().items
    assert possible.tasks >= MANY - 4


def test_late_data_goes_on_from_partition_to_partition_until_one_is_as_it_was(
    many: Folding,
) -> None:
    many.change((KEYS[100], 5))
    for number, value in ((100, 1), (101, 2), (102, 1000 + 102)):
        task = many.asks()
        assert task.partition == KEYS[number]
        assert many.nodes.reads <= 8 * DEPTH  # 1,000 partitions after it are named
        many.gives(task, value)
    assert many.commits() == {KEYS[100]: 1, KEYS[101]: 2}


def test_a_task_carries_what_those_after_it_read(many: Folding) -> None:
    many.change((KEYS[100], 5), (KEYS[103], 5))
    spec = spec_of(many.asks())
    assert [one["partition"] for one in spec["then"]] == KEYS[101:165]
    assert spec["then"][0]["slots"] == {"days": [entry("", 1).fragment.hex()]}
    read_before = [list(entry("", 1000 + number).content) for number in (100, 101, 103)]
    assert [spec["was"], *(one["was"] for one in spec["then"][:3])] == [
        *read_before[:2],
        None,
        read_before[2],
    ]


def test_large_partitions_make_short_runs() -> None:
    few = Folding(KEYS[:20])
    large = Content(1_000_000, 5, 5)
    changes = [(k, Entry(k, fragment_id(SCHEMA, large), large)) for k in KEYS[10:20]]
    few.read(tree.edit(few.nodes, few.days, changes))
    assert [one["partition"] for one in spec_of(few.asks())["then"]] == [KEYS[11], KEYS[12]]


def test_a_run_is_taken_in_by_one_look_up(many: Folding) -> None:
    many.change((KEYS[100], 5))
    keys = []
    for value in (1, 2, 3, 1000 + 103):
        many.gives(task := many.asks(), value)
        keys.append(task.key)
    many.world.half_built, many.world.memos[ids.run_key(keys[0])] = (
        None,
        [key.hex() for key in keys[1:]],
    )
    assert len(many.commits()) == 3
    assert many.world.asked == ["remembered", "traces", "remembered", "traces"]


def test_why_names_the_partition_before(many: Folding) -> None:
    many.change((KEYS[100], 5))
    many.gives(many.asks(), 1)
    decision = many.decide()
    assert (
        decision.reason == f"{KEYS[101]}: self, the partition before ({KEYS[100]}), is another one"
    )
    assert decision.items[0].because[0].dataset == "a.total"


def test_two_changes_far_apart_leave_what_is_between_them(many: Folding) -> None:
    many.change((KEYS[100], 5), (KEYS[15_000], 5))
    first = many.asks()
    many.gives(first, 1000 + 100)
    second = many.asks()
    assert (first.partition, second.partition) == (KEYS[100], KEYS[15_000])
    assert spec_of(second)["slots"]["self"] == [entry("", 1000 + 14_999).fragment.hex()]
    many.gives(second, 3)
    third = many.asks()
    assert third.partition == KEYS[15_001]
    many.gives(third, 1000 + 15_001)
    assert many.commits() == {KEYS[15_000]: 3}


def test_a_withdrawn_partition_is_passed_over(many: Folding) -> None:
    many.change((KEYS[100], None))
    task = many.asks()
    assert task.partition == KEYS[101]
    assert spec_of(task)["slots"]["self"] == [entry("", 1000 + 99).fragment.hex()]
    many.gives(task, 1000 + 101)
    assert many.commits() == {KEYS[100]: 0}


def test_withdrawn_at_the_end_nothing_runs(many: Folding) -> None:
    many.change((KEYS[-1], None), (KEYS[-2], None))
    assert many.commits() == {KEYS[-1]: 0, KEYS[-2]: 0}


def test_input_that_changes_before_the_frontier_takes_the_way_back(many: Folding) -> None:
    many.change((KEYS[100], 5))
    for number in (100, 101, 102):
        many.gives(many.asks(), number)
    assert many.asks().partition == KEYS[103]
    many.change((KEYS[101], 9))
    again = many.asks()
    assert again.partition == KEYS[101]
    many.gives(again, 1000 + 101)
    assert many.commits() == {KEYS[100]: 100}


def test_input_that_changes_after_the_frontier_changes_nothing_before_it(many: Folding) -> None:
    many.change((KEYS[100], 5))
    many.gives(many.asks(), 1)
    frontier = many.asks()
    many.change((KEYS[500], 5), (KEYS[300], None))
    assert many.asks() == frontier
    many.gives(frontier, 1000 + 101)
    assert many.asks().partition == KEYS[301]


def test_from_nothing_keys_come_one_after_the_other() -> None:
    few = Folding(KEYS[:4])
    del few.world.states["a.total"]
    for number in range(4):
        task = few.asks()
        assert task.partition == KEYS[number]
        few.gives(task, 1000 + number)
    assert few.commits() == {}


def test_what_memory_has_is_taken_some_at_a_time() -> None:
    few = Folding(KEYS[:120])
    expected = few.totals
    del few.world.states["a.total"]
    for number in range(120):
        few.gives(few.asks(), 1000 + number)
    few.world.half_built, passes = None, 0
    while not isinstance(step := few.decide().step, Commit):
        assert isinstance(step, Compute)
        assert not step.tasks
        few.world.half_built, passes = step.building, passes + 1
    assert passes == 2
    assert step.state.root == expected


def test_a_failed_partition_says_how_many_wait(many: Folding) -> None:
    many.change((KEYS[-4], 5))
    task = many.asks()
    error: Any = {"kind": "user", "condition": "X", "message": "no"}
    many.world.queued[task.key] = Task(
        task.key, "transform", "a.total", KEYS[-4], b"", {}, state="failed", error=error
    )
    decision = many.decide()
    assert (decision.status, decision.error) == ("failed", error)
    assert decision.reason == f"partition {KEYS[-4]} failed; 3 after it wait for it"
