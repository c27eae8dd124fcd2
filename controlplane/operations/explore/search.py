"""Datasets and copies by words: their names, columns, descriptions, tags, owners, states,
partitions. Changes nothing.

Searches the desired state and the states that planning has loaded: nothing is read for them. Does
not belong here: how words are matched (`core.search_words`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from controlplane.core import search_words, tree
from controlplane.core.errors import CorruptNode
from controlplane.core.model.answers import DatasetFreshness
from controlplane.core.model.answers.explore import SearchAnswer, SearchHit
from controlplane.core.plan import Decision, Plan
from controlplane.core.search_words import Facts, Match, Word
from controlplane.operations.context import Context
from controlplane.operations.explore.graph import description_of, kind_of
from controlplane.operations.inspect import data_age
from controlplane.operations.inspect.overview import as_known
from controlplane.operations.planning.snapshot import StoreSnapshot
from dataplane.contract.schemas import column_names

HITS: Final = 50
SHOWN_MATCHES: Final = 5  # of a hit
MOST_KEYED: Final = 200  # datasets whose partitions are looked at
SHOWN_KEYS: Final = 3  # of a dataset
OVERDUE: Final = "overdue"


@dataclass(slots=True)
class Hit:
    """A dataset or copy that may be found. `matches`: the best first."""

    decision: Decision
    facts: Facts
    matches: list[Match]
    missing: list[Word]  # words that are found nowhere so far
    freshness: DatasetFreshness | None = None  # where it is looked at and expected

    @property
    def rank(self) -> tuple[int, str]:
        """The best match of all decides, then the name."""
        return min((match.rank for match in self.matches), default=0), self.facts.name


def search(ctx: Context, branch: str, query: str, limit: int = HITS) -> SearchAnswer:
    """Those with all of the words, the best first; all of them in order of their names without a
    word."""
    with ctx.read_plan(branch) as (plan, facts):
        all_hits, notes = hits(ctx, plan, facts, query)
        shown = as_known(ctx, facts.tx, facts, [hit.decision for hit in all_hits[:limit]])
        items = [
            _search_hit(hit, decision, facts)
            for hit, decision in zip(all_hits, shown, strict=False)
        ]
    return {"query": query, "items": items, "total": len(all_hits), "notes": notes}


def hits(
    ctx: Context, plan: Plan, facts: StoreSnapshot, query: str, *, as_shown: bool = False
) -> tuple[list[Hit], list[str]]:
    """All hits, the best first, and notes on parts that were not searched. `as_shown`: with the
    states that pages show, not those that the plan alone knows."""
    words, notes = search_words.words_of(query), list[str]()
    decisions: Sequence[Decision] = visible_decisions(ctx, plan)
    if as_shown or any(word.field == "state" for word in words):
        decisions = as_known(ctx, facts.tx, facts, decisions)
    ages: Mapping[str, DatasetFreshness] = {}
    if as_shown or any(word.field == "is" for word in words):
        ages = data_age.of_snapshot(facts, (candidate.dataset for candidate in decisions))
    looked = [
        _looked_through(words, decision, facts, ages.get(decision.dataset))
        for decision in decisions
    ]
    matching = [hit for hit in looked if not hit.missing]
    candidates = [hit for hit in looked if _may_be_partition(hit)]
    matching += _with_partitions(candidates, facts, notes)
    matching.sort(key=lambda hit: hit.rank)
    return matching, notes


def visible_decisions(ctx: Context, plan: Plan) -> list[Decision]:
    """The decisions of datasets and copies that the actor may see."""
    return [decision for decision in plan.decisions if ctx.sees(decision.dataset)]


def _looked_through(
    words: Iterable[Word], decision: Decision, facts: StoreSnapshot, age: DatasetFreshness | None
) -> Hit:
    hit = Hit(decision, _facts(decision, facts, age), [], [], age)
    for word in words:
        matches = search_words.matches(word, hit.facts)
        hit.matches += matches
        if not matches:
            hit.missing.append(word)
    hit.matches.sort(key=lambda match: match.rank)
    return hit


def _facts(decision: Decision, facts: StoreSnapshot, age: DatasetFreshness | None) -> Facts:
    """A copy is not found by its columns: its dataset is."""
    name = decision.dataset
    node, state = facts.desired.nodes[name], facts.state(name)
    schema = state.schema if state is not None else node.declared
    component = node.component
    return Facts(
        name,
        columns=() if schema is None else column_names(schema),
        description=description_of(node),
        tags=component.tags,
        owner=component.owner,
        state=decision.status,
        marks=(OVERDUE,) if age and age["late"] else (),
    )


# --- partitions -----------------------------------------------------------------------------------


def _may_be_partition(hit: Hit) -> bool:
    """One word, of no kind, is found nowhere else."""
    return len(hit.missing) == 1 and hit.missing[0].field is None


def _with_partitions(
    candidates: Sequence[Hit], facts: StoreSnapshot, notes: list[str]
) -> list[Hit]:
    """Those that have a partition whose key begins with the word that is missing."""
    there = [hit for hit in candidates if facts.state(hit.facts.name) is not None]
    looked = there[:MOST_KEYED]
    if len(there) > len(looked):
        notes.append(
            f"partitions were looked for in {len(looked)} of {len(there)} datasets: add a word that says which"
        )
    roots = {
        hit.facts.name: state.root
        for hit in looked
        if (state := facts.state(hit.facts.name)) is not None
    }
    with suppress(CorruptNode):  # one tree that is damaged; the others are read one by one
        tree.warm(
            facts.nodes, ((roots[hit.facts.name], (hit.missing[0].written,)) for hit in looked)
        )
    matching = []
    for hit in looked:
        keys = _beginning_so(facts, roots[hit.facts.name], hit.missing[0].written)
        if keys:
            matching.append(replace(hit, matches=[*hit.matches, *keys], missing=[]))
    return matching


def _beginning_so(facts: StoreSnapshot, root: bytes, prefix: str) -> list[Match]:
    """Keys of a tree that begin with the prefix; empty where the tree is damaged, which `fsck`
    reports."""
    try:
        entries = list(islice(tree.scan(facts.nodes, root, prefix=prefix), SHOWN_KEYS))
    except CorruptNode:
        return []
    return [search_words.of_partition(entry.key) for entry in entries]


def _search_hit(hit: Hit, decision: Decision, facts: StoreSnapshot) -> SearchHit:
    node = facts.desired.nodes[hit.facts.name]
    shown = hit.matches[:SHOWN_MATCHES]
    return {
        "dataset": hit.facts.name,
        "kind": kind_of(node),
        "state": decision.status,
        "description": hit.facts.description,
        "matches": [{"field": match.field, "text": match.text} for match in shown],
        "more": len(hit.matches) - len(shown),
    }
