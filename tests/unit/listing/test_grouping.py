"""Groups of files: as large as asked for, and the same however many others there are."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dataplane.contract.source_objects import SourceObject
from dataplane.listing.files import list_files
from dataplane.listing.grouping import grouped
from dataplane.listing.version_cache import Versions
from tests.unit.listing.location import list_job

BY_SIZE = {"group.by": "size", "group.bytes": 1000}


def groups(sizes: dict[str, int], limit: int = 1000) -> dict[str, list[str]]:
    found = ((name, an_object(name, size)) for name, size in sorted(sizes.items()))
    result: dict[str, list[str]] = defaultdict(list)
    for key, source in grouped(found, list_job("", settings={**BY_SIZE, "group.bytes": limit})):
        result[key].append(source["name"])
    return result


def an_object(name: str, size: int) -> SourceObject:
    return {
        "name": name,
        "uri": name,
        "size": size,
        "modified_ms": 0,
        "version": "",
        "columns": None,
    }


@given(st.dictionaries(st.text("abc", min_size=1), st.integers(0, 3000)))
def test_every_file_is_in_one_group_of_bounded_size(sizes: dict[str, int]) -> None:
    found = groups(sizes)
    assert [name for names in found.values() for name in names] == sorted(sizes)
    assert list(found) == [names[0] for names in found.values()] == sorted(found)
    for names in found.values():
        assert sum(sizes[name] for name in names[:-1]) < 4 * 1000


def test_a_hundred_thousand_small_files_are_at_most_two_hundred_partitions() -> None:
    found = groups({f"{n:06}": 100 for n in range(100_000)}, 64 << 20)
    assert 50 <= len(found) <= 200
    assert max(map(len, found.values())) <= 4000


def test_a_group_ends_where_no_name_of_it_ends_one() -> None:
    """One in fifty or so would go on beyond four times the limit."""
    assert max(map(len, groups({f"{n:05}": 100 for n in range(20_000)}).values())) == 40


@pytest.mark.parametrize("size", [1, 100, 5000])
def test_one_file_more_or_less_changes_few_groups(size: int) -> None:
    sizes = {f"{n:04}": 100 for n in range(2000)}
    before = groups(sizes)
    for name in ("", "0500x", "0999x", "9"):
        after = groups({**sizes, name: size})
        assert len([names for key, names in after.items() if before.get(key) != names]) <= 2
        assert len([names for key, names in before.items() if after.get(key) != names]) <= 2


def test_groups_by_folder(tmp_path: Path) -> None:
    for name in ("top.csv", "a/1.csv", "a/2.csv", "a b/c/3.csv"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("k\n1\n")
    job = list_job(f"{tmp_path}/**/*.csv", settings={"group.by": "folder"})
    found = list_files(job, Versions())["partitions"]
    names = [(p["key"], [o["name"] for o in p["objects"]]) for p in found]
    assert names == [
        (".", ["top.csv"]),
        ("a", ["a/1.csv", "a/2.csv"]),
        ("a%20b/c", ["a b/c/3.csv"]),
    ]
