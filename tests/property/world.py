"""One small world: folders of files, blueprints, a store and the engine, and the model beside them.

After each `settle` everything that the product says is compared with the model. Does not belong
here: chance (changes), what is true (model).
"""

from __future__ import annotations

import itertools
import json
import os
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias, TypedDict

from controlplane.core import tree
from controlplane.core.model.forces import KeyRange
from controlplane.core.model.sources import Listing
from controlplane.core.model.states import State
from controlplane.core.plan import EXACT, FEWEST, WIDEST, Commit, Keep, Plan
from controlplane.operations.context import Context
from controlplane.operations.desired import blueprints, controls
from controlplane.operations.planning.apply_plan import Pass, PlanExecutor
from controlplane.operations.planning.planner import Planner
from controlplane.operations.planning.snapshot import desired, plan_now
from controlplane.operations.work import listings
from controlplane.ports.store import Store, Tx
from dataplane.contract.kinds import Kind
from dataplane.contract.schemas import column_names
from tests.property import model
from tests.property.engine import MERGED, PART, Engine, Fault, Faults, Lake, MemoryLake
from tests.property.further import Script
from tests.property.memory_store.store import MEMORY
from tests.property.model import (
    Component,
    Copy,
    Dataset,
    File,
    Flows,
    Fold,
    Folder,
    Fragment,
    Further,
    Grouped,
    Key,
    Meeting,
    Near,
    Read,
    Transform,
)
from tests.stores import store_at

BRANCH = "main"
WINDOW = 20_000
PASSES = 80  # more than any world here takes to come to rest (I7)
DAY_S = 86_400.0
LONG_S = 100.0  # longer than any pause between tries
Lineage: TypeAlias = tuple[object, ...]


class Violation(AssertionError):
    """The product and the model disagree."""


def require(holds: bool, *words: object) -> None:
    if not holds:
        raise Violation(" ".join(map(str, words)))


def no_faults(kind: Kind) -> Fault:
    return "none"


@dataclass(slots=True)
class Rest:
    """What the last settled world was made of."""

    reads: Mapping[str, tuple[Read, Folder, Dataset]] = field(default_factory=dict)
    lineages: dict[str, Lineage] = field(default_factory=dict)
    is_clean: bool = True  # nothing was left out


class Thresholds(TypedDict):
    """Of `core.plan.plan`."""

    exact: int
    fewest: int
    min_rows: int
    widest: int


class World:
    """`flows`, `styles` and `paused` are what is wished for; `folders` is what lies in the source
    folders."""

    def __init__(
        self,
        home: Path,
        url: str | None = MEMORY,
        exact: int = EXACT,
        fewest: int = FEWEST,
        widest: int = WIDEST,
        min_rows: int = 0,
    ) -> None:
        """`exact`, `fewest`, `widest`, `min_rows`: see core.plan.plan; a small one makes windows and
        half-built roots of nearly everything, parts of all that can be merged, and several levels
        of merges."""
        self.home, self._now = home, 1_000_000.0
        self.store: Store = store_at(url, self._clock)
        self.lake = self._lake()
        self.ctx = Context(self.store, lake=self.lake.uri, make_pass=self._pass_of_report)
        self.pass_of_report: Callable[[], object] | None = None
        self.exact, self.window = exact, WINDOW if exact == EXACT else exact + 1
        self.fewest, self.widest, self.min_rows = fewest, widest, min_rows
        planner = self._planner(window=self.window)
        self.settling = PlanExecutor(self.store, planner, self.ctx.namespace, BRANCH)
        self.watching = self._planner()
        self.canonical: dict[str, str] = {}
        self.plain: dict[str, str] = {}
        self.engine = self._engine()
        self.folders: dict[str, dict[str, File]] = {}
        self.flows: dict[str, dict[str, Component]] = {}
        self.paused: set[str] = set()
        self.daily: set[str] = set()  # transforms that are made anew each day
        self.forces: Counter[str] = Counter()  # how often a dataset was forced
        self.ranges: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)  # and parts of it
        self._texts: dict[str, str] = {}
        self.seen: set[Key] = set()
        self._pins: dict[str, tuple[Component, model.Seen | None]] = {}
        self._listings: dict[bytes, Folder] = {}  # root -> what was listed
        self._rest = Rest()
        self._is_busy = False  # work went on since the last rest
        self._known: set[str] = set()  # datasets that have been at rest once

    def _clock(self) -> float:
        return self._now

    def _lake(self) -> Lake:
        return MemoryLake()

    def _engine(self) -> Engine:
        return Engine(
            self.ctx, self.lake, self.canonical, self._listed, salt=self._salt, plain=self.plain
        )

    def close(self) -> None:
        self.store.close()

    # --- files ------------------------------------------------------------------------------------

    def _planner(self, window: int = 0) -> Planner:
        return Planner(self.store, branch=BRANCH, window=window, **self._thresholds())

    def _planned(self, tx: Tx, window: int = 0) -> Plan:
        """By nobody who remembers anything."""
        return plan_now(tx, BRANCH, None, window=window, **self._thresholds())[0]

    def _thresholds(self) -> Thresholds:
        return {
            "exact": self.exact,
            "fewest": self.fewest,
            "min_rows": self.min_rows,
            "widest": self.widest,
        }

    def put(self, folder: str, name: str, file: File) -> None:
        path = self.home / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text)
        self.folders.setdefault(folder, {})[name] = file

    def remove(self, folder: str, name: str) -> None:
        (self.home / folder / name).unlink()
        del self.folders[folder][name]

    def rename(self, folder: str, name: str, other: str) -> None:
        (self.home / folder / name).rename(self.home / folder / other)
        self.folders[folder][other] = self.folders[folder].pop(name)

    def touch(self, folder: str, name: str) -> None:
        os.utime(self.home / folder / name, (self._now, self._now))

    def _listed(self, id: str) -> None:
        """Remember what the folder held under the root that its listing came to."""
        self._note_listings(lambda listing: listing.id.hex() == id)

    def _note_listings(self, which: Callable[[Listing], bool]) -> None:
        with self.store.read() as tx:
            nodes = desired(tx, BRANCH)
            places = {n.listing: n.location for n in listings.sources(nodes, nodes.order)}
            found = tx.listings.get(places)
        for id, listing in found.items():
            if listing.root is not None and which(listing):
                self._listings[listing.root] = dict(self.folders[Path(places[id]).parent.name])

    # --- wishes -----------------------------------------------------------------------------------

    def apply(self, flows: Flows, styles: Mapping[str, int]) -> None:
        """Make these the dataflows, each component's text written in its style."""
        for gone in [f for f in self.flows if f not in flows]:
            blueprints.delete(self.ctx, BRANCH, gone)
            self.paused = {d for d in self.paused if not d.startswith(f"{gone}.")}
        texts = {flow: self._text(flow, parts, styles) for flow, parts in flows.items()}
        changed = [
            blueprints.SentBlueprint(f"/{f}.yaml", t, {})
            for f, t in texts.items()
            if self._texts.get(f) != t
        ]
        blueprints.apply(self.ctx, BRANCH, changed)
        self.flows, self._texts = {flow: dict(parts) for flow, parts in flows.items()}, texts

    def _text(self, flow: str, parts: Mapping[str, Component], styles: Mapping[str, int]) -> str:
        written = {
            name: self._component(flow, name, c, styles.get(f"{flow}.{name}", 0))
            for name, c in parts.items()
        }
        return json.dumps({"dataflow": flow, "components": written}, ensure_ascii=False)

    def _component(
        self, flow: str, name: str, component: Component, style: int
    ) -> dict[str, object]:
        match component:
            case Read():
                return {"read": self._read(component)}
            case Copy(source=source):
                path = str(self.home / "targets" / f"{flow}.{name}")
                return {
                    "write": {"connector": "files", "from": source, "path": path, "format": "json"}
                }
            case _:
                daily = {"volatile": "daily"} if f"{flow}.{name}" in self.daily else {}
                return {"transform": self._transform(component, style), **daily}

    def _transform(self, component: Transform, style: int) -> dict[str, object]:
        key: dict[str, object] = {}
        if isinstance(component, Near):
            key["partition_by"] = [{model.TIME: "hour"}]
        elif model.is_keyed(component):
            key["partition_by"] = [model.KEY]
        if isinstance(component, Script):
            text = component.restyled(style)
            self.canonical[text], self.plain[component.sql] = component.sql, component.plain
            return {
                "python": text,
                "entrypoint": "transform",
                "inputs": dict(component.modes),
                **key,
            }
        text = restyled(component.sql, style)
        self.canonical[text] = component.sql
        body: dict[str, object] = {"sql": text, "params": model.params_of(component)}
        if isinstance(component, Fold):
            return {
                **body,
                "schema": "k BIGINT, v BIGINT",
                "inputs": {model.SELF: "previous", **component.modes},
            }
        is_grouped = isinstance(component, Grouped) and not component.whole
        # Read by k once types are known
        is_met = isinstance(component, Meeting) and not component.dimension
        is_plain = isinstance(component, Further) or is_grouped or is_met
        if isinstance(component, Near):
            reach = {"mode": "by", "reach": component.reach}
            return {**body, **key, "inputs": {component.left: "by", component.right: reach}}
        return {**body, **key, **({} if is_plain or not key else {"inputs": dict(component.modes)})}

    def _read(self, read: Read) -> dict[str, object]:
        options = {"header": True} | ({"nullValue": read.null} if read.null else {})
        body: dict[str, object] = {
            "connector": "files",
            "path": f"{self.home}/{read.folder}/*.csv",
            "format": "csv",
            "options": options,
        }
        if read.grouped:
            body["partition"] = "{part}-*.csv"
        if read.declared:
            body["schema"] = ", ".join(f"{c} {_type(c)}" for c in read.declared)
        return body

    def pause(self, dataset: str, *, paused: bool) -> None:
        (controls.pause if paused else controls.resume)(self.ctx, BRANCH, dataset)
        (self.paused.add if paused else self.paused.discard)(dataset)

    def force(self, dataset: str) -> None:
        controls.refresh(self.ctx, BRANCH, dataset, force=True)
        self.forces[dataset] += 1

    def force_range(self, dataset: str, first: str, last: str) -> None:
        """`first` and `last` are partitions that it has."""
        controls.refresh(self.ctx, BRANCH, dataset, partitions=KeyRange(first, last))
        self.ranges[dataset].append((first, last))

    def partitions(self, dataset: str) -> list[str]:
        """Those of its present rows, without the one of an output that has no partitions."""
        with self.store.read() as tx:
            state = tx.states.newest(BRANCH, [dataset]).get(dataset)
            keys = [e.key for e in tree.scan(tx.nodes, state.root)] if state else []
        return [key for key in keys if key]

    def turn(self) -> None:
        """The next day, at noon."""
        self._now = (self._now // DAY_S + 1.5) * DAY_S

    def _salt(self, dataset: str, partition: str) -> object:
        """What makes its work its own, if anything does."""
        day = self._now // DAY_S if dataset in self.daily else None
        again = sum(first <= partition <= last for first, last in self.ranges[dataset])
        own = day, self.forces[dataset] + again
        return None if own == (None, 0) else (dataset, partition, own)

    def _keys(self, found: model.Derived) -> set[Key]:
        """Of all work that these are made with."""
        return {
            key if name.startswith("index ") else model.salted(key, self._salt(dataset, name))
            for dataset, (_, keys) in found.items()
            for name, key in keys.items()
        }

    # --- coming to rest ---------------------------------------------------------------------------

    def settle(self, faults: Faults = no_faults, *, listing: bool = True) -> None:
        """List everything, go on until nothing is left to do, and compare the world with the model.
        Without `listing`, nobody tells the loop that there is anything to do."""
        if listing:
            controls.refresh(self.ctx, BRANCH, None)
        last = self._run(faults)
        self._check(last.plan)

    def _run(self, faults: Faults) -> Pass:
        for _ in range(PASSES):
            last, worked = self.once(), False
            while self.engine.step(faults):
                worked = True
            if worked or last.changed:
                continue
            if not last.under_way and not self._is_listing():
                return last
            self._now += LONG_S
        raise Violation(f"no rest after {PASSES} passes (I7)")

    def once(self) -> Pass:
        """One pass of the loop, without the engine; what it commits is true of its own cut."""
        with self.store.begin() as tx:
            nodes = desired(tx, BRANCH)
            listings.dispatch(tx, BRANCH, listings.sources(nodes, nodes.order))
        return self.settled()

    def _pass_of_report(self) -> bool:
        if self.pass_of_report is not None:
            self.pass_of_report()
        return False

    def pass_between(self) -> None:
        """As the loop's while it waits. A listing with another root was reported just now."""
        self._note_listings(lambda listing: listing.root not in self._listings)
        self.settled()

    def settled(self) -> Pass:
        """A pass, with what it commits compared with its own cut."""
        self._check_kept_plan()
        last = self.settling.settle()
        for decision in last.plan.decisions:
            if isinstance(decision.step, Commit):
                self._check_cut(decision.step.state)
        return last

    def _check_kept_plan(self) -> None:
        """A planner that looks at what was marked says what planning from nothing says."""
        with self.watching.read_plan() as (kept, facts):
            fresh = self._planned(facts.tx)
        for ours, theirs in zip(kept.decisions, fresh.decisions, strict=True):
            require(ours == theirs, "a kept plan says", ours, "and not", theirs)

    def _is_listing(self) -> bool:
        with self.store.read() as tx:
            nodes = desired(tx, BRANCH)
            known = tx.listings.get(n.listing for n in listings.sources(nodes, nodes.order))
        return any(map(listings.is_open, known.values()))

    def advance(self, chance: random.Random, faults: Faults = no_faults) -> None:
        """Some of the work: perhaps a listing, a pass or two, a few claims."""
        self._is_busy = True
        if chance.random() < 0.6:
            controls.refresh(self.ctx, BRANCH, None)
        for _ in range(chance.randint(1, 3)):
            self.once()
            for _ in range(chance.randint(0, 4)):
                self.engine.step(faults)
            self._now += chance.choice([0.0, 2.0])

    # --- comparing --------------------------------------------------------------------------------

    def _check(self, plan: Plan) -> None:
        exempt = self._exempt()
        reads = self._reads(exempt)
        derived = model.derive(
            self.flows, {d: found for d, (found, _) in reads.items()}, self._transforms(exempt)
        )
        truth = {d: found for d, (found, _) in (reads | derived).items()}
        self._check_truth(truth)
        self._check_targets(truth, exempt)
        self._check_rest(plan, exempt)
        self._check_thrift(reads, derived, exempt)
        self._remember(reads, exempt)

    def _transforms(self, exempt: set[str]) -> list[str]:
        components = model.everything(self.flows)
        return [
            d for d, c in components.items() if d not in exempt and not isinstance(c, Read | Copy)
        ]

    def _exempt(self) -> set[str]:
        """What cannot be up to date: paused, or reading a broken file; and all below."""
        parts = model.everything(self.flows).items()
        broken = {
            d
            for d, c in parts
            if isinstance(c, Read) and any(f.broken for f in self._files(c).values())
        }
        return model.downstream(self.flows, self.paused | broken)

    def _files(self, read: Read) -> Folder:
        return self.folders[read.folder]

    def _reads(self, exempt: set[str]) -> dict[str, tuple[Dataset, dict[str, Key]]]:
        reads = {
            d: c
            for d, c in model.everything(self.flows).items()
            if isinstance(c, Read) and d not in exempt
        }
        return {
            d: model.read(c, self._files(c), self._seen(d, c, self._files(c)))
            for d, c in reads.items()
        }

    def _seen(self, dataset: str, read: Read, files: Folder) -> model.Seen:
        """Types are inferred by names, also of columns without a value."""
        seen = model.seen_of(files, self._pinned(dataset, read))
        return replace(seen, valued=frozenset(seen.places))

    def _pinned(self, dataset: str, read: Read) -> model.Seen | None:
        """Columns that were known before. Who reads what others had listed may have begun with
        their listing."""
        settings, seen = self._pins.get(dataset, (None, None))
        if settings == read:
            return seen
        files, _ = self._were().get(dataset, ({}, None))
        older = model.seen_of(files)
        with self.store.read() as tx:
            state = tx.states.newest(BRANCH).get(dataset)
        return (
            older
            if state is not None and older.places.keys() <= {*column_names(state.schema)}
            else None
        )

    def _check_truth(self, truth: Mapping[str, Dataset]) -> None:
        with self.store.read() as tx:
            states = tx.states.newest(BRANCH)
            for dataset, expected in truth.items():
                require(dataset in states, dataset, "has no state")
                self._check_dataset(tx, states[dataset], expected)
                self._check_indexes(tx, states[dataset], truth)

    def _check_indexes(self, tx: Tx, state: State, truth: Mapping[str, Dataset]) -> None:
        """Each names the partitions that hold a key, with the rows there, and the rows of the key
        in all of them."""
        component = model.everything(self.flows)[state.dataset]
        names = model.inputs_of(state.dataset, component)
        for name in (n for n in names if f"{n}/pairs" in state.inputs):
            parts = truth[names[name]].partitions.items()
            held = {p: model.by_key(Dataset(truth[names[name]].columns, {p: f})) for p, f in parts}
            wanted = {
                f"{key} {p}": len(rows) for p, keys in held.items() for key, rows in keys.items()
            }
            found = {
                e.key: e.content.rows
                for e in tree.scan(tx.nodes, state.inputs[f"{name}/pairs"].root)
            }
            require(found == wanted, state.dataset, "has as pairs", found, "and not", wanted)
            keys = Counter[str]()
            for pair, rows in wanted.items():
                keys[pair.split(" ")[0]] += rows
            sums = {
                e.key: e.content.rows
                for e in tree.scan(tx.nodes, state.inputs[f"{name}/keys"].root)
            }
            require(sums == keys, state.dataset, "has as keys", sums, "and not", keys)

    def _check_dataset(self, tx: Tx, state: State, expected: Dataset) -> None:
        columns = column_names(state.schema)
        require(
            columns == expected.columns,
            state.dataset,
            "has columns",
            columns,
            "and not",
            expected.columns,
        )
        found = {key: Counter(f.under(columns)) for key, f in self._partitions(tx, state)}
        wanted = {key: Counter(f.under(columns)) for key, f in expected.partitions.items()}
        require(found == wanted, state.dataset, "holds", found, "and not", wanted)
        require(state.rows == len(expected.rows()), state.dataset, "counts", state.rows, "rows")

    def _partitions(self, tx: Tx, state: State) -> Iterator[tuple[str, Fragment]]:
        entries = list(tree.scan(tx.nodes, state.root))
        fragments = tx.traces.fragments({e.fragment for e in entries})
        for entry in entries:
            files = [self.engine.fragment(f["path"]) for f in fragments[entry.fragment].files]
            columns = column_names(fragments[entry.fragment].schema)
            yield entry.key, Fragment(columns, tuple(r for f in files for r in f.under(columns)))

    def _check_cut(self, state: State) -> None:
        """Rows of a state equal what its own cut gives; columns that are all NULL aside, which a
        pin may have added."""
        components = model.everything(self.flows)
        reads = {
            d: model.read(c, files := self._listings[state.cut[d]], self._seen(d, c, files))[0]
            for d, c in components.items()
            if isinstance(c, Read) and d in state.cut
        }
        wanted = {state.dataset: reads[state.dataset]} if state.dataset in reads else {}
        if not wanted:
            wanted = {
                state.dataset: model.derive(self.flows, reads, [state.dataset])[state.dataset][0]
            }
        with self.store.read() as tx:
            found = {key: Counter(_bare(f)) for key, f in self._partitions(tx, state)}
        expected = {key: Counter(_bare(f)) for key, f in wanted[state.dataset].partitions.items()}
        require(found == expected, state.dataset, "mixes cuts:", found, "and not", expected)

    def _check_targets(self, truth: Mapping[str, Dataset], exempt: set[str]) -> None:
        for dataset, component in model.everything(self.flows).items():
            if isinstance(component, Copy) and dataset not in exempt:
                source = model.qualified(dataset.split(".")[0], component.source)
                self._check_target(dataset, truth[source], str(self.home / "targets" / dataset))

    def _check_target(self, dataset: str, expected: Dataset, path: str) -> None:
        found = {key: Counter(rows) for key, rows in self.engine.targets.get(path, {}).items()}
        wanted = {key: Counter(f.under(expected.columns)) for key, f in expected.partitions.items()}
        require(found == wanted, dataset, "was written as", found, "and not", wanted)

    def _check_rest(self, plan: Plan, exempt: set[str]) -> None:
        """Nothing is left to do (I7), and the plan says so twice in the same way (I8)."""
        with self.store.read() as tx:
            again = self._planned(tx, self.window)
        require(plan == again and repr(plan) == repr(again), "two plans of one world differ (I8)")
        for decision in plan.decisions:
            if decision.dataset in exempt:
                require(
                    decision.status != "up_to_date" or decision.dataset not in self._broken(exempt),
                    decision,
                )
                continue
            require(
                decision.status == "up_to_date",
                decision.dataset,
                "is",
                decision.status,
                decision.reason,
            )
            require(
                decision.step == Keep() and not decision.items,
                decision.dataset,
                "has work left (I7)",
                decision,
            )

    def _broken(self, exempt: set[str]) -> set[str]:
        return exempt - model.downstream(self.flows, self.paused)

    # --- thrift -----------------------------------------------------------------------------------

    def _check_thrift(self, reads: model.Derived, derived: model.Derived, exempt: set[str]) -> None:
        merged = {w.dataset for w in self.engine.done if w.key == MERGED}
        self.engine.done[:] = [w for w in self.engine.done if w.key != MERGED]
        executed = Counter(w.key for w in self.engine.done)
        again = [w for w in self.engine.done if executed[w.key] > 1 or w.key in self.seen]
        require(not again, "computed again:", again)
        needed = self._keys(reads | derived) - self.seen
        executed.update(
            k for d in merged & derived.keys() for k in self._keys({d: derived[d]}) if k in needed
        )
        if not exempt and self._rest.is_clean and not self._is_busy and not self._returning():
            allowed = self._allowed(reads, derived)
            wasted = [w for w in self.engine.done if w.key not in allowed and w.key[0] != PART]
            require(not wasted, "nobody needed", wasted)
        missing = needed - executed.keys()
        require(not missing, "not computed:", missing)
        self.seen |= executed.keys()
        self.engine.done.clear()

    def _allowed(self, reads: model.Derived, derived: model.Derived) -> set[Key]:
        """Keys that may have been needed on the way: where several sources changed, or code and a
        source, datasets that read both may have been computed in between, over any mixture of old
        and new."""
        allowed = self._keys(reads | derived)
        if self._moves_at_once():
            return allowed
        was = self._were()
        old = {d: was[d][1] for d in self._changed()}
        new = {d: found for d, (found, _) in reads.items()}
        for choice in itertools.product(*([d, None] for d in old)):
            mixed = model.derive(self.flows, new | {d: old[d] for d in choice if d is not None})
            allowed |= self._keys(mixed)
        return allowed

    def _returning(self) -> set[str]:
        """Datasets that were given up and are wished for again: what they were made of then may be
        long gone."""
        return (model.everything(self.flows).keys() & self._known) - self._rest.lineages.keys()

    def _changed(self) -> set[str]:
        """Read components with other files than when they were last listed."""
        components = model.everything(self.flows)
        return {
            d
            for d, (files, _) in self._were().items()
            if files != self._files(_as_read(components[d]))
        }

    def _were(self) -> dict[str, tuple[Folder, Dataset]]:
        """What read components began with: what they were at rest, or others that read in the same
        way."""
        known = {read: (files, found) for read, files, found in self._rest.reads.values()}
        own = {d: (files, found) for d, (_, files, found) in self._rest.reads.items()}
        components = model.everything(self.flows)
        reads = {d: c for d, c in components.items() if isinstance(c, Read) and c in known}
        return {
            d: own[d] if d in own and self._rest.reads[d][0] == c else known[c]
            for d, c in reads.items()
        }

    def _moves_at_once(self) -> bool:
        """No dataset can have been looked at between two changes of what it is made of."""
        changed = self._changed()
        if changed and self._lineages() != self._rest.lineages:
            return False
        return all(
            len(model.sources(self.flows, d) & changed) < 2 for d in model.everything(self.flows)
        )

    def _lineages(self) -> dict[str, Lineage]:
        components, found = model.everything(self.flows), dict[str, Lineage]()
        for dataset, c in components.items():
            above = tuple(found[d] for d in model.inputs_of(dataset, c).values())
            how = isinstance(c, Further) and c.keyed
            own = (
                c
                if isinstance(c, Read | Copy)
                else (model.code_of(c), how, *model.params_of(c).items(), *c.modes.items())
            )
            found[dataset] = (own, *above)
        return found

    def _remember(self, reads: model.Derived, exempt: set[str]) -> None:
        components = model.everything(self.flows)
        for dataset in reads:
            read = components[dataset]
            assert isinstance(read, Read)
            self._pins[dataset] = (read, self._seen(dataset, read, self._files(read)))
        kept: dict[str, tuple[Read, Folder, Dataset]] = {}
        for dataset, (found, _) in reads.items():
            read = components[dataset]
            assert isinstance(read, Read)
            kept[dataset] = (read, dict(self._files(read)), found)
        self._known |= components.keys()
        self._is_busy = False
        self._rest = Rest(kept, self._lineages(), not exempt)


def _type(column: str) -> str:
    if column == model.TIME:
        return "TIMESTAMP_NTZ"
    return "STRING" if column.startswith("s") else "BIGINT"


def _as_read(component: Component) -> Read:
    assert isinstance(component, Read)
    return component


def _bare(fragment: Fragment) -> Iterable[frozenset[tuple[str, model.Value]]]:
    for row in fragment.rows:
        yield frozenset((c, v) for c, v in zip(fragment.columns, row, strict=True) if v is not None)


def restyled(sql: str, style: int) -> str:
    """The same query in other words: comments, white space, the case of keywords and functions."""
    match style:
        case 1:
            return re.sub(r"\b[A-Z]{2,}\b", lambda m: m[0].lower(), sql)
        case 2:
            return sql.replace(" ", "  ").replace(",", " ,\n\t") + "\n-- the end"
        case 3:
            return "-- SELECT 1\n" + sql.replace(" FROM ", " /* from; here */ FROM\n").replace(
                "sum(", "SUM("
            )
        case _:
            return sql
