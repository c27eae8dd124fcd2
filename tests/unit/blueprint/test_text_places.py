"""Where the characters of SQL and Python texts stand in the blueprint's file."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from controlplane.core.blueprint import Position, PythonTransform, SqlTransform, TextPlace, parse
from tests.unit.blueprint.texts import NO_FILES, component, one, problems_of

HEAD = "dataflow: d\ncomponents:\n  c:\n    transform:\n"


def sql(text: str) -> SqlTransform:
    body = parse(text, file="f.yaml").components[0].body
    assert isinstance(body, SqlTransform)
    return body


EXACT = [
    ("block", "      sql: |\n        SELECT 1\n          FROM x\n", 6, 9),
    ("stripped block", "      sql: |-   # why\n        SELECT 1\n          FROM x\n\n", 6, 9),
    ("kept block", "      sql: |+\n        SELECT 1\n\n\n", 6, 9),
    ("leading empty lines", "      sql: |\n\n\n        SELECT 1\n          FROM x\n", 6, 9),
    ("own indent", "      sql: |2\n          SELECT 1\n        FROM x\n", 6, 9),
    ("tabs inside", "      sql: |\n        SELECT\t1\n        \tFROM x\n", 6, 9),
    ("emoji", "      sql: |\n        SELECT '😀' AS é\n        FROM x\n", 6, 9),
    ("next line", "      sql:\n        SELECT 1 FROM x\n", 6, 9),
    ("plain", "      sql: SELECT 1 FROM x # why\n", 5, 12),
    ("single quotes", "      sql: 'SELECT 1 FROM x'\n", 5, 13),
    ("double quotes", '      sql: "SELECT 1 FROM x"\n', 5, 13),
]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize(("name", "text", "line", "column"), EXACT, ids=lambda v: str(v)[:12])
def test_every_character_is_found_again(
    name: str, text: str, line: int, column: int, newline: str
) -> None:
    source = (HEAD + text).replace("\n", newline)
    body = sql(source)
    assert body.text == TextPlace("f.yaml", line, column, exact=True)
    rows = source.split(newline)
    for number, row in enumerate(body.sql.split("\n"), 1):
        for offset, character in enumerate(row, 1):
            place = body.text.at(number, offset)
            assert rows[place.line - 1][place.column - 1] == character


INEXACT = [
    ("folded", "      sql: >\n        SELECT 1\n        FROM x\n", 6, 9),
    ("two lines", "      sql: SELECT 1\n        FROM x\n", 5, 12),
    ("escapes", '      sql: "SELECT\\t1"\n', 5, 13),
    ("doubled quotes", "      sql: 'SELECT ''a'''\n", 5, 13),
]


@pytest.mark.parametrize(("name", "text", "line", "column"), INEXACT, ids=lambda v: str(v)[:12])
def test_other_texts_are_placed_at_their_beginning(
    name: str, text: str, line: int, column: int
) -> None:
    place = sql(HEAD + text).text
    assert place == TextPlace("f.yaml", line, column, exact=False)
    assert place.at(2, 7) == Position("f.yaml", line, column)


def python(body: str, files: Mapping[str, str] = NO_FILES) -> PythonTransform:
    found = one(body, files)
    assert isinstance(found, PythonTransform)
    return found


def test_inline_python_is_a_module_of_the_components_name() -> None:
    found = python("transform:\n  python: |\n    def transform():\n        return 1\n  inputs: {}")
    assert found.main == "c.py"
    assert found.modules == (("c.py", "def transform():\n    return 1\n"),)
    assert found.text.at(2, 5) == Position("f.yaml", 7, 13)


def test_a_python_file_has_its_own_lines() -> None:
    files = {"t/a.py": "import lib", "t/lib.py": "x = 1", "t/other.py": ""}
    found = python("transform:\n  file: t/a.py\n  modules: [t/lib.py]\n  inputs: {}", files)
    assert found.modules == (("t/a.py", "import lib"), ("t/lib.py", "x = 1"))
    assert found.text.at(3, 2) == Position("t/a.py", 3, 2)


def test_a_module_cannot_take_the_name_of_inline_code() -> None:
    text = component("transform:\n  python: x = 1\n  modules: [c.py]\n  inputs: {}")
    assert [(p.code, p.line) for p in problems_of(text, {"c.py": ""})] == [("conflicting-keys", 6)]
