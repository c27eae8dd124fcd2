"""OpenLineage events of commits, writes and given-up work, sent in order by a cursor over our own
events.

    a batch of events after the cursor -> run events -> the sink, one by one -> the cursor moves

The cursor moves after the sink has accepted the events before it. So a crash in between loses
nothing, and events that are sent again have the same run ids.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, cast

from controlplane import logs
from controlplane.core.compile.nodes import Desired, Node, Sink, Transform
from controlplane.core.lineage import run_events
from controlplane.core.lineage.of_node import Lineages, NodeLineage
from controlplane.core.lineage.partition_lineage import OBJECTS
from controlplane.core.lineage.run_events import RunComponent, RunInput
from controlplane.core.model.addresses import Moment
from controlplane.core.model.events import COMMITTED, NO_BRANCH, Event
from controlplane.core.model.openlineage import RunEvent
from controlplane.core.model.states import Cause, State
from controlplane.operations.export_cursor import CURSOR
from controlplane.operations.inspect.lineage import stored_facts
from controlplane.operations.inspect.part_views import earlier_code
from controlplane.operations.planning.snapshot import desired
from controlplane.ports.store import Store, Tx
from controlplane.services.openlineage.port import LineageSink
from dataplane.contract.schemas import struct_of

BATCH: Final = 200  # events of ours that are looked at, and after which the cursor moves
log = logs.get("openlineage")


def _uncounted(_outcome: str) -> None:
    """Count nothing."""


@dataclass(frozen=True, slots=True)
class Export:
    """Sends events to one sink. `count` gets the outcome of each run event: `sent`, `refused`, or
    `failed` where it could not be made."""

    store: Store
    namespace: str
    sink: LineageSink
    lake: str = ""
    count: Callable[[str], None] = _uncounted

    def begin(self) -> None:
        """Start at the present event: earlier ones are not sent."""
        with self.store.begin(self.namespace) as tx:
            if tx.events.cursor(CURSOR) is None:
                tx.events.move_cursor(CURSOR, tx.events.last())

    def step(self, is_over: Callable[[], bool] = lambda: False) -> bool:
        """Send one batch; True if there may be more. `is_over` is polled between events. Raises
        OSError where the sink accepts nothing now: events that it accepted before are not sent
        again."""
        with self.store.read(self.namespace) as tx:
            after = tx.events.cursor(CURSOR)
            if after is None:
                return False
            events = tx.events.newer(None, after, BATCH)
        done = after
        try:
            for event, texts in zip(events, self._rendered(events), strict=True):
                if is_over():
                    return False
                self._send(event, texts)
                done = event.id
        finally:
            if done > after:
                self._move(done)
        return len(events) == BATCH

    def _move(self, event: int) -> None:
        with self.store.begin(self.namespace) as tx:
            tx.events.move_cursor(CURSOR, event)

    def _rendered(self, events: Sequence[Event]) -> list[list[bytes] | None]:
        """The run events of each, in order; None where they cannot be made."""
        try:
            with self.store.read(self.namespace) as tx:
                telling = _EventBatch(tx, self.namespace, self.lake, events)
                return [_encoded(telling.of(event)) for event in events]
        except OSError:
            raise
        except Exception as e:  # noqa: BLE001  # one of them is at fault: each is sent by itself
            log.warning("OpenLineage events cannot be made together", error=str(e))
            return [self._rendered_alone(event) for event in events]

    def _rendered_alone(self, event: Event) -> list[bytes] | None:
        """In a transaction of its own, to separate a fault of the database from one of the
        event."""
        for with_columns in (True, False):
            try:
                with self.store.read(self.namespace) as tx:
                    telling = _EventBatch(
                        tx, self.namespace, self.lake, [event], with_columns=with_columns
                    )
                    return _encoded(telling.of(event))
            except OSError:
                raise
            except Exception as e:  # any failure is this event's alone
                details = {"dataset": event.dataset, "id": event.id, "columns": with_columns}
                log.exception("an OpenLineage event cannot be made", error=str(e), **details)
        return None

    def _send(self, event: Event, texts: list[bytes] | None) -> None:
        if texts is None:
            self.count("failed")
            return
        for text in texts:
            is_taken = self.sink.send(text)
            self.count("sent" if is_taken else "refused")
            if not is_taken:
                log.warning("an OpenLineage event was refused", dataset=event.dataset, id=event.id)


def _encoded(runs: Iterable[RunEvent]) -> list[bytes]:
    return [json.dumps(run, ensure_ascii=False).encode() for run in runs]


# --- rendering ------------------------------------------------------------------------------------


@dataclass(slots=True)
class _EventBatch:
    """Events of one batch. The code and the columns of a branch are read once in it."""

    tx: Tx
    namespace: str
    lake: str
    batch: Sequence[Event]
    with_columns: bool = field(default=True, kw_only=True)
    _code: dict[str, Desired] = field(default_factory=dict)
    _lineages: dict[str, Lineages | None] = field(default_factory=dict)
    _failed: set[str] = field(default_factory=set)  # runs that are reported already

    def of(self, event: Event) -> Iterable[RunEvent]:
        """Those that one of the batch brings; most bring none."""
        if event.branch == NO_BRANCH or not event.dataset:
            return ()
        match event.kind:
            case "dataset.committed":
                return self._of_commit(event)
            case "partitions.written":
                return run_events.written(self._of_now(event), event.id, event.n, event.at)
            case "task.failed":
                return self._of_failure(event)
            case _:
                return ()

    # --- commits

    def _of_commit(self, event: Event) -> Iterable[RunEvent]:
        state = self._state(event)
        if state is None:
            return ()
        code, lineages = self._of_then(event.branch, state)
        node = None if code is None else code.nodes[state.dataset]
        lineage = None if lineages is None or node is None else lineages.of(state.dataset)
        consumed = [
            RunInput(state_input.dataset, state_input.root)
            for name, state_input in state.inputs.items()
            if _is_dataset(name)
        ]
        return run_events.committed(
            self._component(event, node, lineage, self._named(event.branch, consumed)), state
        )

    def _state(self, event: Event) -> State | None:
        """The committed state, or the one that its event records where it is no longer kept. None
        for an event of an earlier version, which did not record the state's number."""
        seq = event.body.get("seq")
        if not isinstance(seq, int):
            return None
        for state in self.tx.states.history(event.branch, event.dataset, 1, seq + 1):
            if state.seq == seq and state.root.hex() == event.body.get("root"):
                return state
        return _state_of_event(event, seq)

    def _of_then(self, branch: str, state: State) -> tuple[Desired | None, Lineages | None]:
        """The code that made a state, and the lineage of its columns."""
        present = self._present(branch)
        node = present.nodes.get(state.dataset)
        if node is not None and node.has_rows and node.has_made(state.logic):
            return present, self._lineages_of(branch)
        earlier = earlier_code(self.tx, branch, state, self.namespace)
        return earlier, None if earlier is None else self._prepared(
            branch, earlier, [state.dataset]
        )

    def _lineages_of(self, branch: str) -> Lineages | None:
        if branch not in self._lineages:
            present = self._present(branch)
            names = self._committed(branch) & present.nodes.keys()
            self._lineages[branch] = self._prepared(branch, present, sorted(names))
        return self._lineages[branch]

    def _committed(self, branch: str) -> set[str]:
        return {
            event.dataset
            for event in self.batch
            if event.kind == COMMITTED and event.branch == branch
        }

    def _prepared(self, branch: str, code: Desired, datasets: Sequence[str]) -> Lineages | None:
        if not self.with_columns:
            return None
        lineages = Lineages(code, stored_facts(self.tx, branch, code, datasets))
        lineages.prepare(datasets)
        return lineages

    def _named(self, branch: str, inputs: Iterable[RunInput]) -> list[RunInput]:
        """With the columns of those that are still as they were read."""
        read = {state_input.dataset: state_input for state_input in inputs}
        states = self.tx.states.newest(branch, read)
        same = {name: state for name, state in states.items() if state.root == read[name].root}
        return [
            replace(state_input, schema=same[name].schema) if name in same else state_input
            for name, state_input in read.items()
        ]

    # --- facts of the present code

    def _of_failure(self, event: Event) -> Iterable[RunEvent]:
        """Once in a batch for all that fails on the way to one state."""
        component = self._of_now(event)
        node = component.node
        dataset = node.source if node is not None and node.is_copy else event.dataset
        state = self.tx.states.find(event.branch, dataset, Moment.of(event.at))
        base = 0 if state is None else state.seq
        run = run_events.failed_run(component, base)
        if run in self._failed:
            return ()
        self._failed.add(run)
        return run_events.failed(
            component, base, str(event.body.get("message") or "a task failed"), event.at
        )

    def _of_now(self, event: Event) -> RunComponent:
        return self._component(
            event, self._present(event.branch).nodes.get(event.dataset), None, ()
        )

    def _component(
        self,
        event: Event,
        node: Node | None,
        lineage: NodeLineage | None,
        consumed: Sequence[RunInput],
    ) -> RunComponent:
        return RunComponent(
            namespace=self.namespace,
            branch=event.branch,
            dataset=event.dataset,
            lake=self.lake,
            node=node,
            lineage=lineage,
            inputs=tuple(consumed or _declared(node)),
        )

    def _present(self, branch: str) -> Desired:
        if branch not in self._code:
            self._code[branch] = desired(self.tx, branch, namespace=self.namespace)
        return self._code[branch]


def _is_dataset(name: str) -> bool:
    """An input of a state may also be a listing, or the pairs of keys that lead from an input to
    the output."""
    return name != OBJECTS and "/" not in name


def _declared(node: Node | None) -> list[RunInput]:
    """The reads of the code, where no state records them."""
    match node:
        case Transform():
            return [RunInput(name) for name in dict.fromkeys(slot.dataset for slot in node.slots)]
        case Sink():
            return [RunInput(node.source)]
        case _:
            return []


def _state_of_event(event: Event, seq: int) -> State:
    """A state of which nothing is known but its event."""
    body = event.body
    return State(
        branch=event.branch,
        dataset=event.dataset,
        seq=seq,
        generation=_number(body.get("generation")),
        logic=b"",
        inputs={},
        root=bytes.fromhex(str(body.get("root"))),
        schema=struct_of(()),
        cut={},
        partitions=event.n,
        rows=_number(body.get("rows")),
        cause=cast("Cause", body.get("cause")),
        revision=0,
        at=event.at,
        lineage=b"",
    )


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
