"""The difference of a published table: sets of paths, with copies and links."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.lake.table_difference import (
    TableDiff,
    WantedFragment,
    difference,
    relation,
    replacement,
    unpublishable,
    wanted_files,
)
from dataplane.contract.results import FileEntry
from dataplane.contract.schemas import Schema, Type, field_of, struct_of

TABLE = "default/flow/daily"


def fragment(n: int, home: str = TABLE, files: int = 1) -> WantedFragment:
    label = f"{n:032x}"
    return WantedFragment(
        label,
        tuple(
            entry(f"{home}/_frags/ab/7/_fragment={label}/part-{i}.parquet", 10 + n)
            for i in range(files)
        ),
    )


def entry(path: str, size: int) -> FileEntry:
    return {"path": path, "size": size, "rows": 1, "stats": {}}


def link(n: int, copy: int) -> str:
    label = f"{n:032x}"
    return f"_frags/links/{label[:2]}/{label}-{copy}/part-0.parquet"


def own(n: int) -> str:
    return f"_frags/ab/7/_fragment={n:032x}/part-0.parquet"


def test_the_first_copy_is_the_file_itself_and_others_are_links() -> None:
    change = difference(wanted_files(TABLE, [fragment(1)] * 3), {})
    assert [(a.path, a.source is None) for a in change.adds] == [
        (own(1), True),
        (link(1, 1), False),
        (link(1, 2), False),
    ]


def test_files_of_other_datasets_are_always_links() -> None:
    change = difference(wanted_files(TABLE, [fragment(1, "default/flow/daily2")]), {})
    assert [(a.path, a.source) for a in change.adds] == [
        (link(1, 0), f"default/flow/daily2/{own(1)}")
    ]


def test_what_is_there_already_is_left_alone() -> None:
    wanted = wanted_files(TABLE, [fragment(1), fragment(1), fragment(2)])
    change = difference(wanted, {own(1): 11, link(1, 5): 11, own(3): 13, "strange.parquet": 1})
    assert [a.path for a in change.adds] == [own(2)]
    assert change.removes == (own(3), "strange.parquet")


def test_too_many_copies_go_before_the_file_itself() -> None:
    change = difference(wanted_files(TABLE, [fragment(1)]), {link(1, 1): 11, own(1): 11})
    assert (change.adds, change.removes) == ((), (link(1, 1),))


def test_an_active_path_with_another_size_is_another_file() -> None:
    change = difference(wanted_files(TABLE, [fragment(1)]), {own(1): 999})
    assert [a.path for a in change.adds] == [link(1, 1)]
    assert change.removes == (own(1),)


def test_a_replacement_uses_fresh_paths_only() -> None:
    change = replacement(
        wanted_files(TABLE, [fragment(1), fragment(2)]), {own(1): 11, link(1, 1): 11}
    )
    assert [a.path for a in change.adds] == [link(1, 2), own(2)]


@pytest.mark.parametrize("name", ["a b.parquet", "a%20.parquet", "ä.parquet", "a~.parquet", ""])
def test_names_that_delta_would_escape_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="not a name"):
        wanted_files(TABLE, [WantedFragment("0" * 32, (entry(f"x/{name}" if name else "", 1),))])


numbers = st.lists(st.integers(0, 5), max_size=12)


@given(st.lists(st.tuples(numbers, st.booleans()), min_size=1, max_size=6))
def test_any_sequence_of_publications_gives_the_wanted_multiset(
    history: list[tuple[list[int], bool]],
) -> None:
    active: dict[str, int] = {}
    for wanted_numbers, replace in history:
        homes = [TABLE, "default/other/x"]
        wanted = wanted_files(
            TABLE, [fragment(n, homes[n % 2], files=1 + n % 3) for n in wanted_numbers]
        )
        change = replacement(wanted, active) if replace else difference(wanted, active)
        added = {a.path for a in change.adds}
        assert len(added) == len(change.adds)
        assert not added & set(active)
        assert set(change.removes) <= set(active)
        active = {p: s for p, s in active.items() if p not in change.removes}
        active |= {a.path: a.entry["size"] for a in change.adds}
        assert sorted(active.values()) == sorted(
            10 + n for n in wanted_numbers for _ in range(1 + n % 3)
        )
        assert difference(wanted, active) == TableDiff((), ())


def struct(*fields: tuple[str, Type]) -> Schema:
    return struct_of(field_of(n, t) for n, t in fields)


def test_relations_of_schemas() -> None:
    old = struct(("a", "long"), ("b", "string"))
    assert relation(old, struct(("a", "long"), ("b", "string"))) == "same"
    assert relation(old, struct(("a", "long"), ("b", "string"), ("c", "date"))) == "widened"
    assert relation(old, struct(("a", "long"), ("c", "date"), ("b", "string"))) == "other"
    assert relation(old, struct(("a", "long"))) == "other"
    assert relation(old, struct(("a", "integer"), ("b", "string"))) == "other"
    strict = struct_of({**f, "nullable": False, "metadata": {"x": 1}} for f in old["fields"])
    assert relation(strict, old) == "same"


def test_types_that_no_plain_table_holds() -> None:
    assert unpublishable(struct(("a", "decimal(38,10)"), ("b", "timestamp_ntz"))) is None
    assert (
        unpublishable(struct(("a", {"type": "array", "elementType": "void", "containsNull": True})))
        == "void"
    )
    assert unpublishable(struct(("a", "variant"))) == "variant"
    assert unpublishable(struct(("a", "interval day to second"))) == "interval day to second"
