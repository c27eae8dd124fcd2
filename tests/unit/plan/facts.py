"""The facts that a plan reads, in memory, and a data plane that answers every task at once.

A test says what happened, and asks what is decided. Does not belong here: what should be decided.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from controlplane.core import tree
from controlplane.core.compile.compiler import compile_revisions
from controlplane.core.compile.nodes import NOTHING, Desired, Source, is_paused
from controlplane.core.model.holds import Hold
from controlplane.core.model.pins import Pin
from controlplane.core.model.projections import Target
from controlplane.core.model.revisions import Revision
from controlplane.core.model.sources import Listing, SourcePartition
from controlplane.core.model.states import PartialState, State, UnfinishedRun
from controlplane.core.model.tasks import Fragment, Task, Trace
from controlplane.core.plan import (
    EXACT,
    RECENT,
    Commit,
    Compute,
    Decision,
    Learn,
    Plan,
    RunChecks,
    Sync,
    plan,
)
from controlplane.core.schema.ddl_schemas import parse_ddl
from dataplane.contract.encoding import digest
from dataplane.contract.identity import Content, fragment_id
from dataplane.contract.kinds import placement_of
from dataplane.contract.results import task_error
from dataplane.contract.schemas import Json, Schema
from dataplane.contract.source_objects import SourceObject, source_id
from tests.trees import MemoryNodes

BRANCH = "main"
SCHEMA = parse_ddl("v INT")
MISREAD = {"file": "/data/a", "column": "v", "have": "DECIMAL(9,2)", "read": "INT"}
PASSES = 50
DAY_S = 86_400.0


class Facts:
    """A Snapshot that is kept in dictionaries. Plans are carried out in it as `PlanExecutor` does
    it in a store."""

    def __init__(self) -> None:
        self.desired: Desired = NOTHING
        self.nodes: tree.NodeStore = MemoryNodes()
        self.now = 1_000_000.0
        self.exact, self.window = EXACT, 100
        self.operator_pauses: frozenset[str] = frozenset()
        self.forces: dict[str, int] = {}
        self.found: dict[bytes, Listing] = {}
        self.parts: dict[bytes, dict[str, SourcePartition]] = {}
        self.states: dict[str, list[State]] = {}  # oldest first
        self.buildings: dict[str, PartialState] = {}
        self.runs: dict[str, UnfinishedRun] = {}
        self.pins: dict[str, Pin] = {}
        self.queue: dict[bytes, Task] = {}
        self.known: dict[bytes, Trace] = {}
        self.contents: dict[bytes, Content] = {}  # of fragments
        self.misread: frozenset[str] = frozenset()  # partitions
        self.builds: dict[bytes, tuple[bytes, Schema]] = {}
        self.memos: dict[bytes, Json] = {}
        self.targets: dict[str, Target] = {}

    # --- what happens -----------------------------------------------------------------------------

    def apply(self, *texts: str, file: str = "/a.yaml") -> None:
        """These blueprints, and no others."""
        revisions = [
            Revision(BRANCH, _name(text), 1, text, {}, file, {}, "", "", 0.0) for text in texts
        ]
        self.desired = compile_revisions(revisions).require()

    def list(self, files: Mapping[str, str], dataset: str) -> None:
        """Its location holds these files; each is a partition by its name, and has a version."""
        parts = {name: _partition(name, version) for name, version in files.items()}
        entries = [
            tree.Entry(key, part.source, Content(1, 0, 0)) for key, part in sorted(parts.items())
        ]
        root = tree.build(self.nodes, entries)
        id = self.listing_of(dataset)
        self.parts[id] = parts
        self.found[id] = Listing(id, root, self.now, len(parts), len(parts), columns=(("v",),))

    def change_listing(self, dataset: str, **fields: Json) -> None:
        id = self.listing_of(dataset)
        self.found[id] = replace(self.found.get(id, Listing(id, None, None, 0, 0)), **fields)

    def listing_of(self, dataset: str) -> bytes:
        node = self.desired.nodes[dataset]
        assert isinstance(node, Source)
        return node.listing

    def plan(self) -> Plan:
        return plan(self.desired, self, BRANCH, now=self.now, window=self.window, exact=self.exact)

    def carry_out(self) -> bool:
        """One pass. Whether anything came of it."""
        before = self._digest()
        for decision in self.plan().decisions:
            self._carry_out(decision)
        return self._digest() != before

    def answer(self, *, of: str = "", but: str = "", failing: str = "", bad_rows: int = 0) -> bool:
        """Tasks that were asked for end: those of one dataset if `of` names it, and none of the
        partition `but`.

        The one of the partition `failing` ends with an error. A check finds `bad_rows`. Returns
        whether there was one.
        """
        queued = [task for task in self.queue.values() if task.state == "queued"]
        queued = [
            task
            for task in queued
            if task.dataset in (of or task.dataset) and task.partition != (but or None)
        ]
        for task in queued:
            if failing and task.partition == failing:
                error = task_error("user", "arithmetic", "division by zero")
                self.queue[task.key] = replace(task, state="failed", error=error)
                continue
            del self.queue[task.key]
            self._answer(task, bad_rows)
        return bool(queued)

    def settle(self, *, failing: str = "", bad_rows: int = 0) -> None:
        for _ in range(PASSES):
            changed = self.carry_out()
            if not self.answer(failing=failing, bad_rows=bad_rows) and not changed:
                return
        raise AssertionError("no rest")

    # --- carrying out -----------------------------------------------------------------------------

    def _digest(self) -> object:
        states = {name: states[-1] for name, states in self.states.items()}
        return repr((states, self.buildings, self.runs, self.queue, self.memos, self.targets))

    def _carry_out(self, decision: Decision) -> None:
        dataset, step = decision.dataset, decision.step
        if decision.gives_up or not isinstance(step, Compute | Learn | RunChecks):
            self.runs.pop(dataset, None)
        match step:
            case Commit():
                self._commit(dataset, step)
            case Compute(building=building, unfinished=unfinished):
                if building is not None:
                    self.buildings[dataset] = building
                if unfinished is not None:
                    self.runs[dataset] = unfinished
            case RunChecks(notes=notes):
                self.memos.update(notes)
            case Sync(target=target):
                self.targets[dataset] = target
        for task in step.tasks:
            self.queue.setdefault(task.key, task)

    def _commit(self, dataset: str, step: Commit) -> None:
        self.states.setdefault(dataset, []).append(step.state)
        self.buildings.pop(dataset, None)
        self.memos.update(step.notes)
        if step.pin is not None:
            self.pins[dataset] = step.pin
        if step.build is not None:
            self.builds[step.build] = step.state.root, step.state.schema

    def _answer(self, task: Task, bad_rows: int) -> None:
        assert task.placement in (placement_of(task.kind), "either"), "no process takes such a task"
        match task.kind:
            case "parse" | "transform":
                content = _content(task)
                fragment = fragment_id(SCHEMA, content)
                self.contents[fragment] = content
                self.known[task.key] = Trace(task.key, {"": fragment}, contents={"": content})
            case "infer" | "analyse":
                self.memos[task.key] = {"schema": SCHEMA}
            case "footers":
                self.memos[task.key] = {
                    "misread": [MISREAD] if task.partition in self.misread else []
                }
            case "check":
                self.memos[task.key] = {"rows": 1, "failing": bad_rows, "examples": []}
            case "write":
                self._write(task)
            case kind:
                raise AssertionError(f"nobody does {kind} here")

    def _write(self, task: Task) -> None:
        target, entry = self.targets[task.dataset], None
        if "fragment" in task.spec:
            fragment = bytes.fromhex(task.spec["fragment"])
            entry = tree.Entry(task.partition, fragment, self.contents[fragment])
        root = tree.edit(self.nodes, target.root, [(task.partition, entry)])
        self.targets[task.dataset] = replace(target, root=root)

    # --- a World ----------------------------------------------------------------------------------

    def state(self, dataset: str) -> State | None:
        return self.states[dataset][-1] if dataset in self.states else None

    def history(self, dataset: str, limit: int = RECENT) -> Sequence[State]:
        return self.states.get(dataset, [])[::-1][:limit]

    def settled(self, states: Sequence[tuple[str, int]]) -> Sequence[State]:
        return [s for dataset, seq in states for s in self.states.get(dataset, []) if s.seq == seq]

    def listing(self, id: bytes) -> Listing | None:
        return self.found.get(id)

    def source_partitions(
        self, keys: Mapping[bytes, Sequence[str]]
    ) -> Mapping[bytes, Mapping[str, SourcePartition]]:
        return {
            id: {key: self.parts[id][key] for key in some if key in self.parts[id]}
            for id, some in keys.items()
        }

    def building(self, dataset: str) -> PartialState | None:
        return self.buildings.get(dataset)

    def unfinished(self, dataset: str) -> UnfinishedRun | None:
        return self.runs.get(dataset)

    def pinned(self, dataset: str) -> Pin | None:
        return self.pins.get(dataset)

    def traces(self, keys: Sequence[bytes]) -> Mapping[bytes, Trace]:
        return {key: self.known[key] for key in keys if key in self.known}

    def fragments(self, ids: Sequence[bytes]) -> Mapping[bytes, Fragment]:
        return {
            id: Fragment(id, SCHEMA, self.contents[id], (), "", "")
            for id in ids
            if id in self.contents
        }

    def remembered(
        self, builds: Sequence[bytes], memos: Sequence[bytes]
    ) -> tuple[Mapping[bytes, tuple[bytes, Schema]], Mapping[bytes, Json]]:
        known = {key: self.builds[key] for key in builds if key in self.builds}
        return known, {key: self.memos[key] for key in memos if key in self.memos}

    def tasks(self, keys: Sequence[bytes]) -> Mapping[bytes, Task]:
        return {key: self.queue[key] for key in keys if key in self.queue}

    def target(self, component: str) -> Target | None:
        return self.targets.get(component)

    def is_paused(self, dataset: str) -> bool:
        return is_paused(self.desired.nodes[dataset], self.operator_pauses)

    def holds(self) -> Mapping[str, Hold]:
        return {}

    def forced(self, dataset: str) -> int:
        return self.forces.get(dataset, 0)

    def forced_at(self, dataset: str, partition: str) -> int:
        return self.forced(dataset)


def _name(text: str) -> str:
    return text.split("dataflow:")[1].split()[0]


def _partition(name: str, version: str) -> SourcePartition:
    told: SourceObject = {
        "name": name,
        "uri": f"/data/{name}",
        "size": 1,
        "modified_ms": 0,
        "version": f"sha256:{name} {version}",
        "columns": ["v"],
    }
    return SourcePartition(name, source_id([told], named=False), (told,))


def _content(task: Task) -> Content:
    """One row: of a file what it holds, of a query what its task is named by."""
    value = task.key
    if task.kind == "parse":
        assert "objects" in task.spec
        [file] = task.spec["objects"]
        # Another version of the same rows
        value = digest("rows", of=file["version"].removesuffix("~"))
    return Content(1, int.from_bytes(value[:8]), int.from_bytes(value[8:16]))


# --- decisions in words ---------------------------------------------------------------------------

Words = tuple[str, str, str]


def in_words(facts: Facts, decision: Decision) -> Words:
    """Its status, its step with the partitions that it is about, and why."""
    step = type(decision.step).__name__
    return decision.status, " ".join([step, *_keys(facts, decision)]), _why(decision)


def _keys(facts: Facts, decision: Decision) -> Iterator[str]:
    step = decision.step
    if not isinstance(step, Commit):
        yield from (_of_task(task) for task in step.tasks)
        return
    if step.entered is None:
        yield "remembered"
    before = facts.state(decision.dataset)
    for change in tree.diff(
        facts.nodes, before.root if before else tree.EMPTY_ROOT, step.state.root
    ):
        key = change.key or "whole"
        yield key if change.after else f"-{key}"


def _of_task(task: Task) -> str:
    if task.kind in ("infer", "analyse"):
        return task.kind
    key = task.partition or "whole"
    return f"-{key}" if "remove" in task.spec else key


def _why(decision: Decision) -> str:
    if decision.reason:
        return decision.reason
    if not decision.items:
        return ""
    item = decision.items[0]
    return item.reason or item.cause
