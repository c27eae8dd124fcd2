"""Globs as Spark reads them, on real folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from dataplane.listing import glob
from dataplane.listing.glob import BadGlob, braces, matcher

FILES = [
    "a.csv",
    "b.csv",
    "c.txt",
    "_hidden.csv",
    ".hidden.csv",
    "x/a.csv",
    "x/y/b.csv",
    "x/_z/c.csv",
    "[odd].csv",
    "with space & 'quote'=ä🎉.csv",
    "out.csv/part-0",
    "out.csv/_SUCCESS",
]


def find(pattern: str, folder: str) -> list[str]:
    return sorted(set(glob.find(pattern, folder)), key=str.encode)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    return tmp_path


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("[a-b].csv", ["a.csv", "b.csv"]),
        ("[^a].csv", ["b.csv"]),
        ("[!a].csv", ["b.csv"]),
        ("?.{csv,txt}", ["a.csv", "b.csv", "c.txt"]),
        ("{a,x/a}.csv", ["a.csv", "x/a.csv"]),
        ("{a,{b,x/y/b}}.csv", ["a.csv", "b.csv", "x/y/b.csv"]),
        ("*/a.csv", ["x/a.csv"]),
        ("*/*/*.csv", ["x/y/b.csv"]),
        ("**/b.csv", ["b.csv", "x/y/b.csv"]),
        ("x/**", ["x/a.csv", "x/y/b.csv"]),
        (r"\[odd\].csv", ["[odd].csv"]),
        ("[[]odd].csv", ["[odd].csv"]),
        ("w*", ["with space & 'quote'=ä🎉.csv"]),
        ("out.*", ["out.csv/part-0"]),
        ("x", ["x/a.csv"]),
        ("a.csv", ["a.csv"]),
        ("_hidden.csv", ["_hidden.csv"]),
        ("_*.csv", []),
        ("*.nothing", []),
        ("nowhere/*.csv", []),
    ],
)
def test_what_globs_find(root: Path, pattern: str, expected: list[str]) -> None:
    found = find(f"{root}/{pattern}", f"{root}/")
    assert [p.removeprefix(f"{root}/") for p in found] == expected
    assert sorted(filter(matcher(pattern), FILES), key=str.encode) == expected, "as names alone"


def test_the_whole_folder_without_a_glob(root: Path) -> None:
    assert find(f"{root}/x/", f"{root}/x/") == [f"{root}/x/a.csv"]


def test_paths_are_ordered_by_their_bytes(tmp_path: Path) -> None:
    names = ["a", "Z", "ä", "🎉", "ﬀ"]
    for name in names:
        (tmp_path / name).touch()
    assert find(f"{tmp_path}/*", f"{tmp_path}/") == [
        f"{tmp_path}/{n}" for n in sorted(names, key=str.encode)
    ]


@pytest.mark.parametrize("pattern", ["[a.csv", "{a,b.csv", "[z-a].csv"])
def test_bad_globs(root: Path, pattern: str) -> None:
    with pytest.raises(BadGlob):
        find(f"{root}/{pattern}", f"{root}/")


def test_what_is_missing_is_an_error(root: Path) -> None:
    with pytest.raises(FileNotFoundError):
        find(f"{root}/gone/*.csv", f"{root}/gone/")
    with pytest.raises(FileNotFoundError):
        find(f"{root}/gone.csv", f"{root}/")
    with pytest.raises(NotADirectoryError):
        find(f"{root}/a.csv/*", f"{root}/a.csv/")


def test_links_are_followed_once(root: Path) -> None:
    (root / "link.csv").symlink_to(root / "a.csv")
    (root / "x" / "loop").symlink_to(root / "x")
    assert f"{root}/link.csv" in find(f"{root}/*.csv", f"{root}/")
    assert find(f"{root}/x/**", f"{root}/") == [f"{root}/x/a.csv", f"{root}/x/y/b.csv"]


@pytest.mark.parametrize(
    "pattern", ["*/a.csv", "*/*.csv", "linked/*.csv", "{linked,x}/a.csv", "**/linked/a.csv"]
)
def test_what_lies_behind_a_link_to_nothing_is_not_just_missing(root: Path, pattern: str) -> None:
    before = find(f"{root}/{pattern}", f"{root}/")
    (root / "linked").symlink_to(root / "disk")
    with pytest.raises(FileNotFoundError):
        find(f"{root}/{pattern}", f"{root}/")
    (root / "disk").mkdir()
    assert find(f"{root}/{pattern}", f"{root}/") == before


def test_a_link_to_nothing_may_have_any_other_name(root: Path) -> None:
    (root / "linked").symlink_to(root / "disk")
    (root / "_hidden").symlink_to(root / "disk")
    assert find(f"{root}/[x]/*.csv", f"{root}/") == [f"{root}/x/a.csv"]
    assert find(f"{root}/**/b.csv", f"{root}/") == [f"{root}/b.csv", f"{root}/x/y/b.csv"]


def test_braces_with_escapes() -> None:
    assert braces(r"a\{b,c\}") == [r"a\{b,c\}"]
    assert braces("{a,b}{c,}") == ["ac", "a", "bc", "b"]
