"""How answers are shown."""

from __future__ import annotations

import io
import json
import os
from pathlib import Path
from typing import Any

import pytest

from controlplane.cli import failures, views
from controlplane.cli.output import Lines, TextTable, problem_excerpts, show
from controlplane.core.errors import InvalidBlueprint, Problem

SUMMARY: Any = {  # what is shown of it
    "state": "failed",
    "tasks": {"executed": 27, "adopted": 0, "written": 12, "retried": 0, "failed": 1, "other": 4},
    "spark_started": True,
    "wall_s": 21.4,
    "datasets": [
        {"name": "f.daily", "state": "up_to_date", "generation": 1, "partitions": 12, "rows": 36500}
    ],
    "targets": [{"name": "f.out", "state": "blocked", "synced_generation": 0, "target": "/out"}],
    "errors": [
        {
            "dataset": "f.x",
            "file": "f.yaml",
            "line": 3,
            "column": 9,
            "condition": "DIVIDE_BY_ZERO",
            "sqlstate": "22012",
            "message": "Division by zero.",
        }
    ],
}


def shown(value: object, view: list[TextTable | Lines], form: str) -> str:
    out = io.StringIO()
    show(value, view, form, out)  # type: ignore[arg-type]  # texts of the parameters above
    return out.getvalue()


def test_a_summary_as_text() -> None:
    assert shown(SUMMARY, [*views.summary(SUMMARY)], "table") == (
        "name     state       generation  partitions   rows\n"
        "f.daily  up_to_date           1          12  36500\n"
        "\n"
        "name   state    synced generation  target\n"
        "f.out  blocked                  0  /out\n"
        "\n"
        "error: f.yaml:3:9: f.x: DIVIDE_BY_ZERO 22012\n"
        "  Division by zero.\n"
        "\n"
        "failed in 21.4 s: 27 executed, 0 adopted, 12 written, 0 retried, 1 failed, 4 other; Spark started\n"
    )


@pytest.mark.parametrize(
    ("file", "column", "place"),
    [
        ("{here}", 9, "{here}:3:9"),
        ("/gone/checkout/f.yaml", 9, "dataflow f, line 3, column 9"),
        ("/data/of/the/service.csv", None, "/data/of/the/service.csv:3"),
        ("helpers.py", 9, "helpers.py:3:9"),
    ],
)
def test_an_error_has_a_place_that_exists(
    tmp_path: Path, file: str, column: int | None, place: str
) -> None:
    here = tmp_path / "f.yaml"
    here.touch()
    error = {**SUMMARY["errors"][0], "file": file.format(here=here), "column": column}
    assert (
        views.failure(error, "f.x")[0]
        == f"error: {place.format(here=here)}: f.x: DIVIDE_BY_ZERO 22012"
    )
    assert views.failure(error, dataset="f.x")[0].startswith(f"error: {place.format(here=here)}: ")


def test_a_problem_names_no_path_of_another_machine(tmp_path: Path) -> None:
    here, typed = str(tmp_path / "here.yaml"), str(tmp_path / "typed.yaml")
    Path(here).touch()
    files = (typed, here, "/gone/checkout/f.yaml", "posted")
    error = InvalidBlueprint(tuple(Problem(file, 1, 2, "still-read", "x", "") for file in files))
    answer = failures.document(error, {typed: "typed.yaml"})
    assert [e["file"] for e in answer["errors"]] == ["typed.yaml", here, "f.yaml", "posted"]


def test_json_and_yaml_are_the_answer_itself() -> None:
    import yaml

    assert json.loads(shown(SUMMARY, [], "json")) == SUMMARY
    assert yaml.safe_load(shown(SUMMARY, [], "yaml")) == SUMMARY


def test_a_number_in_a_table_may_be_a_year() -> None:
    assert (
        shown({}, [TextTable(("year", "share"), ((2024, 1234.5),))], "table")
        == "year   share\n2024  1234.5\n"
    )


def test_markdown_keeps_cells_apart() -> None:
    text = shown({}, [TextTable(("a", "b"), (("x|y", 1000),), "t")], "md")
    assert text == "**t**\n\n| a | b |\n| --- | --- |\n| x\\|y | 1000 |\n"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_names_of_columns_are_texts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "unknown")  # of which no styles are known
    names = TextTable(("[/b]", "a|b", "\x1b"), ((1, 2, 3),), "[/t]")
    screen = Terminal()
    show({}, [names], "table", screen)
    for text in (screen.getvalue(), shown({}, [names], "table")):
        assert [line.split() for line in text.splitlines()[-2:]] == [
            ["[/b]", "a|b", "\\x1b"],
            ["1", "2", "3"],
        ]
    assert "| [/b] | a\\|b | \\x1b |" in shown({}, [names], "md")


def test_control_characters_never_reach_a_terminal() -> None:
    text = shown({}, [TextTable(("a",), (("\x1b[31mred\n",),)), Lines(("\x07",))], "table")
    assert text == "a\n\\x1b[31mred\\n\n\n\\x07\n"


def test_what_failed_or_warns_is_named_below_the_datasets() -> None:
    dataset = {**SUMMARY["datasets"][0], "checks": {"failed": ["one"], "warning": ["v > 0"]}}
    text = shown(
        {},
        [*views.summary(SUMMARY | {"datasets": [dataset], "targets": [], "errors": []})],
        "table",
    )
    assert text.splitlines()[2:5] == ["", "failed: f.daily: one", "warning: f.daily: v > 0"]


def test_what_holds_things_up_is_told_where_it_begins() -> None:
    names = {"f.src": ("waiting", "it lost 21 of 30"), "f.a": ("blocked", "f.src is waiting")}
    names |= {"f.b": ("blocked", "other.c has failed"), "f.d": ("stale", "waits for f.src")}
    things = [
        {"name": name, "state": state, "reason": reason} for name, (state, reason) in names.items()
    ]
    text = shown(
        {}, [*views.summary(SUMMARY | {"datasets": things, "targets": [], "errors": []})], "table"
    )
    assert text.splitlines()[6:8] == [
        "waiting: f.src: it lost 21 of 30",
        "blocked: f.b: other.c has failed",
    ]
    assert "is waiting" not in text
    assert "waits for" not in text


def test_results_of_expectations() -> None:
    check: Any = {
        "name": "v > 0",
        "on_fail": "warn",
        "state": "warning",
        "rows": 1000,
        "failing": 2,
    }
    dropped: dict[str, object] = {
        "name": "known",
        "on_fail": "drop",
        "state": "ok",
        "rows": None,
        "failing": 0,
        "examples": [],
    }
    failing = {**check, "examples": [{"partition": "a.csv", "row": '{"v":0}'}]}
    value: Any = {
        "generation": 3,
        "items": [failing, dropped],
        "rejected": [{**failing, "state": "failed"}],
    }
    assert shown(value, [*views.checks(value)], "table") == (
        "generation 3\n"
        "check  on fail  state    rows  failing  example\n"
        'v > 0  warn     warning  1000        2  {"v":0} in a.csv\n'
        "known  drop     ok                   0\n"
        "\n"
        "rows that were rejected\n"
        "check  on fail  state   rows  failing  example\n"
        'v > 0  warn     failed  1000        2  {"v":0} in a.csv\n'
    )
    assert "nothing is expected" in shown(
        {}, [*views.checks(value | {"items": [], "rejected": []})], "table"
    )


def test_a_failure_names_files_as_they_were_typed() -> None:
    error = InvalidBlueprint((Problem("/w/a.yaml", 1, 2, "unknown-key", "red", "read?"),))
    value = failures.document(error, {"/w/a.yaml": "a.yaml"})
    assert value["type"] == "urn:headgate:invalid-blueprint"
    assert value["errors"] == [
        {
            "file": "a.yaml",
            "line": 1,
            "column": 2,
            "code": "unknown-key",
            "message": "red",
            "hint": "read?",
        }
    ]


def problem(file: str, line: int, column: int) -> dict[str, object]:
    return {"file": file, "line": line, "column": column, "code": "c", "message": "m"}


def test_a_problem_shows_its_line_with_a_caret(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text("dataflow: shop\n\tsql: SELECT\x1b[1m prise\n")
    assert problem_excerpts([problem(str(file), 2, 7)])[1:] == [
        r"     2 |  sql: SELECT\x1b[1m prise",
        "       |       ^",
    ]


def test_the_caret_stands_below_its_place_in_a_long_line(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(f"{'x' * 5_000}!{'x' * 5_000}\n")
    _, text, caret = problem_excerpts([problem(str(file), 1, 5_001)])
    assert len(text) < 120
    assert text[caret.index("^")] == "!"


@pytest.mark.parametrize(("name", "line"), [("", 0), ("gone.yaml", 1), ("shop.yaml", 9)])
def test_a_problem_without_a_line_has_no_excerpt(tmp_path: Path, name: str, line: int) -> None:
    (tmp_path / "shop.yaml").write_text("dataflow: shop\n")
    file = str(tmp_path / name) if name else ""
    assert len(problem_excerpts([problem(file, line, 1)])) == 1


@pytest.mark.parametrize(
    "line", ["  sasl.password: hunter2", "  url: jdbc:postgresql://app:hunter2@db/shop"]
)
def test_a_line_that_may_hold_a_secret_is_not_shown(tmp_path: Path, line: str) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(f"{line}\n")
    assert "hunter2" not in "".join(problem_excerpts([problem(str(file), 1, 3)]))


def test_a_pipe_is_not_read_again(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.yaml")
    assert len(problem_excerpts([problem(str(tmp_path / "pipe.yaml"), 1, 1)])) == 1
