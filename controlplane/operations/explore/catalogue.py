"""A catalogue: datasets and copies by words and by common properties, with counts of the remaining
ones.

It examines only facts that planning has loaded, as a search does. Changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, get_args

from controlplane.core.model.answers.explore import (
    Catalogue,
    CatalogueHit,
    Facet,
    FacetName,
    FacetValue,
)
from controlplane.operations.context import Context
from controlplane.operations.desired import branches
from controlplane.operations.explore.graph import kind_of
from controlplane.operations.explore.search import SHOWN_MATCHES, Hit, hits, visible_decisions
from controlplane.operations.planning.snapshot import StoreSnapshot

PAGE: Final = 100
VALUES: Final = 10  # of a facet, the most frequent ones
FACETS: Final[Sequence[FacetName]] = get_args(FacetName)


def catalogue(
    ctx: Context,
    branch: str,
    query: str,
    chosen: Mapping[FacetName, str],
    *,
    skip: int = 0,
    limit: int = PAGE,
) -> Catalogue:
    """Those with all of the words and of the chosen values, the best first. `skip`: how many of
    them were shown."""
    with ctx.read_plan(branch) as (plan, facts):
        all_hits, notes = hits(ctx, plan, facts, query, as_shown=True)
        values = {hit.facts.name: _values(hit, facts) for hit in all_hits}
        fitting = [hit for hit in all_hits if _fits(values[hit.facts.name], chosen)]
        page = fitting[skip : skip + limit]
        own = branches.own_datasets(facts.tx, branch)
        return {
            "query": query,
            "chosen": dict(chosen),
            "total": len(visible_decisions(ctx, plan)),
            "found": len(fitting),
            "items": [_catalogue_hit(hit, facts, own) for hit in page],
            "facets": _facets(values.values(), chosen),
            "notes": notes,
            "next": skip + limit if len(fitting) > skip + limit else None,
        }


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


def _catalogue_hit(hit: Hit, facts: StoreSnapshot, own: frozenset[str] | None) -> CatalogueHit:
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
        "matches": [{"field": match.field, "text": match.text} for match in shown],
        "more": len(hit.matches) - len(shown),
    }
    if hit.freshness is not None:
        shown_hit["freshness"] = hit.freshness
    if own is not None and node.has_rows:
        shown_hit["own"] = dataset_facts.name in own
    return shown_hit
