"""The search in a file's bytes finds each text that Spark takes for a number and an inferred type
does not hold."""

from __future__ import annotations

import gzip
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dataplane.connectors.files.number_search import NumberSearch
from dataplane.connectors.files.numbers import EXACT, NUMBER, PRECISION, WHOLE
from dataplane.connectors.files.source_bytes import DOUBTFUL_NUMBERS, misread
from dataplane.contract.jobs import SourceJob

JOB = cast("SourceJob", {"format": "csv", "options": {"header": True}})
_SIZES = {"integer": 2**31, "long": 2**63}
_JAVA_DOUBLE = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?"
    r"|0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?)"
)
_SPACES = "".join(map(chr, range(33)))

# What stands in a file for a value, and the options under which it is read so.
_FILES: list[tuple[str, Mapping[str, str]]] = [
    ("a,b\nx,{}\n", {}),
    ("{}", {}),
    ("a,b\r\n{},x\r\n", {"header": "true"}),
    ('x,"{}",y\n', {}),
    ('"{}"\n', {"multiline": "true"}),
    ("x;  {} ;y\n", {"sep": ";", "ignoreleadingwhitespace": "true"}),
    ("x\t{}\ty", {"delimiter": r"\t"}),
    ("x||{}||y\n", {"sep": "||"}),
    ("x^'{}'^y\n", {"sep": "^", "quote": "'"}),
    ("x§{}§y\n", {"sep": "§"}),
    ("x,{}|y,{}|", {"linesep": "|"}),
    ("x1{}1y", {"sep": "1"}),
    (r"x,{},y", {"escape": "0"}),
]
_NUMBERS = st.from_regex(
    r"[ \t]{0,1}[+-]?(?:NaN|Infinity|0?x?[0-9]{0,3}\.?[0-9]{0,19}0{0,3}"
    r"|[0-9]{14,20}|0?\.0{90,110}1|[0-9]\u0663?\uff12)(?:[eEp][+-]?[0-9]{1,4})?[dDfF]?[ \n]{0,1}",
    fullmatch=True,
)


def typed_reader_takes(text: str, kind: str) -> bool:
    """As Java reads it: Integer.parseInt, Long.parseLong, Double.parseDouble."""
    if kind == "double":
        return _JAVA_DOUBLE.fullmatch(text.strip(_SPACES)) is not None
    is_whole = re.fullmatch(r"[+-]?\d+", text) is not None
    return is_whole and -_SIZES[kind] <= int(text) < _SIZES[kind]


def is_held(text: str, kind: str) -> bool:
    """As `numbers.is_held` has it."""
    if kind != "double":
        return re.match(WHOLE, text) is not None
    if re.match(WHOLE, text):
        return abs(int(text)) <= EXACT
    if text in ("NaN", "Inf", "-Inf") or re.match(r"^[+-]?(?:NaN|Infinity)$", text):
        return True
    return re.match(NUMBER, text) is not None and _is_precise(text)


def _is_precise(text: str) -> bool:
    number, digits = float(text), re.sub(r"[eE].*|[^0-9]", "", text).strip("0")
    is_zero = number == 0 and re.search("^[^eE]*[1-9]", text) is not None
    return min(len(text), len(digits)) <= PRECISION and abs(number) != float("inf") and not is_zero


def is_found(
    content: str, options: Mapping[str, str], *, has_doubles: bool = True, size: int = 7
) -> bool:
    search = NumberSearch(options, has_doubles)
    for start in range(0, len(content), size):
        search.see(content[start : start + size])
    return search.has_doubtful_numbers()


def source(path: Path) -> Any:
    return {"name": path.name, "uri": path.as_uri(), "size": 1}


@settings(max_examples=400, deadline=None)
@given(
    _NUMBERS,
    st.sampled_from(_FILES),
    st.sampled_from(["integer", "long", "double"]),
    st.integers(1, 40),
)
@example("02134", _FILES[0], "integer", 1)
@example("\n NaN", _FILES[4], "double", 3)
def test_what_spark_takes_for_another_number_is_found(
    text: str, file: tuple[str, Mapping[str, str]], kind: str, size: int
) -> None:
    content, options = file
    if typed_reader_takes(text, kind) and not is_held(text, kind):
        assert is_found(
            content.format(text, text), options, has_doubles=kind == "double", size=size
        )


_NOT_HELD = (
    *(
        "02134",
        "-007",
        "00",
        "01.5",
        "٣",
        "1٣",
        "1d",
        "2.5F",
        "1e5f",
        "1e400",
        "1e-400",
        "0x1p3",
        "9007199254740993",
    ),
    *(
        "12345678901234567890",
        "1.234567890123456789",
        "0." + "0" * 400 + "1",
        " NaN",
        "Infinity ",
        "\ufeff02134",
    ),
)
_ORDINARY = (
    *(
        "0",
        "-0",
        "0.5",
        "-0.25",
        "+1",
        "1e5",
        "1.5E-07",
        "0.30000000000000004",
        "1.7976931348623157e+99",
        "NaN",
        "-Inf",
    ),
    *(
        "Infinity",
        "1700000000000000",
        "2020-01-05",
        "01/02/2020",
        "05:30:00",
        "2020-01-01 05:00:00",
        "3D print",
    ),
    *(
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "550e8400-e29b-41d4-a716-446655440000",
    ),
    *("0xde0B295669a9FD93d5F28D9Ec85E40f4cb697BAe", "192.168.001.1", "Ünal", "日本", ""),
)


@pytest.mark.parametrize("text", _NOT_HELD)
def test_numbers_that_double_does_not_hold_are_found(text: str) -> None:
    assert is_found(f"{text},x\n", {})
    assert is_found(f"x,{text}", {})


@pytest.mark.parametrize("text", _ORDINARY)
def test_ordinary_texts_are_not_found(text: str) -> None:
    assert not is_found(f"{text},{text}\n{text}", {})


def test_numbers_of_double_alone_are_not_found_among_integers() -> None:
    assert not is_found("1700000000000000000,12345678901234567,1d\n", {}, has_doubles=False)


def test_a_text_in_place_of_an_empty_one_is_found() -> None:
    assert is_found('1,""\n', {"emptyvalue": "007"})
    assert not is_found('1,""\n', {"emptyvalue": "7"})


def test_a_line_that_does_not_end_has_a_bound() -> None:
    assert is_found("x" * (1 << 20), {}, size=1 << 18)
    assert not is_found("x" * (1 << 19), {}, size=1 << 18)


@pytest.mark.parametrize(
    ("name", "encoding"), [("a.csv", "utf-8"), ("a.csv.gz", "latin-1"), ("a.csv", "utf-16")]
)
def test_the_look_at_a_file_searches_its_text(tmp_path: Path, name: str, encoding: str) -> None:
    def seen(text: str) -> object:
        content = text.encode(encoding)
        (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        return misread(JOB, source(tmp_path / name), encoding, number_types=["integer"])

    assert seen("zip\n02134\n") == DOUBTFUL_NUMBERS
    assert seen("zip\n2134\n") is None


def test_numbers_of_a_file_that_cannot_be_looked_into_are_doubtful(tmp_path: Path) -> None:
    opaque = tmp_path / "a.csv.zst"
    opaque.write_bytes(b"x")
    assert misread(JOB, source(opaque), "utf-8", number_types=["integer"]) == DOUBTFUL_NUMBERS
    assert misread(JOB, source(opaque), "utf-8") is None
    assert (
        misread(JOB, source(opaque.with_suffix("")), "no-charset", number_types=["long"])
        == DOUBTFUL_NUMBERS
    )
