"""Where a place of a text is, also of texts that are no YAML: whatever is typed, an answer comes,
and soon."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.services.editor import completion, outline
from controlplane.services.editor.knowledge import Knowledge, Meaning
from controlplane.services.editor.outline import Spot

pytestmark = pytest.mark.unit
MARK = "¦"
PIECES = [
    "dataflow: shop\n",
    "components:\n",
    "  orders:\n",
    "    read: {",
    "connector: files",
    "}",
    ", ",
    "    expect:\n",
]
PIECES += [
    "      - ",
    "check: a > ",
    "\n",
    "'",
    '"',
    "|\n",
    "      sql: |\n",
    "        SELECT * FROM orders o\n",
    "  ",
    "\t",
    "\r\n",
    "ü😀",
    ":",
]


def spot(text: str) -> Spot:
    before = text[: text.index(MARK)]
    return outline.spot(
        text.replace(MARK, ""), before.count("\n") + 1, len(before) - before.rfind("\n")
    )


@pytest.mark.parametrize(
    ("text", "path", "key", "is_text"),
    [
        ("data¦", (), "", False),
        ("components:\n  a:\n    re¦", ("components", "a"), "", False),
        (
            "components:\n  a:\n    read:\n      connector: fi¦",
            ("components", "a", "read"),
            "connector",
            False,
        ),
        (
            "components:\n  a:\n    read: {path: x, format: ¦",
            ("components", "a", "read"),
            "format",
            False,
        ),
        (
            "components:\n  a: {read: {options: {header: ¦",
            ("components", "a", "read", "options"),
            "header",
            False,
        ),
        (
            "components:\n  a: {read: {options: {header: true}, ¦",
            ("components", "a", "read"),
            "",
            False,
        ),
        ("components:\n  a:\n    expect:\n      - na¦", ("components", "a", "expect"), "", False),
        (
            "components:\n  a:\n    expect:\n      - name: x\n        on¦",
            ("components", "a", "expect"),
            "",
            False,
        ),
        (
            "components:\n  a:\n    expect:\n      - {check: x > 1, on_fail: ¦",
            ("components", "a", "expect"),
            "on_fail",
            False,
        ),
        (
            "components:\n  a:\n    transform:\n      sql: |\n\n        SELECT ¦",
            ("components", "a", "transform"),
            "sql",
            True,
        ),
        (
            "components:\n  a:\n    transform:\n      sql: SELECT ¦",
            ("components", "a", "transform"),
            "sql",
            True,
        ),
        (
            "components:\n  a:\n    transform:\n      sql: |\n        x: {\n      par¦",
            ("components", "a", "transform"),
            "",
            False,
        ),
        ("components:\r\n  a:\r\n    re¦", ("components", "a"), "", False),
    ],
)
def test_what_is_around_a_place(text: str, path: tuple[str, ...], key: str, is_text: bool) -> None:
    found = spot(text)
    assert (found.path, found.key, found.is_text) == (path, key, is_text)


def test_keys_beside_a_place() -> None:
    assert spot(
        "components:\n  a:\n    read:\n      connector: files\n      ¦\n      path: x\n  b: {}\n"
    ).beside == {
        "connector": "files",
        "path": "x",
    }
    assert spot("components:\n  a: {read: {connector: jdbc, ¦}}").beside == {"connector": "jdbc"}


def test_components_are_found_by_their_indent() -> None:
    text = (
        "dataflow: x\ncomponents:\n    a:\n        read: {}\n    'b': {}\n# c:\nother:\n    d: {}\n"
    )
    assert outline.components(text) == {"a": (3, 5), "b": (5, 5)}
    assert [outline.component_at(text, line) for line in (2, 4, 5)] == ["", "a", "b"]


@given(st.lists(st.sampled_from(PIECES), max_size=30), st.integers(0, 40), st.integers(0, 60))
def test_whatever_is_typed_an_answer_comes(pieces: list[str], line: int, column: int) -> None:
    text = "".join(pieces)
    found = outline.spot(text, line, column)
    component = outline.component_at(text, line)
    completion.candidates(Meaning(), found, component, text, lambda _: {})
    knowledge = Knowledge()
    path = Path("/nowhere/shop.yaml")
    report = knowledge.look(path, text, {})
    assert all(problem.file == path.as_posix() for problem in report.problems)
    knowledge.definition(path, text, line, "orders")


def test_a_line_of_a_million_characters_is_no_trouble() -> None:
    text = "components:\n  a: {x: '" + "ab, {" * 200_000
    assert outline.spot(text, 2, len(text)).path[:2] == ("components", "a")
