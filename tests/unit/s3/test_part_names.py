"""Names of files in the S3 view: one name for one key, in the order of the keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.s3 import part_names
from controlplane.core.s3.part_names import PartName, part_name

FRAGMENT = "0123456789abcdef" * 4
ODD = "ab09AZ./=-_%!~@ {}$,;^`:<>?'()*+&#|\x00\x7fü漢😀"
KEYS = st.text(st.sampled_from(ODD), max_size=6) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=4
)


def _name(key: str) -> str:
    return part_name(key, 0, FRAGMENT)


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("", "!0-"),
        ("date=2013-02", "date@2013-02!0-"),
        ("carrier=UA/month=1", "carrier@UA.~month@1!0-"),
    ],
)
def test_names_of_ordinary_keys_can_be_read(key: str, text: str) -> None:
    assert _name(key) == f"{text}{FRAGMENT[:32]}.parquet"


@given(KEYS)
def test_a_name_tells_its_key_and_is_ascii_without_folders(key: str) -> None:
    name = part_name(key, 12, FRAGMENT)
    assert part_names.parse(name) == PartName(key, 12, FRAGMENT[:32])
    assert name.isascii()
    assert "/" not in name


@given(KEYS, KEYS)
def test_names_are_in_the_order_of_keys(one: str, other: str) -> None:
    assert (_name(one) < _name(other)) == (one < other)


@given(st.text(st.sampled_from("a./=!~@0-{$,;^`7e"), max_size=12))
def test_what_is_parsed_is_the_name_that_is_made(text: str) -> None:
    name = f"{text}!0-{FRAGMENT[:32]}.parquet"
    found = part_names.parse(name)
    assert found is None or part_name(*found) == name


@given(KEYS, KEYS, st.integers(0, 60), st.booleans())
def test_no_key_below_the_least_one_has_a_later_name(
    key: str, other: str, cut: int, is_odd: bool
) -> None:
    """Of any start of a name: what clients give as prefix and as start of a page."""
    text = _name(other)[:cut] + ("~" if is_odd else "")
    if key < part_names.least_key(text):
        assert _name(key) < text


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a.parquet",
        "a!0-12.parquet",
        f"a!00-{FRAGMENT[:32]}.parquet",
        f"a!0-{FRAGMENT[:32]}",
        f"a!-1-{FRAGMENT[:32]}.parquet",
    ],
)
def test_other_names_are_none(name: str) -> None:
    assert part_names.parse(name) is None
