"""Partition keys from the names of source objects."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.partitioning import fixed_folder, key_of, template_fault

NAMES = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=200
)


@pytest.mark.parametrize(
    ("path", "folder"),
    [
        ("data/flights/*.csv", "data/flights/"),
        ("data/airlines.csv", "data/"),
        ("airlines.csv", ""),
        ("*.csv", ""),
        ("/*.csv", "/"),
        ("data/20[12]?/x/*.csv", "data/"),
        ("data/a?/b.csv", "data/"),
        ("data/{a,b}/c.csv", "data/"),
        ("data/a\\*/b.csv", "data/"),
        ("data/flights/", "data/flights/"),
        ("file:///data/*/*.csv", "file:///data/"),
    ],
)
def test_the_folder_before_the_first_glob_character(path: str, folder: str) -> None:
    assert fixed_folder(path) == folder


@pytest.mark.parametrize(
    ("name", "template", "key"),
    [
        ("2013-01.csv", None, "2013-01.csv"),
        ("a b/c=d'\"😀~.csv", None, "a%20b/c%3Dd%27%22%F0%9F%98%80%7E.csv"),
        ("2013-01.csv", "{month}.csv", "2013-01"),
        ("2013-01-05.csv", "{year}-{month}-*.csv", "2013/01"),
        ("2013/x-01.csv", "{year}/x-{month}.csv", "2013/01"),
        ("a=1 é.csv", "{k}.csv", "a%3D1%20%C3%A9"),
        ("a.csv.csv", "{k}.csv", "a.csv"),
        ("a--b.csv", "{k}-{v}.csv", "a/-b"),
        ("-a-b.csv", "{k}-{v}.csv", "-a/b"),
        ("2013-01-05.csv", "*-{day}.csv", "01-05"),
        (".csv", "{k}.csv", None),
        ("a.csvx", "{k}.csv", None),
        ("xa.csv", "y{k}.csv", None),
        ("a/b.csv", "{k}.csv", None),
        ("b.csv", "{a}/{b}.csv", None),
        ("a-.csv", "{k}-{v}.csv", None),
        ("aXcsv", "{k}.csv", None),
    ],
)
def test_keys(name: str, template: str | None, key: str | None) -> None:
    assert key_of(name, template) == key


@given(NAMES, NAMES)
def test_names_and_their_keys_are_one_to_one(one: str, other: str) -> None:
    key = key_of(one, None)
    assert key is not None
    assert key.isascii()
    assert unquote(key) == one
    assert (key == key_of(other, None)) == (one == other)


@given(NAMES, NAMES)
def test_a_template_finds_what_was_put_together(month: str, day: str) -> None:
    month, day = month.replace("/", "").replace("#", "") or "x", day.replace("/", "") or "x"
    key = key_of(f"{month}#{day}.csv", "{month}#{day}.csv")
    assert key is not None
    assert [unquote(part) for part in key.split("/")] == [month, day]


def test_matching_takes_linear_time_in_hopeless_cases() -> None:
    template = "-".join(f"{{p{n}}}" for n in range(50)) + "x"
    assert template_fault(template) is None
    assert key_of("-" * 100_000, template) is None


@pytest.mark.parametrize(
    "template", ["{m}.csv", "{a}-{b}*.csv".replace("}*", "}-*"), "{a}/*/{b}", "*.{a}", "{a_1}"]
)
def test_good_templates(template: str) -> None:
    assert template_fault(template) is None


@pytest.mark.parametrize(
    "template",
    ["", "a.csv", "*", "{}", "{A}", "{a", "a}", "{a}{b}", "{a}*", "**{a}", "{a}/{a}", "{{a}}"],
)
def test_bad_templates(template: str) -> None:
    found = template_fault(template)
    assert found is not None
    assert all(found)
