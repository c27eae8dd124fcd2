"""Patterns that take for ever in a naive matcher are matched at once, or refused before they are
tried."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pytest

from controlplane.core.blueprint import parse
from controlplane.core.errors import InvalidBlueprint
from dataplane.contract.globs import MOST_ALTERNATIVES, MOST_BRACES, braces_fault
from dataplane.contract.jobs import ListJob
from dataplane.listing import glob
from dataplane.listing.glob import BadGlob, braces, matcher, translate
from dataplane.listing.listed_partitions import keys_for
from dataplane.task_failures import TaskFailure

LONGEST_NAME = "a" * 255
STARS = "*a" * 60 + "b.csv"


def test_many_stars_over_a_long_name_are_matched_without_going_back() -> None:
    """With going back this takes longer than the universe is old."""
    matches = re.compile(translate(STARS), re.DOTALL).fullmatch
    assert not matches(LONGEST_NAME)
    assert matches("a" * 200 + "b.csv")


@pytest.mark.parametrize("seed", range(60))
def test_globs_match_as_a_simple_matcher_says(seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(60):
        pattern = "".join(
            chance.choice(["*", "*", "?", "a", "b", "[ab]", "[!a]", r"\*"]) for _ in range(6)
        )
        name = "".join(chance.choice("aab*") for _ in range(chance.randint(0, 8)))
        found = bool(re.fullmatch(translate(pattern), name, re.DOTALL))
        assert found == _matches(_tokens(pattern), name), (pattern, name)


def _tokens(pattern: str) -> list[str]:
    return re.findall(r"\[!?[^]]*\]|\\.|.", pattern)


def _matches(tokens: list[str], name: str) -> bool:
    """By the definition, trying everything."""
    if not tokens:
        return not name
    first, rest = tokens[0], tokens[1:]
    if first == "*":
        return any(_matches(rest, name[at:]) for at in range(len(name) + 1))
    return bool(name) and _is_one(first, name[0]) and _matches(rest, name[1:])


def _is_one(token: str, character: str) -> bool:
    if token.startswith("[!"):
        return character not in token[2:-1]
    if token.startswith("["):
        return character in token[1:-1]
    return token == "?" or token[-1] == character


# --- folders --------------------------------------------------------------------------------------


@pytest.fixture
def nested(tmp_path: Path) -> Path:
    """Fifteen folders within each other, with a file in each."""
    folder = tmp_path
    for _ in range(15):
        folder = folder / "d"
        folder.mkdir()
        (folder / "x.csv").touch()
    return tmp_path


def walked(pattern: str, folder: Path) -> tuple[list[str], int]:
    """What is found, and how many folders were read for it."""
    walk = glob._FolderWalk(str(folder))
    return list(walk.files(glob._steps(pattern))), walk.visited


@pytest.mark.parametrize(
    "pattern", ["**/" * 12 + "*.csv", "**/d/" * 6 + "**/*.csv", "{**,d/**,*/**,**/d}/*.csv"]
)
def test_each_folder_is_read_once(nested: Path, pattern: str) -> None:
    found, read = walked(pattern, nested)
    assert read <= 16
    assert len(set(found)) == len(found)


def test_any_number_of_folders_twice_is_any_number_of_folders(nested: Path) -> None:
    assert sorted(walked("**/" * 12 + "*.csv", nested)[0]) == sorted(walked("**/*.csv", nested)[0])
    assert len(walked("**/*.csv", nested)[0]) == 15


def test_names_in_a_store_are_matched_in_one_pass() -> None:
    name = "/".join(["d"] * 400)
    assert not matcher("**/" * 40 + "*.csv")(name + "/x.txt")
    assert matcher("**/d/" * 40 + "*.csv")(name + "/x.csv")


def test_folders_may_lie_deeper_than_python_can_call(tmp_path: Path) -> None:
    depth, here = 1_500, os.getcwd()
    try:
        os.chdir(tmp_path)
        for _ in range(depth):
            os.mkdir("d")
            os.chdir("d")
    finally:
        os.chdir(here)
    shallow = glob._FolderWalk(str(tmp_path))
    found = 0
    for _ in shallow.files(glob._steps("**/*.csv")):
        found += 1
    assert (found, shallow.visited) == (0, depth + 1)


@pytest.mark.parametrize(
    ("link", "target", "pattern"),
    [
        ("loop", ".", "*/x.csv"),
        ("loop", ".", "**/*/x.csv"),
        ("d/up", "..", "*/*/*.csv"),
        ("d/up", "..", "d/*/d/*.csv"),
        ("d/d/top", "../..", "**/*/*.csv"),
    ],
)
def test_a_link_to_a_folder_that_it_lies_in_doubles_nothing(
    nested: Path, link: str, target: str, pattern: str
) -> None:
    before = sorted(walked(pattern, nested)[0])
    (nested / link).symlink_to(target)
    found = walked(pattern, nested)[0]
    assert sorted(found) == before


def test_a_link_to_another_folder_is_followed(
    nested: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "y.csv").touch()
    (nested / "linked").symlink_to(elsewhere)
    assert f"{nested}/linked/y.csv" in walked("*/*.csv", nested)[0]


# --- braces ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "pattern",
    [
        "{a,b}" * 30,
        "{a,{b,{c,d}}}" * 12,
        "{" * 500,
        "{a}" * 5_000,
        "{" + "," * 5_000 + "}",
        "{a,b}/" * 40,
    ],
    ids=["product", "nested", "open", "many", "empty", "folders"],
)
def test_braces_that_stand_for_too_much_are_refused_before_they_are_expanded(pattern: str) -> None:
    assert braces_fault(pattern)
    with pytest.raises(BadGlob):
        braces(pattern)
    text = f"dataflow: f\ncomponents:\n  x:\n    read: {{connector: files, path: '/data/{pattern}', format: csv}}\n"
    with pytest.raises(InvalidBlueprint) as told:
        parse(text, file="f.yaml")
    assert {p.code for p in told.value.problems} == {"invalid-path"}


@pytest.mark.parametrize("seed", range(200))
def test_alternatives_are_counted_as_they_are_expanded(seed: int) -> None:
    chance = random.Random(seed)
    text = "".join(_piece(chance, 0) for _ in range(3))
    assert (
        text.count("{") > MOST_BRACES
        or braces_fault(text) is not None
        or len(braces(text)) <= MOST_ALTERNATIVES
    )
    from dataplane.contract.globs import _alternatives

    if braces_fault(text) is None:
        assert len(braces(text)) == _alternatives(text)


def _piece(chance: random.Random, depth: int) -> str:
    if depth > 2 or chance.random() < 0.5:
        return chance.choice(["a", "b/", r"\{", r"\,", ""])
    return "{" + ",".join(_piece(chance, depth + 1) for _ in range(chance.randint(1, 3))) + "}"


# --- regular expressions --------------------------------------------------------------------------


def blueprint(regex: str) -> str:
    path = "path: /data/*, format: csv, regex: "
    return f"dataflow: f\ncomponents:\n  x:\n    read: {{connector: files, {path}'{regex}'}}\n"


def keys_by(regex: str) -> Callable[[str], str | None]:
    return keys_for(cast("ListJob", {"settings": {"regex": regex}, "partition": None}))


@pytest.mark.parametrize(
    "regex", ["(a+)+[.]csv", "(a|a)*b", "(a*)*b", "([a-z]+)*[0-9]", "(.*)(.*)(.*)(.*)[x]"]
)
def test_an_expression_takes_time_linear_in_the_name(regex: str) -> None:
    parse(blueprint(regex), file="f.yaml")
    key_of = keys_by(regex)
    assert key_of("a" * 100_000 + "!") is None


@pytest.mark.parametrize(
    "regex", ["(?=a)b", r"(a)\1", "(?<!a)b", "[", "(a{1000}){1000}", "(", "a**"]
)
def test_an_expression_that_cannot_be_linear_is_refused(regex: str) -> None:
    with pytest.raises(InvalidBlueprint) as told:
        parse(blueprint(regex), file="f.yaml")
    assert [p.code for p in told.value.problems] == ["invalid-value"]
    with pytest.raises(TaskFailure):
        keys_by(regex)


def test_a_name_that_is_not_utf8_matches_no_expression() -> None:
    key_of = keys_by(".*")
    assert key_of("caf\udce9.csv") is None
    assert key_of("café.csv") == "caf%C3%A9.csv"


@pytest.fixture(autouse=True)
def _no_deep_folders_stay(tmp_path: Path) -> Iterator[None]:
    """pytest cannot remove folders as deep as those above."""
    yield
    here = os.getcwd()
    try:
        os.chdir(tmp_path)
        deep = 0
        while os.path.isdir("d") and not os.path.islink("d"):
            os.chdir("d")
            deep += 1
        for _ in range(deep):
            for name in os.listdir():
                os.rmdir(name) if os.path.isdir(name) and not os.path.islink(name) else os.unlink(
                    name
                )
            os.chdir("..")
    finally:
        os.chdir(here)
