"""Merging texts: laws, what is taken, and what is a conflict."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.merging import spans
from controlplane.core.merging.three_way import Side, merge

HEAD = "dataflow: shop  # ours\ncomponents:\n"
A, B, C = (f"  # about {n}\n  {n}:\n    transform: {{sql: SELECT 1 AS {n}}}\n" for n in "abc")
B2 = B.replace("SELECT 1", "SELECT 2")
B3 = B.replace("SELECT 1", "SELECT 3")


def text(*parts: str) -> str:
    return HEAD + "".join(parts)


def test_parts_together_are_the_text() -> None:
    whole = text(A, "\n", B) + "# the end\n"
    parts = spans.split(whole)
    assert parts is not None
    assert parts.components == {"a": A + "\n", "b": B}
    assert (parts.head, parts.tail, parts.text) == (HEAD, "# the end\n", whole)


@pytest.mark.parametrize(
    "text", ["dataflow: x\ncomponents: {a: {}, b: {}}\n", "[1]", "a: [", "dataflow: x\n", "components:\n  {a: {}}\n"]
)
def test_a_text_in_another_form_has_no_parts(text: str) -> None:
    assert spans.split(text) is None


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "merged", "taken"),
    [
        (text(A, B), text(A, B), text(A, B2), text(A, B2), ("b",)),  # ours did not move: theirs as it is
        (text(A, B), text(A, B2), text(A, B), text(A, B2), ()),
        (text(A, B), text(A, B, C), text(A, B2), text(A, B2, C), ("b",)),
        (text(A, B), text(A, B2), text(A, B2, C), text(A, B2, C), ("c",)),
        (text(A, B), text(A, C, B), text(B), text(C, B), ()),
        (text(A, B), text(A, B2), text(A.replace("SELECT 1", "SELECT 9"), B), None, ("a",)),
    ],
)
def test_what_one_side_changed_is_taken(
    base: str, ours: str, theirs: str, merged: str | None, taken: tuple[str, ...]
) -> None:
    found = merge(base, ours, theirs)
    assert not found.conflicts
    assert found.text == (merged or text(A.replace("SELECT 1", "SELECT 9"), B2))
    assert found.taken == taken


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "component", "kind"),
    [
        (text(A, B), text(A, B2), text(A, B3), "b", "both-edited"),
        (text(A, B), text(A), text(A, B3), "b", "edit-delete"),
        (text(A, B), text(A, B2), text(A), "b", "edit-delete"),
        (text(A), text(A, B2), text(A, B3), "b", "both-added"),
        (text(A), text(A).replace("# ours", "# us"), text(A).replace("# ours", "# they"), "", "both-edited"),
        (text(A), text(A, B), "dataflow: shop\ncomponents: {a: {}}\n", "", "not-mergeable"),
    ],
)
def test_what_both_changed_is_a_conflict(base: str, ours: str, theirs: str, component: str, kind: str) -> None:
    (conflict,) = merge(base, ours, theirs).conflicts
    assert (conflict.component, conflict.kind) == (component, kind)


@pytest.mark.parametrize(("side", "expected"), [("ours", B2), ("theirs", B3)])
def test_a_conflict_is_settled_by_taking_a_side(side: Side, expected: str) -> None:
    found = merge(text(A, B), text(A, B2), text(A, B3), {"b": side})
    assert (found.text, found.conflicts) == (text(A, expected), ())


bodies = st.dictionaries(st.sampled_from("abcde"), st.sampled_from("123"), max_size=4)


def blueprint(components: dict[str, str]) -> str:
    parts = (f"  {n}:\n    transform: {{sql: SELECT {v}}}\n" for n, v in components.items())
    return HEAD + "".join(parts) if components else HEAD.replace("components:\n", "components: {}\n")


def named(text: str) -> dict[str, str]:
    parts = spans.split(text)
    return {name: part.strip() for name, part in parts.components.items()} if parts else {}


@given(bodies, bodies, bodies)
def test_laws(base: dict[str, str], ours: dict[str, str], theirs: dict[str, str]) -> None:
    b, o, t = blueprint(base), blueprint(ours), blueprint(theirs)
    assert merge(b, b, t).text == t
    assert merge(b, o, b).text == o
    assert merge(b, o, o).text == o
    one, other = merge(b, o, t), merge(b, t, o)
    assert len(one.conflicts) == len(other.conflicts)
    if not one.conflicts:
        assert named(one.text) == named(other.text)  # but for their order
        assert merge(b, one.text, t).text == one.text  # merging twice changes nothing
