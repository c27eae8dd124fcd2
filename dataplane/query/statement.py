"""The check of a query by DuckDB's own parser: it must be one SELECT over tables that it names.

The locked database refuses all this a second time, or does not have it.
"""

from __future__ import annotations

import json
import re
import string
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dataplane.contract.query_protocol import SQL_MOST, Inspected, Refusal, TableReference
from dataplane.contract.schemas import Json
from dataplane.query.duckdb_addresses import Quoted, quoted, with_catalogs

if TYPE_CHECKING:
    import duckdb

TABLE_FUNCTIONS = frozenset(
    {"range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree"}
)
REFUSED_FUNCTIONS = frozenset(
    {"current_setting", "getenv", "write_log", "set_config", "which_secret"}
)
# Of a table or query; other words show what is in the database
SHOWN = frozenset({"DESCRIBE", "SUMMARY"})
MESSAGE_MOST = 4_000  # characters
NOWHERE = 2**63  # DuckDB's place where there is none
# Before a query: the plan of it, or its plan with what each step took
_EXPLAIN = re.compile(r"\s*(EXPLAIN(?:\s+ANALYZE)?)\b", re.IGNORECASE)
ONE_SELECT = "a query is one SELECT: nothing else is run here"
PIVOT = (
    "PIVOT is read in brackets, with the values: FROM (PIVOT ... ON x IN ('a', 'b') USING sum(y))"
)


class StatementRefused(Exception):
    """Why a query is not run."""

    def __init__(self, refusal: Refusal) -> None:
        message = _shortened(refusal["message"])
        super().__init__(message)
        self.refusal: Refusal = {**refusal, "message": message}


def _shortened(message: str) -> str:
    """An engine's words may repeat a value of the query's, however long that is."""
    return message if len(message) <= MESSAGE_MOST else f"{message[:MESSAGE_MOST]}..."


def refused(message: str, at: int | None = None) -> StatementRefused:
    return StatementRefused({"kind": "refused", "message": message, "at": at})


@dataclass(frozen=True, slots=True)
class Statement:
    """A query that may be run. `text` is the engine's. `explain`: EXPLAIN, where the query begins
    with it."""

    text: Quoted
    inspected: Inspected
    explain: str = ""

    @property
    def sql(self) -> str:
        """What the engine runs, with each character at its place in `text`."""
        return self.explain + self.text.text[len(self.explain) :]


class Parser:
    """Reads queries. Its database is locked and has no tables, and no text of a user's runs in
    it."""

    def __init__(self) -> None:
        import duckdb

        self._database = duckdb.connect(config={"threads": 1, "autoload_known_extensions": False})
        self._database.execute("SET enable_external_access = false")
        self._database.execute("SET lock_configuration = true")
        self._volatile = _volatile(self._database)

    def inspect(self, sql: str) -> Statement:
        """Raises QueryRefused for anything but one SELECT over named tables and functions that read
        nothing."""
        if len(sql) > SQL_MOST:
            raise refused(f"a query has at most {SQL_MOST:,} characters")
        if "\0" in sql:
            raise refused("a query has no NUL characters", sql.index("\0"))
        explain = _EXPLAIN.match(sql)
        # Blanks in place of EXPLAIN, which DuckDB's parser of trees does not read
        text = quoted(" " * explain.end() + sql[explain.end() :] if explain else sql)
        tree = _parsed(self._database, text)
        references, is_repeatable = list[TableReference](), True
        branches, dataflows = list[int](), list[int]()
        for node, names in _nodes(tree):
            _check_node(node, text)
            if (reference := _reference(node, text, names)) is not None:
                references.append(reference)
                named_first = branches if reference["branch"] else dataflows
                named_first.append(node["query_location"])
            is_repeatable = is_repeatable and not _varies(node, self._volatile)
        # EXPLAIN tells sizes and times of the moment
        inspected: Inspected = {
            "references": references,
            "is_repeatable": is_repeatable and explain is None,
        }
        catalogued = with_catalogs(text, branches, dataflows)
        return Statement(catalogued, inspected, explain[1] if explain else "")


def _parsed(database: duckdb.DuckDBPyConnection, text: Quoted) -> Json:
    answer = database.execute("SELECT json_serialize_sql(?::VARCHAR)", [text.text]).fetchall()[0][0]
    parse = json.loads(answer)
    if parse["error"]:
        raise _unparsed(parse, text)
    if len(parse["statements"]) != 1:
        raise refused(ONE_SELECT)
    return parse["statements"][0]


def _unparsed(parse: Json, text: Quoted) -> StatementRefused:
    if parse["error_type"] != "parser":
        return refused(ONE_SELECT if "pivot" not in text.text.lower() else f"{ONE_SELECT}; {PIVOT}")
    at = parse.get("position")
    return refused(parse["error_message"], None if at is None else text.origin_of_byte(int(at)))


Names = frozenset[str]  # of WITH, as `_folded`
NO_NAMES: Names = frozenset()


def _nodes(tree: Json) -> Iterator[tuple[Json, Names]]:
    """All objects in a parsed statement, each with the names of WITH that DuckDB resolves there.
    Without recursion: a user wrote how deep it is."""
    left: list[tuple[Json, Names]] = [(tree, NO_NAMES)]
    while left:
        node, names = left.pop()
        if isinstance(node, dict):
            yield node, names
            left.extend(reversed(list(_children(node, names))))
        elif isinstance(node, list):
            left.extend((item, names) for item in reversed(node))


def _children(node: Json, names: Names) -> Iterator[tuple[Json, Names]]:
    """A name of WITH holds in the entries after it and in the query, and a recursive one in its own
    recursive part. Anywhere else DuckDB looks the name up in its catalogue, and then among
    files."""
    for entry in (node.get("cte_map") or {}).get("map", []):
        yield entry["value"], names
        names |= {_folded(entry["key"])}
    is_recursive = node.get("type") == "RECURSIVE_CTE_NODE"
    for field, value in node.items():
        if is_recursive and field == "right":
            yield value, names | {_folded(node["cte_name"])}
        elif field != "cte_map":
            yield value, names


def _folded(name: str) -> str:
    """A name as DuckDB compares it: it folds the letters of ASCII alone."""
    return name.translate(_ASCII_LOWER)


_ASCII_LOWER = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)


def _check_node(node: Json, text: Quoted) -> None:
    at = _place(node, text)
    if node.get("class") == "FUNCTION" and node["function_name"].lower() in REFUSED_FUNCTIONS:
        raise refused(f"{node['function_name']}() is not run here", at)
    if node.get("type") == "TABLE_FUNCTION" and "class" not in node:
        _check_table_function(node["function"], at)
    if node.get("type") == "SHOW_REF" and node.get("show_type") not in SHOWN:
        raise refused("SHOW is not run here; DESCRIBE and SUMMARIZE are, of a table or query", at)


def _check_table_function(function: Json, at: int | None) -> None:
    name = function.get("function_name", "")
    if name.lower() not in TABLE_FUNCTIONS:
        allowed = ", ".join(sorted(TABLE_FUNCTIONS))
        raise refused(
            f"{name or 'this'} is no function to read from here; these are: {allowed}", at
        )


def _reference(node: Json, text: Quoted, names: Names) -> TableReference | None:
    if node.get("type") != "BASE_TABLE" or "class" in node:
        return None
    schema, table, at = node["schema_name"], node["table_name"], _place(node, text)
    if node.get("at_clause"):
        raise refused(f"write the generation or time behind the name: {schema}.{table}@3", at)
    if schema:
        return {"branch": node["catalog_name"], "dataflow": schema, "table": table, "at": at or 0}
    if _folded(table) in names:
        return None
    message = (
        f"there is no table {table}: a table is named by dataflow and dataset, as in flights.delays"
    )
    raise StatementRefused({"kind": "unknown", "message": message, "at": at})


def _place(node: Json, text: Quoted) -> int | None:
    at = node.get("query_location", NOWHERE)
    return text.origin_of_byte(at) if isinstance(at, int) and at < NOWHERE else None


def _volatile(database: duckdb.DuckDBPyConnection) -> frozenset[str]:
    """Functions that give the time, or another value at each call."""
    rows = database.execute(
        "SELECT function_name FROM duckdb_functions() WHERE stability <> 'CONSISTENT'"
    ).fetchall()
    return frozenset(row[0] for row in rows)


def _varies(node: Json, volatile: frozenset[str]) -> bool:
    if node.get("sample"):
        return True
    if node.get("class") == "COLUMN_REF":  # current_date and the like are read as columns
        names = node.get("column_names") or [""]
        return len(names) == 1 and names[0].lower() in volatile | _CLOCKS
    return node.get("class") == "FUNCTION" and node["function_name"].lower() in volatile


_CLOCKS = frozenset(
    {"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp"}
)
