"""What is known about each query of the corpus. A digest that moves here recomputes datasets of
users."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.core.sql import AnalysedQuery, analyse, apply_edits
from tests.unit.sql.queries import CORPUS

pytestmark = pytest.mark.unit
_COLUMNS = ("a", "b", "carrier", "k", "x")


def _labelled(query: AnalysedQuery, name: str) -> str | None:
    edits = query.label_edits(name)
    if edits is None:
        return None
    return apply_edits(query.text, edits) if edits else "same"


@pytest.mark.parametrize("known", CORPUS, ids=lambda entry: entry["sql"][:60])
def test_query(known: dict[str, Any]) -> None:
    query = analyse(known["sql"])

    assert query.digest.hex() == known["digest"]
    assert [f"{ref.name} {ref.alias}".strip() for ref in query.references] == known["reads"]
    assert query.parameters == frozenset(known.get("parameters", ()))
    assert [v.construct for v in query.volatile] == known.get("volatile", [])
    assert query.parsed == known.get("parsed", True)
    names = query.named_columns(_COLUMNS)
    assert (names if names is None else list(names)) == (
        None if known["names"] == "all" else known["names"]
    )


@pytest.mark.parametrize(
    "known", [e for e in CORPUS if e["reads"]], ids=lambda entry: entry["sql"][:60]
)
def test_modes(known: dict[str, Any]) -> None:
    query = analyse(known["sql"])
    each = [ref.name for ref in query.references if query.mode(ref.name).mode == "each"]

    expected = known.get("each", [])
    assert each == ([expected] if isinstance(expected, str) else expected)
    if each:
        assert _labelled(query, each[0]) == known["labelled"]
    else:
        assert query.mode(query.references[0].name).reason == known["because"]


def test_the_corpus_is_of_different_queries() -> None:
    assert len(CORPUS) > 60
    assert len({entry["digest"] for entry in CORPUS}) == len(CORPUS)
