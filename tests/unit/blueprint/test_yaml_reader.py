"""The strict YAML reader: hostile texts end early with one clear problem, ordinary ones keep values
and places."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.blueprint import yaml_nodes, yaml_reader
from controlplane.core.blueprint.problems import Problems
from controlplane.core.blueprint.yaml_nodes import Entries, Items, Node, Scalar
from tests.unit.blueprint.texts import problems_of

DEPTH = yaml_reader.MOST_DEPTH


def root(text: str | bytes) -> Node:
    problems = Problems()
    document = yaml_reader.read(text, "f.yaml", problems)
    problems.raise_if_any()
    assert document is not None
    return document.root


def codes(text: str, most_nodes: int = yaml_reader.MOST_NODES) -> list[str]:
    problems = Problems()
    yaml_reader.read(text, "f.yaml", problems, most_nodes=most_nodes)
    return [p.code for p in problems.in_order]


def value(text: str) -> object:
    found = root(f"k: {text}\n")
    assert isinstance(found, Entries)
    node = found.get("k")
    assert isinstance(node, Scalar)
    return node.value


HOSTILE = [
    ("too-deep", 1, DEPTH + 1, "[" * 200_000),
    ("too-deep", 1, 1 + 3 * (DEPTH), "{a:" * 16_000),
    ("too-deep", 1, 1 + 2 * DEPTH, "- " * 100_000),
    ("too-deep", 1, 1 + 2 * DEPTH, "? " * 100_000),
    ("too-deep", DEPTH + 1, DEPTH + 1, "".join(f"{' ' * n}a:\n" for n in range(100))),
    ("too-large", 1, 1, "#" * 5_000_001),
    ("too-large", 1, 1, "é" * 2_500_001),
    ("too-large", 1, 1, b"a" * 100_000_000),
    ("invalid-encoding", 2, 4, b"a: 1\nb: \xff\n"),
    ("invalid-encoding", 1, 1, "a: 1".encode("utf-16")),
    ("invalid-character", 2, 4, "a: 1\r\nb: \0"),
    ("invalid-character", 1, 5, "a: x\u2028y"),
    ("invalid-character", 1, 5, "a: x\ufeffy"),
    ("invalid-character", 1, 5, "a: x\ud800y"),
    ("invalid-character", 1, 4, r'a: "\0"'),
    ("invalid-character", 1, 4, r'a: "\ud800"'),
    ("invalid-yaml", 2, 1, "a:\n\t- b"),
    ("invalid-yaml", 1, 5, "a: b: c"),
    ("invalid-yaml", 1, 4, "a: [b"),
    ("invalid-yaml", 1, 1, r'"\U99999999"'),
    ("invalid-yaml", 1, 1, f"%YAML 1.{'9' * 5000}\n---\na"),
    ("invalid-number", 1, 4, f"a: {'9' * 5000}"),
    ("invalid-number", 1, 4, f"a: -{'9' * 39}"),
    ("invalid-number", 1, 4, f"a: 0x{'f' * 60}"),
    ("invalid-number", 1, 4, "a: 1e999"),
    ("several-documents", 2, 1, "a: 1\n---\nb: 2"),
]


@pytest.mark.parametrize(("code", "line", "column", "text"), HOSTILE, ids=lambda v: repr(v)[:20])
def test_hostile_texts(code: str, line: int, column: int, text: str | bytes) -> None:
    problems = Problems()
    yaml_reader.read(text, "f.yaml", problems)
    found = problems.in_order
    assert [(p.code, p.line, p.column) for p in found] == [(code, line, column)], found


def test_an_alias_bomb_is_never_expanded() -> None:
    rows = ["a0: &a0 [x]", *(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40))]
    found = problems_of("\n".join(rows))
    assert sum(p.code == "yaml-anchor" for p in found) == 40 + 2 * 39
    assert (found[0].line, found[0].column) == (1, 1)


def test_tags_and_duplicate_keys_do_not_end_the_reading() -> None:
    problems = Problems()
    yaml_reader.read(
        'a: !!python/object:os.system x\nb: !x {c: 1}\nd: 1\n"d": 2\n', "f.yaml", problems
    )
    assert [(p.code, p.line, p.column) for p in problems.in_order] == [
        ("yaml-tag", 1, 4),
        ("yaml-tag", 2, 4),
        ("duplicate-key", 4, 1),
    ]


@pytest.mark.parametrize("text", ["", "\n", "# nothing", b"", "\ufeff"])
def test_an_empty_text_is_nothing(text: str | bytes) -> None:
    node = root(text)
    assert isinstance(node, Scalar)
    assert node.value is None


@pytest.mark.parametrize(
    "text",
    ["\ufeffa: 1", b"\xef\xbb\xbfa: 1", "a: 1\r\n", "--- \na: 1\n...\n", "%YAML 1.2\n---\na: 1"],
)
def test_harmless_marks_are_accepted(text: str | bytes) -> None:
    assert isinstance(root(text), Entries)


def test_depth_and_count_may_reach_their_limits() -> None:
    assert isinstance(root("[" * DEPTH + "]" * DEPTH), Items)
    assert codes("- a\n" * 9, most_nodes=10) == []
    assert codes("- a\n" * 10, most_nodes=10) == ["too-many-nodes"]
    assert codes("{a: b, c: [d]}", most_nodes=5) == ["too-many-nodes"]


@pytest.mark.soak
def test_the_count_is_limited_by_default() -> None:
    assert codes("- a\n" * yaml_reader.MOST_NODES) == ["too-many-nodes"]


SCALARS = [
    *(
        (word, word)
        for word in (
            "NO",
            "no",
            "yes",
            "on",
            "off",
            "y",
            "12:30",
            "1_000",
            "0b1",
            "2013-01-01",
            "=",
            "<<",
        )
    ),
    *((word, None) for word in ("", "~", "null", "Null", "NULL")),
    *(
        (word, word.lower() == "true")
        for word in ("true", "True", "TRUE", "false", "False", "FALSE")
    ),
    ("tRUE", "tRUE"),
    ("012", 12),
    ("-012", -12),
    ("+7", 7),
    ("0o17", 15),
    ("0xfF", 255),
    ("-0x1", "-0x1"),
    ("9" * 38, int("9" * 38)),
    ("0" * 5000 + "1", 1),
    ("1.", 1.0),
    (".5", 0.5),
    ("-1.5e3", -1500.0),
    ("1e3", 1000.0),
    (".", "."),
    ("-.inf", -math.inf),
    ("'1'", "1"),
    ('"true"', "true"),
    ("''", ""),
    ("|-\n  1", "1"),
]


@pytest.mark.parametrize(("text", "wanted"), SCALARS, ids=lambda v: repr(v)[:20])
def test_scalars_of_the_core_schema(text: str, wanted: object) -> None:
    assert (type(value(text)), value(text)) == (type(wanted), wanted)


def test_not_a_number_is_a_number() -> None:
    found = yaml_nodes.resolve(".nan")
    assert isinstance(found, float)
    assert math.isnan(found)


@given(
    st.floats(allow_nan=False, allow_infinity=False)
    | st.integers(-(10**37), 10**37)
    | st.booleans()
    | st.none()
)
def test_what_python_writes_is_read_back(wanted: float | bool | None) -> None:
    text = "null" if wanted is None else str(wanted).lower()
    assert value(text) == wanted


def test_nodes_keep_their_places() -> None:
    found = root("é: [x,\n  {y: 'z'}]\n")
    assert isinstance(found, Entries)
    items = found.get("é")
    assert isinstance(items, Items)
    (_, mapping) = items.items
    assert isinstance(mapping, Entries)
    assert [
        (n.place.line, n.place.column)
        for n in (found, items, items.items[0], mapping, mapping.entries[0][1])
    ] == [
        (1, 1),
        (1, 4),
        (1, 5),
        (2, 3),
        (2, 7),
    ]


# --- large texts --------------------------------------------------------------------------------

PADDING = "\n" + "# padding\n" * (yaml_reader.LARGE // 10)
SMALL = (
    "a: {b: c, d: [1, 2, 'x']}\ne: |\n  one\n   two\n\nf: >-\n  three\n  four\ng: 1\n",
    '"a b": "x\\n\\u00e4"\nc: NO\nd: 012\ne: 12:30\nf: 1e3\ng: ~\n',
    "- a\n- b: c\n  d: e\n-\n  - f\n",
    "? a\n: b\n# c\nd: 'it''s'  # e\n",
    "emoji: 🎉\numlaut: ä\nnext: x\n",
)


@pytest.mark.parametrize("text", SMALL)
def test_a_large_text_reads_as_a_small_one(text: str) -> None:
    """Another parser reads it; values and places are the same."""
    problems = Problems()
    small, large = (yaml_reader.read(one, "f.yaml", problems) for one in (text, text + PADDING))
    assert small is not None
    assert large is not None
    assert large.root == small.root
    assert not problems.in_order


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("too-deep", "[" * 2_000_000),
        ("too-deep", "{a: " * 1_000_000),
        ("too-deep", "- " * 1_000_000),
        ("too-deep", "\n".join(" " * depth + "a:" for depth in range(3_000))),
        ("too-many-nodes", "a: [" + "1," * 2_000_000 + "]"),
        ("invalid-yaml", "'" + "x" * 4_000_000),
        ("invalid-yaml", "a: b: c" + PADDING),
        ("yaml-anchor", "a: &x [1]\nb: *x\n" + PADDING),
        ("yaml-tag", "!" * 4_000_000),
        ("duplicate-key", "a: 1\na: 2" + PADDING),
        ("several-documents", "a: 1\n---\nb: 2" + PADDING),
    ],
)
def test_hostile_large_texts(code: str, text: str) -> None:
    """Each ends within a second or two of the processor's time, and no nesting reaches a stack."""
    assert code in {problem.code for problem in problems_of(text)}
