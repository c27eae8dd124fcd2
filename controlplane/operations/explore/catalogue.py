"""A catalogue: datasets and copies by words and by common properties, with counts of the remaining
ones.

It examines only facts that planning has loaded, as a search does. Changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Literal, TypeAlias, get_args

from controlplane.core.model.answers.explore import (
    Catalogue,
    CatalogueHit,
    Facet,
    FacetName,
    FacetValue,
)
from controlplane.core.plan.plan_values import SEVERITY
from controlplane.operations.context import Context
from controlplane.operations.desired import branches
from controlplane.operations.explore.graph import kind_of
from controlplane.operations.explore.search import SHOWN_MATCHES, Hit, hits, visible_decisions
from controlplane.operations.inspect import json_views
from controlplane.operations.inspect.data_age import LastChanges
from controlplane.operations.planning.snapshot import StoreSnapshot

PAGE: Final = 100
VALUES: Final = 10  # of a facet, the most frequent ones
MOST_BY_TIME: Final = 400  # datasets: the time of each is looked up
Sort: TypeAlias = Literal["", "name", "state", "updated", "rows", "partitions"]
SORTS: Final[Sequence[Sort]] = get_args(Sort)
FACETS: Final[Sequence[FacetName]] = get_args(FacetName)


def catalogue(
    ctx: Context,
    branch: str,
    query: str,
    chosen: Mapping[FacetName, str],
    *,
    sort: Sort = "",
    skip: int = 0,
    limit: int = PAGE,
) -> Catalogue:
    """Those with all of the words and of the chosen values, the best first, or by what `sort` says.
    `skip`: how many of them were shown."""
    with ctx.read_plan(branch) as (plan, facts):
        all_hits, notes = hits(ctx, plan, facts, query, as_shown=True)
        values = {hit.facts.name: _values(hit, facts) for hit in all_hits}
        fitting = [hit for hit in all_hits if _fits(values[hit.facts.name], chosen)]
        if sort == "updated" and len(fitting) > MOST_BY_TIME:
            notes.append(f"more than {MOST_BY_TIME} datasets are not sorted by time: filter first")
            sort = ""
        changed = _changed(facts, branch, fitting) if sort == "updated" else {}
        if sort:
            fitting.sort(key=lambda hit: _rank(hit, facts, changed, sort))
        page = fitting[skip : skip + limit]
        changed = changed or _changed(facts, branch, page)
        own = branches.own_datasets(facts.tx, branch)
        return {
            "query": query,
            "chosen": dict(chosen),
            "total": len(visible_decisions(ctx, plan)),
            "found": len(fitting),
            "items": [_catalogue_hit(hit, facts, own, changed) for hit in page],
            "facets": _facets(values.values(), chosen),
            "notes": notes,
            "next": skip + limit if len(fitting) > skip + limit else None,
        }


def _changed(facts: StoreSnapshot, branch: str, hits: Iterable[Hit]) -> dict[str, float]:
    """When the rows of each dataset changed last."""
    states = {hit.facts.name: facts.state(hit.facts.name) for hit in hits}
    committed = {name: state for name, state in states.items() if state is not None}
    return LastChanges().times(facts.tx, branch, committed) if committed else {}


def _rank(
    hit: Hit, facts: StoreSnapshot, changed: Mapping[str, float], sort: Sort
) -> tuple[float, str]:
    """Names go up, numbers and times down, states from the worst."""
    name, state = hit.facts.name, facts.state(hit.facts.name)
    match sort:
        case "state":
            return -SEVERITY.index(hit.decision.status), name
        case "updated":
            return -changed.get(name, 0.0), name
        case "rows":
            return -(state.rows if state else -1), name
        case "partitions":
            return -(state.partitions if state else -1), name
        case _:
            return 0.0, name


def _values(hit: Hit, facts: StoreSnapshot) -> Mapping[FacetName, Sequence[str]]:
    """What a hit has of each facet."""
    dataset_facts = hit.facts
    return {
        "state": (hit.decision.status,),
        "is": dataset_facts.marks,
        "kind": (kind_of(facts.desired.nodes[dataset_facts.name]),),
        "flow": (dataset_facts.name.partition(".")[0],),
        "owner": (dataset_facts.owner,) if dataset_facts.owner else (),
        "tag": dataset_facts.tags,
    }


def _fits(values: Mapping[FacetName, Sequence[str]], chosen: Mapping[FacetName, str]) -> bool:
    return all(value in values[name] for name, value in chosen.items())


def _facets(
    every: Iterable[Mapping[FacetName, Sequence[str]]], chosen: Mapping[FacetName, str]
) -> list[Facet]:
    """Each facet counts the datasets that fit the choices in all other facets."""
    counts: dict[FacetName, Counter[str]] = {name: Counter() for name in FACETS}
    for values in every:
        wrong = [name for name, value in chosen.items() if value not in values[name]]
        if len(wrong) > 1:
            continue
        for name in wrong or FACETS:
            counts[name].update(values[name])
    return [
        {"name": name, "values": _rendered_values(counts[name], chosen.get(name))}
        for name in FACETS
    ]


def _rendered_values(counts: Counter[str], chosen: str | None) -> list[FacetValue]:
    """The chosen one is always among them."""
    ranked = sorted(counts, key=lambda value: (-counts[value], value))
    shown = ranked[:VALUES]
    if chosen is not None and chosen not in shown:
        shown.append(chosen)
    return [
        {"value": value, "count": counts[value], "is_chosen": value == chosen} for value in shown
    ]


def _catalogue_hit(
    hit: Hit, facts: StoreSnapshot, own: frozenset[str] | None, changed: Mapping[str, float]
) -> CatalogueHit:
    dataset_facts, state = hit.facts, facts.state(hit.facts.name)
    node, shown = facts.desired.nodes[dataset_facts.name], hit.matches[:SHOWN_MATCHES]
    shown_hit: CatalogueHit = {
        "name": dataset_facts.name,
        "kind": kind_of(node),
        "state": hit.decision.status,
        "reason": hit.decision.reason or None,
        "description": dataset_facts.description,
        "owner": dataset_facts.owner,
        "tags": list(dataset_facts.tags),
        "partitions": None if state is None else state.partitions,
        "rows": None if state is None else state.rows,
        "updated": json_views.when(changed.get(dataset_facts.name)),
        "matches": [{"field": match.field, "text": match.text} for match in shown],
        "more": len(hit.matches) - len(shown),
    }
    if hit.freshness is not None:
        shown_hit["freshness"] = hit.freshness
    if own is not None and node.has_rows:
        shown_hit["own"] = dataset_facts.name in own
    return shown_hit
