"""Merging texts: laws, what is taken, and what is a conflict."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.core.merging import identities, spans, three_way
from controlplane.core.merging.spans import ComponentPart, Unit
from controlplane.core.merging.text_merge import Merged, merge_dataflow
from controlplane.core.merging.three_way import Components, Side
from controlplane.core.model.revisions import Revision

HEAD = "dataflow: shop  # ours\ncomponents:\n"
A, B, C = (f"  # about {n}\n  {n}:\n    transform: {{sql: SELECT 1 AS {n}}}\n" for n in "abc")
B2 = B.replace("SELECT 1", "SELECT 2")
B3 = B.replace("SELECT 1", "SELECT 3")
D = B.replace("  b:", "  d:")  # b under another name
OWNED = B + "    owner: ann  # asks bob\n"
TAGGED = B.replace("    transform", "    tags: [x]\n    transform")
FILE = "  f:\n    transform: {python: {file: f.py, entrypoint: f}}\n"


def revision(
    text: str, uids: Mapping[str, str] | None = None, files: Mapping[str, str] | None = None
) -> Revision:
    return Revision(
        branch="main",
        dataflow="shop",
        number=1,
        text=text,
        files=files or {},
        file="/shop.yaml",
        uids=uids or {},
        actor="ann",
        request_id="r",
        at=0.0,
    )


def merge(base: str, ours: str, theirs: str, take: Mapping[str, Side] | None = None) -> Merged:
    return merge_dataflow(revision(base), revision(ours), revision(theirs), take)


def text(*parts: str) -> str:
    return HEAD + "".join(parts)


def test_parts_together_are_the_text() -> None:
    whole = text(A, "\n", B) + "# the end\n"
    parts = spans.split(whole)
    assert parts is not None
    assert {name: part.text for name, part in parts.components.items()} == {"a": A + "\n", "b": B}
    assert (parts.head.text, parts.tail.text, parts.text) == (HEAD, "# the end\n", whole)


@pytest.mark.parametrize(
    "text",
    [
        "dataflow: x\ncomponents: {a: {}, b: {}}\n",
        "[1]",
        "a: [",
        "dataflow: x\n",
        "components:\n  {a: {}}\n",
    ],
)
def test_a_text_in_another_form_has_no_parts(text: str) -> None:
    assert spans.split(text) is None


@pytest.mark.parametrize(
    ("base", "ours", "theirs", "merged", "taken"),
    [
        # Ours did not move: theirs as it is
        (text(A, B), text(A, B), text(A, B2), text(A, B2), ("b",)),
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
        (text(A, B), text(A, B2), text(A, B3), "b", "both_edited"),
        (text(A, B), text(A), text(A, B3), "b", "edit_delete"),
        (text(A, B), text(A, B2), text(A), "b", "edit_delete"),
        (text(A), text(A, B2), text(A, B3), "b", "both_added"),
        (
            text(A),
            text(A).replace("# ours", "\ntimezone: UTC"),
            text(A).replace("# ours", "\ntimezone: CET"),
            "",
            "both_edited",
        ),
        (text(A), text(A, B), "dataflow: shop\ncomponents: {a: {}}\n", "", "not_mergeable"),
    ],
)
def test_what_both_changed_is_a_conflict(
    base: str, ours: str, theirs: str, component: str, kind: str
) -> None:
    (conflict,) = merge(base, ours, theirs).conflicts
    assert (conflict.name, conflict.kind) == (component, kind)


@pytest.mark.parametrize(("side", "expected"), [("ours", B2), ("theirs", B3)])
def test_a_conflict_is_settled_by_taking_a_side(side: Side, expected: str) -> None:
    found = merge(text(A, B), text(A, B2), text(A, B3), {"b": side})
    assert (found.text, found.conflicts) == (text(A, expected), ())


U = {"a": "ua", "b": "ub", "c": "uc"}
RENAMED = {"a": "ua", "d": "ub"}
AB = {"a": "ua", "b": "ub"}


def test_a_rename_and_an_edit_come_together() -> None:
    base = revision(text(A, B), AB)
    one = merge_dataflow(base, revision(text(A, B2), AB), revision(text(A, D), RENAMED))
    other = merge_dataflow(base, revision(text(A, D), RENAMED), revision(text(A, B2), AB))
    assert one.text == other.text == text(A, D.replace("SELECT 1", "SELECT 2"))
    assert one.uids == other.uids == RENAMED
    assert (one.taken, other.taken) == (("d",), ("d",))


def test_two_names_for_one_component_are_a_conflict() -> None:
    theirs = revision(text(A, B.replace("  b:", "  e:")), {"a": "ua", "e": "ub"})
    (conflict,) = merge_dataflow(
        revision(text(A, B), U), revision(text(A, D), RENAMED), theirs
    ).conflicts
    assert (conflict.name, conflict.kind) == ("d", "both_edited")
    assert conflict.ours is not None
    assert (conflict.ours.line, conflict.ours.column, conflict.ours.text) == (7, 3, D)


def test_a_name_that_is_taken_is_a_conflict() -> None:
    ours = revision(text(A, B, C.replace("  c:", "  d:")), {"a": "ua", "b": "ub", "d": "uc"})
    found = merge_dataflow(
        revision(text(A, B), U), ours, revision(text(A, D), RENAMED), {"d": "theirs"}
    )
    (conflict,) = found.conflicts
    assert (conflict.name, conflict.kind) == ("d", "name_taken")


def test_smaller_keys_merge_by_themselves() -> None:
    assert merge(text(A, B), text(A, OWNED), text(A, TAGGED)).text == text(
        A, OWNED.replace("    transform", "    tags: [x]\n    transform")
    )
    assert merge(text(OWNED), text(TAGGED), text(B2 + "    owner: ann\n")).text == text(
        TAGGED.replace("SELECT 1", "SELECT 2")
    )


def test_a_component_that_no_text_names_keeps_its_uid() -> None:
    cdc = "  c:\n    cdc: {from: a, keys: [id], sequence_by: [lsn], truncates: op = 'T'}\n"
    base = revision(text(A, B), {"a": "1", "b": "2"})
    theirs = revision(text(A, B, cdc), {"a": "1", "b": "2", "c": "3", "c_truncates": "4"})
    ours = revision(text(A, B2), {"a": "1", "b": "2"})
    merged = merge_dataflow(base, ours, theirs)
    assert merged.uids == {"a": "1", "b": "2", "c": "3", "c_truncates": "4"}
    assert merged.text == text(A, B2, cdc)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        # Rows and the expectations of them are one unit
        (B2, B + "    expect: [{check: b > 0}]\n"),
        (OWNED, OWNED.replace("ann", "bob")),
    ],
)
def test_what_makes_rows_is_one_unit(ours: str, theirs: str) -> None:
    (conflict,) = merge(text(A, B), text(A, ours), text(A, theirs)).conflicts
    assert conflict.kind == "both_edited"


def test_layout_and_comments_are_no_edit() -> None:
    laid_out = text(
        A, B.replace("{sql: SELECT 1 AS b}", "\n      # the first\n      sql: SELECT 1 AS b")
    )
    assert merge(text(A, B), text(A, B2), laid_out).text == text(A, B2)
    assert merge(text(A, B), laid_out, text(A, B2)).text == text(A, B2)


def test_python_files_go_with_the_components_that_name_them() -> None:
    def version(body: str, path: str) -> Revision:
        return revision(text(body), files={"f.py": path})

    base, extra = version(FILE, "1"), FILE + "    owner: ann\n"
    merged = merge_dataflow(base, version(extra, "1"), version(FILE, "2"))
    assert (merged.text, merged.files, merged.taken) == (text(extra), {"f.py": "2"}, ("f",))
    assert not merged.conflicts
    ours, theirs = version(FILE, "3"), version(FILE, "2")
    assert {c.kind for c in merge_dataflow(base, ours, theirs).conflicts} == {"both_edited"}
    settled = merge_dataflow(base, ours, theirs, {"f": "theirs"})
    assert (settled.files, settled.conflicts) == ({"f.py": "2"}, ())


def test_text_that_merges_into_something_else_is_refused() -> None:
    def flow(*parts: str) -> str:
        return "dataflow: shop\ncomponents: {\n" + ",\n".join(parts) + "\n}\n"

    a, b, c = (f"  {n}: {{transform: {{sql: SELECT 1 AS {n}}}}}" for n in "abc")
    (conflict,) = merge(flow(a, b), flow(a, b, c), flow(a, b.replace("1", "2"))).conflicts
    assert conflict.kind == "not_mergeable"


# --- laws


def component(name: str, values: tuple[str, ...]) -> ComponentPart:
    keys = {
        key: Unit(f"    {key}: {value}\n", (value,))
        for key, value in zip(KEYS, values, strict=True)
        if value
    }
    return ComponentPart(
        name, 1, 3, head=Unit(f"  {name}", (name,)), colon=":\n", keys=keys, blank="", indent=4
    )


KEYS = ("transform", "expect", "owner", "tags")
parts = st.builds(
    component, st.sampled_from("abc"), st.tuples(*(st.sampled_from("012") for _ in KEYS))
)


def _are_told_apart(side: Components) -> bool:
    return len({part.name for part in side.values()}) == len(side)


sides = st.dictionaries(st.sampled_from("uvw"), parts, max_size=3).filter(_are_told_apart)


def said(side: Components) -> dict[str, object]:
    return {uid: (part.name, part.meaning) for uid, part in side.items()}


@settings(max_examples=1000, deadline=None)
@given(sides, sides, sides)
def test_laws_of_merging(base: Components, ours: Components, theirs: Components) -> None:
    assert said(three_way.merge(base, base, theirs).components) == said(theirs)
    assert said(three_way.merge(base, ours, base).components) == said(ours)
    assert said(three_way.merge(base, ours, ours).components) == said(ours)
    one, other = three_way.merge(base, ours, theirs), three_way.merge(base, theirs, ours)
    assert bool(one.conflicts) == bool(other.conflicts)
    if one.conflicts:
        return
    merged = {part.name: part.meaning for part in one.components.values()}
    assert merged == {part.name: part.meaning for part in other.components.values()}
    if one.components.keys() == other.components.keys():  # but for uids of what both added alike
        assert said(three_way.merge(theirs, one.components, theirs).components) == said(
            one.components
        )
        assert said(three_way.merge(ours, one.components, ours).components) == said(one.components)


bodies = st.dictionaries(st.sampled_from("abcde"), st.sampled_from("123"), max_size=4)


def blueprint(components: dict[str, str]) -> str:
    parts = (f"  {n}:\n    transform: {{sql: SELECT {v}}}\n" for n, v in components.items())
    return (
        HEAD + "".join(parts) if components else HEAD.replace("components:\n", "components: {}\n")
    )


def named(text: str) -> dict[str, str]:
    parts = spans.split(text)
    return {name: part.text.strip() for name, part in parts.components.items()} if parts else {}


@given(bodies, bodies, bodies)
def test_laws_of_texts(base: dict[str, str], ours: dict[str, str], theirs: dict[str, str]) -> None:
    b, o, t = blueprint(base), blueprint(ours), blueprint(theirs)
    assert merge(b, b, t).text == t
    assert merge(b, o, b).text == o
    assert merge(b, o, o).text == o
    one, other = merge(b, o, t), merge(b, t, o)
    assert len(one.conflicts) == len(other.conflicts)
    if not one.conflicts:
        assert named(one.text) == named(other.text)  # but for their order
        assert merge(b, one.text, t).text == one.text  # merging twice changes nothing


@pytest.mark.parametrize(
    ("before", "after", "renames"),
    [
        ({"a": ("x",), "b": ("y",)}, {"c": ("x",), "b": ("y",)}, {"c": "a"}),
        ({"a": ("x",)}, {"a": ("x",), "c": ("x",)}, {}),
        ({"a": ("x",)}, {"c": ("x",), "d": ("x",)}, {}),
        ({"a": ("x",), "b": ("x",)}, {"c": ("x",)}, {}),
    ],
    ids=["one", "a copy", "of one to two", "of two to one"],
)
def test_a_rename_is_of_one_component_to_one(
    before: Mapping[str, tuple[str]], after: Mapping[str, tuple[str]], renames: Mapping[str, str]
) -> None:
    assert identities.renames(before, after) == renames
