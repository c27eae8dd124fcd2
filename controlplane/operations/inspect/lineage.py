"""The origin of the columns and partitions of a dataset, and all that depends on them. Changes
nothing.

Column lineage is that of present code; for a generation of earlier code, of that code.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from controlplane.core import tree
from controlplane.core.compile.nodes import Desired
from controlplane.core.errors import NotFound
from controlplane.core.explain.change_authors import Audit
from controlplane.core.lineage import column_links, partition_lineage
from controlplane.core.lineage.column_links import LineageLink, LineageLinks
from controlplane.core.lineage.facet import facet
from controlplane.core.lineage.of_node import Edge, Lineages, NodeLineage
from controlplane.core.lineage.partition_lineage import OBJECTS, PartitionsAtRoot
from controlplane.core.model.addresses import Point
from controlplane.core.model.answers.lineage import (
    ColumnLink,
    Direction,
    LineageAnswer,
    LineageComponent,
    LineageObjects,
    LineagePartitions,
    Provenance,
)
from controlplane.core.model.states import State
from controlplane.core.tree import NodeCache
from controlplane.operations.context import Context
from controlplane.operations.inspect import json_views, part_views
from controlplane.operations.inspect.causes import CHANGES_READ
from controlplane.operations.inspect.datasets import kept_states
from controlplane.operations.inspect.time_travel import no_dataset, state_of
from controlplane.operations.planning.edit_review import StoredFacts
from controlplane.operations.planning.snapshot import CACHE_BYTES, desired
from controlplane.ports.lake import ObjectStore
from controlplane.ports.store import Tx
from dataplane.contract.results import MANIFEST

SHOWN_LINKS: Final = 1_000
MOST_COMPONENTS: Final = 2_000  # that read a dataset, directly or not
SEARCHED_STATES: Final = 200  # of an input, for the one that had a root
SEARCHED_PARTITIONS: Final = 100_000  # of a listing, for an object
_PAGE: Final = 500


@dataclass(frozen=True, slots=True)
class LineageRequest:
    """The lineage of a dataset: a column (all of them by default), a partition, a generation or
    time (the newest state by default). `object`: a source object of a read component, in place of a
    partition."""

    dataset: str
    column: str | None = None
    partition: str | None = None
    point: Point | None = None
    direction: Direction = "upstream"
    object: str | None = None
    limit: int = SHOWN_LINKS


def lineage(
    ctx: Context, branch: str, request: LineageRequest, lake: ObjectStore | None = None
) -> LineageAnswer:
    """Raises NotFound for a dataset, column, partition, generation or object that there is not."""
    with ctx.read() as tx:  # without a plan, whose lock others wait for
        present = desired(tx, branch, namespace=ctx.namespace)
        if request.dataset not in present.nodes:
            raise no_dataset(branch, request.dataset, filter(ctx.sees, present.nodes))
        nodes = NodeCache(CACHE_BYTES).over(tx.nodes)
        return _LineageAnswer(
            ctx, tx, branch, request=request, present=present, nodes=nodes, lake=lake
        ).answer()


def stored_facts(tx: Tx, branch: str, code: Desired, datasets: Iterable[str]) -> StoredFacts:
    """Stored facts of these datasets and of all their upstream."""
    names = set(datasets)
    names |= code.graph.upstream(names)
    sources = [node for name in sorted(names) if (node := code.nodes[name]).is_source]
    return StoredFacts(
        tx,
        tx.states.newest(branch, sorted(names)),
        tx.states.pinned_schemas(branch, [node.dataset for node in sources]),
        tx.listings.get(node.listing for node in sources),
    )


@dataclass(slots=True)
class _LineageAnswer:
    ctx: Context
    tx: Tx
    branch: str
    request: LineageRequest
    present: Desired
    nodes: tree.NodeStore
    lake: ObjectStore | None

    def answer(self) -> LineageAnswer:
        request, notes = self.request, list[str]()
        state = self._state()
        code = self._code(state, notes)
        readers = self._readers(code, notes)
        facts = stored_facts(self.tx, self.branch, code, [request.dataset, *readers])
        lineages = Lineages(code, facts)
        lineages.prepare([request.dataset, *readers])
        chosen = self._columns(lineages)
        link_set = self._links(lineages, chosen, readers)
        parts = [
            part for part in self._parts(code, facts, state, notes) if self.ctx.sees(part.dataset)
        ]
        left = max(len(link_set.datasets), len(parts)) - request.limit
        if left > 0:
            notes.append(f"{left} more components are on the way")
        return {
            "dataset": request.dataset,
            "partition": request.partition,
            "columns": chosen,
            "direction": request.direction,
            "provenance": None if state is None else self._provenance(state),
            "components": [
                self._component(lineages, name) for name in islice(link_set.datasets, request.limit)
            ],
            "links": [_link(shown_part) for shown_part in link_set.links],
            "more": link_set.left_out,
            "partitions": [self._shown(shown_part) for shown_part in parts[: request.limit]],
            "objects": list(self._objects(code, parts)) if request.direction == "upstream" else [],
            "facet": facet(
                self._visible(lineages.of(request.dataset)),
                f"headgate://{self.ctx.namespace}/{self.branch}",
            ),
            "notes": notes,
        }

    # --- the answer -------------------------------------------------------------------------------

    def _state(self) -> State | None:
        """None where nothing was committed, or for a write component."""
        request = self.request
        if request.point is not None:
            return state_of(self.tx, self.branch, request.dataset, request.point)
        state = self.tx.states.newest(self.branch, [request.dataset]).get(request.dataset)
        if state is None and request.partition is not None:
            raise NotFound(f"dataset {request.dataset} has no committed data yet")
        return state

    def _code(self, state: State | None, notes: list[str]) -> Desired:
        """Present code; with the dataflow as it was where the generation is of other code."""
        if state is None or self.request.point is None:
            return self.present
        return part_views.code_of(
            self.tx, self.ctx.namespace, self.branch, self.present, state, notes
        )

    def _readers(self, code: Desired, notes: list[str]) -> list[str]:
        """All that may depend on the dataset, in order: the first, where there are very many."""
        if self.request.direction == "upstream":
            return []
        below = code.graph.downstream({self.request.dataset})
        readers = [name for name in code.order if name in below]
        if left_out := sum(map(self.ctx.sees, readers[MOST_COMPONENTS:])):
            notes.append(f"{left_out} more components read it, directly or not: not looked at")
        return readers[:MOST_COMPONENTS]

    def _columns(self, lineages: Lineages) -> list[str]:
        name, own = self.request.column, lineages.of(self.request.dataset)
        if name is None:
            return list(own.fields)
        column = own.column(name)
        if column is None:
            there = ", ".join(list(own.fields)[:12]) or "none that is known yet"
            raise NotFound(
                f"dataset {self.request.dataset} has no column {name!r}; there is {there}"
            )
        return [column]

    def _links(self, lineages: Lineages, chosen: list[str], readers: list[str]) -> LineageLinks:
        request, links = self.request, LineageLinks(self.request.limit, self.ctx.sees)
        if request.direction == "upstream":
            return column_links.upstream(lineages, request.dataset, chosen, links)
        return column_links.downstream(lineages, readers, request.dataset, chosen, links)

    def _visible(self, lineage: NodeLineage) -> NodeLineage:
        def visible(edges: Iterable[Edge]) -> tuple[Edge, ...]:
            return tuple(edge for edge in edges if self.ctx.sees(edge.dataset))

        fields = {column: visible(edges) for column, edges in lineage.fields.items()}
        return replace(lineage, fields=fields, rows=visible(lineage.rows))

    def _component(self, lineages: Lineages, dataset: str) -> LineageComponent:
        of, node = lineages.of(dataset), lineages.desired.nodes[dataset]
        location = node.location if node.is_source else node.path if node.is_copy else None
        return {
            "dataset": dataset,
            "kind": of.kind,
            "by": of.by,
            "location": location,
            "over_reported": list(of.over_reported),
        }

    # --- partitions -------------------------------------------------------------------------------

    def _parts(
        self, code: Desired, facts: StoredFacts, state: State | None, notes: list[str]
    ) -> Iterator[PartitionsAtRoot]:
        request, nodes = self.request, self.nodes
        if state is None:
            return
        if request.partition is not None and request.partition not in tree.lookup(
            nodes, state.root, [request.partition]
        ):
            raise NotFound(f"dataset {request.dataset} has no partition {request.partition!r}")
        if request.direction == "upstream":
            yield from partition_lineage.upstream(
                code, nodes, self._state_of_root, state, request.partition
            )
            return
        keys = None if request.partition is None else frozenset((request.partition,))
        if request.object is not None:
            keys = self._holding(code, facts, request.object)
            notes.append(
                f"{request.object} is in " + ", ".join(sorted(key or "(whole)" for key in keys))
            )
        yield from partition_lineage.downstream(code, nodes, facts.states, request.dataset, keys)

    def _state_of_root(self, dataset: str, root: bytes) -> State | None:
        states = islice(kept_states(self.tx, self.branch, dataset), SEARCHED_STATES)
        return next((state for state in states if state.root == root), None)

    def _holding(self, code: Desired, facts: StoredFacts, uri: str) -> frozenset[str]:
        """The partitions of the read component that an object is in."""
        node = code.nodes[self.request.dataset]
        listing = facts.listing(node.listing) if node.is_source else None
        if not node.is_source or listing is None or listing.root is None:
            raise NotFound(
                f"{self.request.dataset} is no read component with a listing: only such have source objects"
            )
        keys = (entry.key for entry in tree.scan(self.nodes, listing.root))
        searched = islice(keys, SEARCHED_PARTITIONS)
        while page := list(islice(searched, _PAGE)):
            there = self.tx.listings.partitions_of({node.listing: page})[node.listing]
            holding = {
                key
                for key, part in there.items()
                if any(uri in (o["uri"], o["name"]) for o in part.objects)
            }
            if holding:
                return frozenset(holding)
        raise NotFound(f"the last listing of {node.location} has no object {uri!r}")

    def _shown(self, parts: PartitionsAtRoot) -> LineagePartitions:
        return part_views.partitions(self.nodes, parts)

    def _objects(self, code: Desired, parts: list[PartitionsAtRoot]) -> Iterator[LineageObjects]:
        for part in parts:
            node = code.nodes.get(part.dataset)
            if (
                node is not None
                and node.is_source
                and part.state is not None
                and OBJECTS in part.state.inputs
            ):
                yield part_views.objects(
                    self.tx, self.nodes, node, part.keys, part.state.inputs[OBJECTS].root
                )

    # --- provenance -------------------------------------------------------------------------------

    def _provenance(self, state: State) -> Provenance:
        tx, flow = self.tx, state.dataset.partition(".")[0]
        audit = Audit(
            tx.audit.changes(self.branch, CHANGES_READ), tx.blueprints.revisions(self.branch)
        )
        attempt, versions = None, None
        if self.request.partition is not None:
            entry = tree.lookup(self.nodes, state.root, [self.request.partition]).get(
                self.request.partition
            )
            fragment = tx.traces.fragments([entry.fragment]).get(entry.fragment) if entry else None
            if fragment is not None:
                attempt = fragment.attempt
                versions = self._versions(attempt, [f["path"] for f in fragment.files])
        return {
            "generation": state.generation,
            "at": json_views.instant(state.at),
            "revision": state.revision,
            "actor": audit.applied_by(flow, state.revision) or None,
            "logic": state.logic.hex(),
            "attempt": attempt,
            "versions": versions,
        }

    def _versions(self, attempt: str, files: list[str]) -> dict[str, str] | None:
        """By the manifest of the attempt, beside its files."""
        if self.lake is None or not files or f"/{attempt}/" not in files[0]:
            return None
        prefix = files[0].partition(f"/{attempt}/")[0]
        try:
            manifest = json.loads(self.lake.read(f"{prefix}/{attempt}/{MANIFEST}"))
        except (NotFound, OSError, ValueError, RecursionError):
            return None
        versions = manifest.get("versions") if isinstance(manifest, Mapping) else None
        if not isinstance(versions, Mapping):
            return None
        return {
            str(name)[:100]: str(version)[:100] for name, version in islice(versions.items(), 10)
        }


def _link(column_link: LineageLink) -> ColumnLink:
    return {
        "dataset": column_link.dataset,
        "column": column_link.column,
        "of_dataset": column_link.of_dataset,
        "of_column": column_link.of_column,
        "steps": list(column_link.steps),
    }
