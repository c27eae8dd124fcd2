"""Dataflows that are compiled after others: what is as it was is taken over, and all else is as if
compiled alone."""

from __future__ import annotations

import pytest

from controlplane.core.compile.compiler import compile_revisions
from controlplane.core.compile.nodes import Desired
from controlplane.core.errors import InvalidBlueprint
from controlplane.core.model.revisions import Revision

BASE = """dataflow: base
components:
  raw:
    read: {connector: files, path: /data/*.csv, format: csv}
  clean:
    transform: {sql: "SELECT a FROM raw"}
"""
ABOVE = """dataflow: above
components:
  more:
    transform: {sql: "SELECT a + 1 AS a FROM base.clean"}
  most:
    transform: {sql: "SELECT max(a) AS a FROM more"}
"""
APART = "dataflow: apart\ncomponents:\n  raw:\n    read: {connector: files, path: /apart/*.csv, format: csv}\n"


def revision(text: str, number: int = 1) -> Revision:
    name = text.partition("\n")[0].removeprefix("dataflow: ")
    return Revision("main", name, number, text, {}, f"/{name}.yaml", {}, "ann", "r-1", 0.0)


def compiled(*texts: str, before: Desired | None = None, number: int = 1) -> Desired:
    return compile_revisions([revision(text, number) for text in texts], before=before).require()


def kept(before: Desired, after: Desired) -> set[str]:
    return {dataset for dataset, node in after.nodes.items() if node is before.nodes.get(dataset)}


def test_what_is_as_it_was_is_taken_over() -> None:
    before = compiled(BASE, ABOVE, APART)
    assert kept(before, compiled(BASE, ABOVE, APART, before=before)) == set(before.nodes)


@pytest.mark.parametrize(
    ("old", "new", "others"),
    [
        ("SELECT a FROM raw", "SELECT a, b FROM raw", {"apart.raw"}),
        ("/data/*.csv", "/other/*.csv", {"apart.raw"}),
        ("SELECT a FROM raw", "SELECT a -- the same\\n FROM raw", {"apart.raw"}),
        ("max(a)", "min(a)", {"apart.raw", "base.raw", "base.clean"}),
        ("/apart/", "/elsewhere/", {"base.raw", "base.clean", "above.more", "above.most"}),
    ],
)
def test_an_edit_compiles_its_dataflow_and_those_downstream(
    old: str, new: str, others: set[str]
) -> None:
    texts = [text.replace(old, new) for text in (BASE, ABOVE, APART)]
    before = compiled(BASE, ABOVE, APART)
    after = compiled(*texts, before=before)
    assert after == compiled(*texts)
    assert kept(before, after) == others


def test_another_number_or_uid_is_another_revision() -> None:
    before = compiled(BASE)
    assert kept(before, compiled(BASE, before=before, number=2)) == set()
    renamed = Revision(
        "main", "base", 1, BASE, {}, "/base.yaml", {"raw": "other"}, "ann", "r-1", 0.0
    )
    assert compile_revisions([renamed], before=before).require().nodes["base.raw"].uid == "other"


def test_a_dataflow_that_went_is_missed() -> None:
    with pytest.raises(InvalidBlueprint, match=r"base\.clean"):
        compiled(ABOVE, before=compiled(BASE, ABOVE))


def test_a_dataflow_that_comes_back_is_compiled() -> None:
    first = compiled(BASE, ABOVE)
    without = compiled(BASE, before=first)
    assert compiled(BASE, ABOVE, before=without) == first
