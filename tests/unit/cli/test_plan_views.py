"""A plan as a person reads it: what breaks first, in a terminal and in the comment of a pull
request.

The answers come from a server without workers on a home of their own.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controlplane.__main__ import Bootstrap
from controlplane.cli import plan_views
from controlplane.cli.main import run
from controlplane.core.model.answers import PlanCost

SHOP = """\
dataflow: shop
components:
  orders:
    read: {connector: files, path: /data, format: csv, schema_change: fail, schema: "id INT, price INT"}
  dear:
    transform: {sql: "SELECT id, price FROM orders WHERE price > 100"}
  spent:
    transform: {sql: "SELECT sum(price) AS price FROM dear"}
"""
BREAK = "shop.yaml:8:34: edit-breaks-reader: shop.spent reads sum(price) of shop.dear, which has it no more"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stored dataflow, and its file with an edit that takes a column away."""
    monkeypatch.chdir(tmp_path)
    for name in ("URL", "TOKEN", "HOME", "POOL", "DATABASE_URL", "LAKE"):
        monkeypatch.delenv(f"HEADGATE_{name}", raising=False)
    file = tmp_path / "shop.yaml"
    file.write_text(SHOP)
    assert headgate("apply", "shop.yaml") == 0
    file.write_text(SHOP.replace("id, price FROM", "id FROM"))
    return file


def headgate(*arguments: str) -> int:
    return run(arguments, Bootstrap())


def test_a_plan_that_breaks_a_reader_fails_and_names_its_place(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    for options in ((), ("--detailed-exitcode",)):
        assert headgate("plan", "--no-refresh", "--no-spark", "shop.yaml", *options) == 1
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].startswith(f"{BREAK} (keep the column in shop.dear, ")
        assert lines[3].split() == [
            *("shop.dear", "logic", "edited", "breaking", "-price", "the", "query;"),
            *("columns", "by", "sqlglot,", "not", "by", "Spark"),
        ]
    assert headgate("plan", "--no-refresh") == 0, "what is stored breaks nothing"


def test_json_has_the_changes_and_what_they_break(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert headgate("plan", "--no-refresh", "--no-spark", "shop.yaml", "-o", "json") == 1
    value = json.loads(capsys.readouterr().out)
    [change] = value["changes"]
    assert (change["component"], change["kind"], change["impact"]) == (
        "shop.dear",
        "logic",
        "breaking",
    )
    assert change["columns"] == {"added": [], "removed": ["price"], "retyped": []}
    assert change["breaks"] == value["breaks"]
    [broken] = value["breaks"]
    assert (broken["component"], broken["what"], broken["by"]) == (
        "shop.spent",
        "reader",
        "shop.dear",
    )
    assert change["text_diff"].startswith("--- shop.yaml\n+++ shop.yaml\n@@ -5,2 +5,2 @@\n")


def test_modes_are_shown_where_they_are_wanted(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert headgate("plan", "--no-refresh", "--modes") == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "shop.dear orders each every row comes from one row of orders" in lines
    assert any(line.startswith("shop.spent dear parts aggregate sum at line 1") for line in lines)
    assert "shop.orders 3 3 not known" in lines
    headgate("plan", "--no-refresh")
    assert "one late partition of" not in capsys.readouterr().out


def test_an_apply_that_breaks_a_reader_warns_and_is_done(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert headgate("apply", "shop.yaml") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "shop is at revision 2"
    assert BREAK in "\n".join(lines)


def test_a_comment_says_it_in_its_first_line_and_folds_the_rest(
    shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert headgate("plan", "--no-refresh", "--no-spark", "shop.yaml", "-o", "md") == 1
    text = capsys.readouterr().out
    assert text.startswith("### Headgate: ❌ breaks 1 component; 0 tasks certain")
    assert (
        "- `shop.yaml:8:34` shop.spent reads sum(price) of shop.dear, which has it no more — keep"
        in text
    )
    assert (
        "| `shop.dear` | logic edited | **breaking** | -price | the query; columns by sqlglot"
        in text
    )
    assert "<details><summary>Text of shop.dear</summary>\n\n```diff\n--- shop.yaml\n" in text
    assert (
        '-    transform: {sql: "SELECT id, price FROM orders WHERE price &gt; 100"}' not in text
    ), "code is as it is"
    assert text.rstrip().endswith("</sub>")


@pytest.mark.parametrize(
    ("cost", "words"),
    [
        (
            {
                "seconds": {"low": 30.0, "median": 40.2, "high": 130.0},
                "bytes": 3_100_000,
                "rows": 1200,
                "adopted": 0,
                "unknown": [],
            },
            "about 40 s of drivers (30 s to 2 min), 1,200 rows, 3.1 MB",
        ),
        (
            {
                "seconds": {"low": 0.2, "median": 0.5, "high": 8000.0},
                "bytes": 12,
                "rows": 1,
                "adopted": 2,
                "unknown": ["a.b"],
            },
            "about 0.5 s of drivers (0.2 s to 2.2 h), 1 rows, 12 bytes; unknown for a.b; 2 partitions known already",
        ),
        (
            {"seconds": None, "bytes": 0, "rows": 0, "adopted": 0, "unknown": ["a.b"]},
            "unknown, no past attempt of this work",
        ),
    ],
)
def test_a_cost_in_words(cost: PlanCost, words: str) -> None:
    assert plan_views.in_words(cost) == words
