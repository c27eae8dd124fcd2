"""`headgate query` and `headgate sql`, as a user runs them against a service."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest

from controlplane.__main__ import Bootstrap
from controlplane.cli.main import run
from controlplane.cli.sql import Completer, Shell
from tests.unit.queries.test_api import Served
from tests.unit.queries.test_api import served as served

BLUEPRINT = """\
dataflow: shop
components:
  totals:
    read: {connector: files, path: /data/*.csv, format: csv, schema: "k BIGINT, v STRING"}
"""
FIRST = "SELECT k, v FROM shop.totals@1 ORDER BY k"


@pytest.fixture(autouse=True)
def reached(served: Served, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HEADGATE_URL", served.url)
    monkeypatch.setenv("HEADGATE_TOKEN", served.token)


def typed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))


def test_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["query", FIRST, "--limit", "1"], Bootstrap()) == 0
    assert capsys.readouterr().out == "k  v\n1  a\n\nfirst 1 rows; there are more: --limit\n"


def test_csv_has_null_as_nothing_and_nested_values_as_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert (
        run(["query", "SELECT 1 AS a, NULL AS b, ['x,'] AS c, true AS d", "-o", "csv"], Bootstrap())
        == 0
    )
    assert capsys.readouterr().out == 'a,b,c,d\n1,,"[""x,""]",true\n'


def test_json_and_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "query",
        "SELECT $n + 1 AS n, $t AS t",
        "--param",
        "n=2",
        "--param",
        "t=2x=3",
        "--output",
        "json",
    ]
    assert run(arguments, Bootstrap()) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["generations"]) == ([[3, "2x=3"]], {})


def test_from_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, "SELECT 7 AS x")
    assert run(["query", "-"], Bootstrap()) == 0
    assert capsys.readouterr().out == "x\n7\n"


def test_a_problem_has_its_place(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["query", "SELECT *\nFROM shop.total"], Bootstrap()) == 1
    assert capsys.readouterr().err == (
        "query:2:6: unknown-table: there is no table shop.total with committed data in main"
        " (did you mean shop.totals?)\n"
    )


def test_a_parameter_without_a_value(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["query", "SELECT 1", "--param", "n"], Bootstrap()) == 64
    assert "NAME=VALUE" in capsys.readouterr().err


def test_the_shell(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with served.client() as client:
        client.apply([{"name": "/shop.yaml", "text": BLUEPRINT}])
    lines = [
        "\\d",
        "\\d shop.totals",
        "SELECT k",
        "FROM shop.totals@1;",
        "SELECT nope;",
        "\\b none",
        "\\limit 1",
    ]
    typed(monkeypatch, "\n".join([*lines, f"{FIRST};", "\\h", "\\q", "SELECT 'not reached';"]))
    assert run(["sql"], Bootstrap()) == 0
    said = capsys.readouterr()
    assert said.out.startswith(
        "table\nshop.totals\ncolumn  type\nk       BIGINT\nv       VARCHAR\nk\n"
    )
    assert "first 1 rows" in said.out
    assert "the end" in said.out
    assert "not reached" not in said.out
    assert "query:1:8: query-refused" in said.err
    assert "there is no branch 'none'" in said.err


def test_the_last_query_needs_no_semicolon(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, "SELECT 1 AS one;\nSELECT 2 AS two")
    assert run(["sql"], Bootstrap()) == 0
    assert capsys.readouterr().out == "one\n  1\ntwo\n  2\n"


def test_completion(served: Served) -> None:
    with served.client() as client:
        client.apply([{"name": "/shop.yaml", "text": BLUEPRINT}])
        shell = Shell(client, "main", 10, 10.0)
        line = ""
        complete = Completer(shell, lambda: line)
        assert complete.candidates("sho") == ["shop.totals"]
        assert complete.candidates("sel") == ["SELECT"]
        assert complete("sho", 0) == "shop.totals"
        assert complete("sho", 1) is None
        assert "v" not in complete.candidates("v")
        shell.take("SELECT v")
        line = "FROM shop.totals WHERE v"
        assert complete.candidates("v") == ["v"]


def test_completion_says_nothing_of_errors(served: Served) -> None:
    with served.client() as client:
        assert Completer(Shell(client, "none", 10, 10.0), lambda: "").candidates("s") == []


def test_where_spark_is_not_offered_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["query", "--engine", "spark", "SELECT 1"], Bootstrap()) == 1
    assert (
        "engine-unavailable: this service does not answer queries by Spark"
        in capsys.readouterr().err
    )


def test_the_shell_changes_the_engine(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(monkeypatch, "\n".join(["\\e spark", "SELECT 1;", "\\e duckdb", "SELECT 42 AS x;"]))
    assert run(["sql"], Bootstrap()) == 0
    said = capsys.readouterr()
    assert "engine-unavailable" in said.err
    assert "42" in said.out


def test_a_query_is_promoted_without_a_comparison_where_there_is_no_spark(
    served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    with served.client() as client:
        client.apply([{"name": "/shop.yaml", "text": BLUEPRINT}])
    arguments = ["promote", "SELECT k + 1 AS k FROM shop.totals", "--as", "shop.more", "--no-spark"]
    assert run([*arguments, "--compare", "duckdb"], Bootstrap()) == 0
    told = capsys.readouterr().out
    assert "SELECT k + 1 AS k FROM totals" in told
    assert "rows were not compared: this service does not answer queries by Spark" in told
