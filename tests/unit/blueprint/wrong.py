"""Blueprints that are wrong, with what their authors are told. A `^` marks the word that is at
fault."""

from __future__ import annotations

from typing import NamedTuple

FLOW = "dataflow: d\ncomponents:\n"
RAW = "  raw: {read: {connector: files, path: /data/*.csv, format: csv}}\n"
DECLARED = (
    "  flights:\n    read: {connector: files, path: /f/*.csv, format: csv,\n"
    "      schema: 'carrier STRING, month INT, delay INT'}\n"
    "  airlines:\n    read: {connector: files, path: /a/*.csv, format: csv, schema: 'carrier STRING, name STRING'}\n"
)


class Told(NamedTuple):
    """One problem: its code, and parts of its message and of its hint."""

    code: str
    message: str
    hint: str = ""


class Wrong(NamedTuple):
    """Texts by file, and what is told of each mark, in order of file and place."""

    name: str
    texts: dict[str, str]
    told: tuple[Told, ...]


def flow(name: str, components: str, *told: Told) -> Wrong:
    """One file with these components."""
    return Wrong(name, {"d.yaml": FLOW + components}, told)


def sql(name: str, query: str, *told: Told, more: str = "") -> Wrong:
    """One query over sources with and without declared columns."""
    lines = "".join(f"        {line}\n" for line in query.split("\n"))
    return flow(name, f"{DECLARED}{RAW}  out:\n    transform:\n      sql: |\n{lines}{more}", *told)


TRIAL = (
    flow(
        "a key of read beside it",
        "  raw:\n    read: {connector: kafka, servers: b:9092, topic: t, schema: 'a INT'}\n    ^refresh: 1m\n",
        Told("unknown-key", "'refresh'", "it is a key of read: indent it below read"),
    ),
    flow(
        "an unknown table, bad SQL and an unknown key",
        RAW + "  one:\n    transform: {sql: SELECT * FROM ^nothing}\n"
        "  two:\n    transform:\n      sql: SELECT a ^FORM raw x\n"
        "  three:\n    transform: {sql: SELECT * FROM two}\n    ^colour: red\n",
        Told("missing-input", "'nothing'"),
        Told("invalid-sql", "'FORM'", "did you mean FROM?"),
        Told("unknown-key", "'colour'", "known here"),
    ),
    Wrong(
        "a wrong name, an unknown connector, an unknown table and an empty component",
        {
            "d.yaml": "dataflow: ^My-Shop\ncomponents:\n  raw: {read: {connector: ^fles, path: /d/*.csv}}\n"
            "  one: {transform: {sql: SELECT * FROM ^rav}}\n  two:^\n  ok: {transform: {sql: SELECT * FROM raw}}\n"
        },
        (
            Told("invalid-name", "'My-Shop'", "my_shop"),
            Told("invalid-value", "'fles'", "did you mean 'files'?"),
            Told("missing-input", "'rav'", "did you mean 'raw'?"),
            Told("wrong-type", "found nothing"),
        ),
    ),
)

SEVERAL_FILES = (
    Wrong(
        "a dataset of a file that is no YAML",
        {
            "a.yaml": "dataflow: a\ncomponents:\n  x: [\n^",
            "b.yaml": "dataflow: b\ncomponents:\n  y: {transform: {sql: SELECT * FROM a.x JOIN ^c.z}}\n",
        },
        (Told("invalid-yaml", ""), Told("missing-input", "'c.z'")),
    ),
    Wrong(
        "a dataset of a file without a name, which may have any",
        {
            "a.yaml": "^components:\n  x: {transform: {sql: SELECT 1 AS n}}\n",
            "b.yaml": "dataflow: b\ncomponents:\n  y: {transform: {sql: SELECT * FROM a.x JOIN ^z}}\n",
        },
        (Told("missing-key", "'dataflow'"), Told("missing-input", "'z'")),
    ),
    Wrong(
        "a dataset that is broken in another file",
        {
            "a.yaml": "dataflow: a\ncomponents:\n  x: {transform: {sql: SELECT * FROM ^nothing}}\n  w:^\n",
            "b.yaml": "dataflow: b\ncomponents:\n  y: {transform: {sql: SELECT * FROM a.x JOIN a.w JOIN ^a.v}}\n",
        },
        (
            Told("missing-input", "'nothing'"),
            Told("wrong-type", ""),
            Told("missing-input", "'a.v'"),
        ),
    ),
    Wrong(
        "one dataflow twice, and a problem in each",
        {
            "a.yaml": "dataflow: a\ncomponents:\n  x: {transform: {sql: SELECT * FROM ^one}}\n",
            "b.yaml": "dataflow: ^a\ncomponents:\n  x: {transform: {sql: SELECT * FROM ^two}}\n",
        },
        (
            Told("missing-input", "'one'"),
            Told("duplicate-dataflow", "a.yaml", "rename one"),
            Told("missing-input", "'two'"),
        ),
    ),
)

SQL = (
    sql("FROM", "SELECT carrier ^FORM flights x", Told("invalid-sql", "'FORM'", "did you mean FROM?")),
    sql("ORDER", "SELECT carrier FROM flights ^ORDR BY 1", Told("invalid-sql", "'ORDR'", "did you mean ORDER?")),
    sql("SELECT", "^SELEC carrier FROM flights", Told("not-a-query", "'SELEC'", "did you mean SELECT?")),
    sql("INSERT", "^INSERT INTO x SELECT 1", Told("not-a-query", "'INSERT'", "begin with SELECT")),
    sql("BY", "SELECT month FROM flights ^GROUP month", Told("invalid-sql", "without BY", "GROUP BY")),
    sql("a comma", "SELECT month^, FROM flights", Told("invalid-sql", "comma before FROM", "remove it")),
    sql("an open bracket", "SELECT count^(month FROM flights", Told("invalid-sql", "'(' is never closed", "')'")),
    sql("a closed bracket", "SELECT month^) FROM flights", Told("invalid-sql", "closes nothing", "remove it")),
    sql("a quote", "SELECT ^'x FROM flights", Told("invalid-sql", "never closed")),
    sql("no table", "SELECT month\n^FROM", Told("invalid-sql", "the name of a table is missing")),
    sql("no operand", "SELECT month FROM flights WHERE month ^=", Told("invalid-sql", "ends after '='")),
    sql("AND", "SELECT month FROM flights WHERE ^AND month", Told("invalid-sql", "missing before 'AND'")),
    sql("CASE", "SELECT ^CASE WHEN month = 1 THEN 2 FROM flights", Told("invalid-sql", "CASE without END", "add END")),
    sql("a type", "SELECT CAST(month AS ^STRNG) FROM flights", Told("invalid-sql", "no type", "did you mean STRING?")),
    sql("clauses", "SELECT month WHERE x ^FROM flights", Told("invalid-sql", "'FROM'", "order SELECT, FROM")),
    sql("two tables", "SELECT * FROM ^flihgts JOIN ^nothing", Told("missing-input", "'flihgts'", "'flights'"),
        Told("missing-input", "'nothing'", "dataflow.name")),
    sql("two statements", "SELECT 1 AS n; ^SELECT 2 AS n", Told("several-statements", "")),
    sql("a parameter", "SELECT * FROM flights WHERE month > ^:mnth", Told("missing-parameter", ":mnth", "'month'"),
        more="      params: {month: 1}\n"),
    sql("a hint of nothing", "SELECT * FROM flights", Told("unused-input", "'flihgts'", "'flights'"),
        more="      inputs: {^flihgts: each}\n"),
    sql("a mode", "SELECT * FROM flights", Told("invalid-value", "'eech'", "did you mean 'each'?"),
        more="      inputs: {flights: ^eech}\n"),
)  # fmt: skip

COLUMNS = (
    sql("two aliases", "SELECT a.carrier AS x, a.month AS ^x FROM flights a", Told("duplicate-column", "'x'", "name")),
    sql("aliases in two cases", "SELECT month AS x, carrier AS ^X FROM raw", Told("duplicate-column", "'X'")),
    sql("a star over a join", "SELECT ^* FROM flights f JOIN airlines a ON f.carrier = a.carrier",
        Told("duplicate-column", "'carrier'", "in place of *")),
    sql("a star and a column", "SELECT *, ^month FROM flights", Told("duplicate-column", "'month'")),
    sql("the first side counts", "SELECT month AS x, carrier AS ^x FROM flights UNION ALL SELECT 1 AS y, 2 AS y",
        Told("duplicate-column", "'x'")),
    sql("a star over USING is right", "SELECT * FROM flights JOIN airlines USING (carrier)"),
    sql("a star over what is not known is right", "SELECT *, month FROM raw"),
    sql("a key column", "SELECT month, count(*) AS n FROM flights GROUP BY month",
        Told("unknown-column", "'mnth'", "'month'"), more="      partition_by: [^mnth]\n"),
    sql("a check of derived columns", "SELECT month, count(*) AS n FROM flights GROUP BY month",

            Told("unknown-column", "'carrier'", "there is month, n"),
        more="    expect: [{check: n > 0 AND ^carrier = 'a'}]\n"),
    sql("columns that a lambda or a unit brings", "SELECT month, array(1) AS t FROM flights",
        more="    expect: [{check: 'exists(t, x -> x > month) AND date_diff(HOUR, month, month) = 0'}]\n"),
    flow("columns of a declared source",
         "  f:\n    read: {connector: files, path: /f/*.csv, format: csv, schema: 'year INT, month INT'}\n"
         "    expect:\n      - check: ^yeer > 2000\n      - unique: [year, ^mont]\n    sort_by: [YEAR, ^day]\n",
         Told("unknown-column", "'yeer'", "'year'"), Told("unknown-column", "'mont'", "'month'"),
         Told("unknown-column", "'day'", "there is year, month")),
    flow("nothing is known of a source without schema",
         "  f:\n    read: {connector: files, path: /f/*.csv, format: csv}\n    expect: [{check: anything > 2000}]\n"),
)  # fmt: skip


def declared(name: str, ddl: str, *told: Told) -> Wrong:
    """A source with this schema."""
    return flow(
        name,
        f"  f:\n    read: {{connector: files, path: /f/*.csv, format: csv, schema: '{ddl}'}}\n",
        *told,
    )


def file(name: str, text: str, *told: Told) -> Wrong:
    """One file of this text."""
    return Wrong(name, {"d.yaml": text}, told)


SCHEMAS = (
    declared("STRNG", "name ^STRNG", Told("invalid-schema", "'STRNG' is no type", "did you mean STRING?")),
    declared("two types", "a ^INTT, b ^DATETIME", Told("invalid-schema", "'INTT'", "INT?"),
             Told("invalid-schema", "'DATETIME'", "write TIMESTAMP")),
    declared("a nested type", "a STRUCT<b: ARRAY<^DUBLE>>", Told("invalid-schema", "'DUBLE'", "did you mean DOUBLE?")),
    declared("no type", "a INT, ^b", Told("invalid-schema", "'b' has no type", "b STRING")),
    declared("no comma", "a INT ^b INT", Told("invalid-schema", "comma is missing before 'b'")),
    declared("two commas", "a INT,^, b INT", Told("invalid-schema", "a column is missing")),
    declared("an open type", "a ARRAY^<INT", Told("invalid-schema", "'<' is never closed", "add '>'")),
    declared("a plain array", "a ^ARRAY", Told("invalid-schema", "without the types", "ARRAY<STRING>")),
    declared("a colon", "a^: INT", Told("invalid-schema", "colon", "write a space")),
    declared("digits", "a DECIMAL^(50,2)", Told("invalid-schema", "at most 38", "DECIMAL(38, 2)")),
    declared("a size", "a DECIMAL^(x)", Told("invalid-schema", "is a number")),
    declared("a name twice", "a INT, ^a STRING", Told("invalid-schema", "declared twice", "rename")),
    declared("a name with a sign", "a^-b INT", Told("invalid-schema", "in the name of a column", "backquotes")),
)  # fmt: skip

LANGUAGE = (
    flow("a format", "  f: {read: {connector: files, path: /f, format: ^cvs}}\n",
        Told("invalid-value", "'cvs'", "'csv'")),
    flow("a key", "  f: {read: {connector: files, path: /f, format: csv, ^schem: a INT}}\n",
         Told("unknown-key", "'schem'", "'schema'")),
    flow("a dataset to write", "  f: {transform: {sql: SELECT 1 AS n}}\n"
         "  w: {write: {connector: files, from: ^g, path: /o, format: csv}}\n", Told("missing-input", "'g'")),
    file("a tab", FLOW + "^\tf: 1\n", Told("invalid-yaml", "a tab", "indent with spaces")),
    file("a list that is open", "dataflow: d\ncomponents: ^[a, b\n", Told("invalid-yaml", "'[' is never closed")),
    file("a quote that is open", "dataflow: d\ndescription: ^'a\n", Told("invalid-yaml", "a quote is never closed")),
    file("two colons", "dataflow: d\ndescription: a^: b\n", Told("invalid-yaml", "': ' cannot", "in quotes")),
    file("an escape", 'dataflow: d\ndescription: "a\\^q"\n', Told("invalid-yaml", "no such escape", "single quotes")),
    file("indentation", FLOW + "   f: {}\n  ^g: {}\n", Told("invalid-yaml", "indented in another way")),
)  # fmt: skip


def python(name: str, code: str, inputs: str, *told: Told, more: str = "") -> Wrong:
    """A function over sources, inline."""
    lines = "".join(f"        {line}\n" for line in code.split("\n"))
    body = f"  out:\n    transform:\n      python: |\n{lines}      inputs: {inputs}\n{more}"
    return flow(name, RAW + DECLARED + body, *told)


PYTHON = (
    python("an argument", "def transform(raw, ^flihgts):\n    return raw", "{raw: all, ^flights: all}",
           Told("missing-input", "'flihgts'", "'flights'"), Told("unused-input", "'flights'", "'flihgts'")),
    python("an argument on a line of its own", "def transform(\n    raw,\n    *,\n    ^other,\n): return raw",
        "{raw: all}",
           Told("missing-input", "'other'", "inputs: {other: all}")),
    python("a constant as an argument", "def transform(raw, ^least): return raw", "{raw: all}",
           Told("missing-input", "'least'", "params['least']"), more="      params: {least: 1}\n"),
    python("an input without an argument", "def transform(raw): return raw", "{raw: all, ^flights: all}",
           Told("unused-input", "'flights'", "def transform(flights, ...)")),
    python("a bracket", "def transform^(raw:\n    return raw", "{raw: all}",
        Told("invalid-python", "'(' is never closed")),
    python("a colon", "def transform(raw)^\n    return raw", "{raw: all}", Told("invalid-python", "':' is missing")),
    python("no body", "def transform(raw):\n^return raw", "{raw: all}", Told("invalid-python", "nothing is indented")),
    python("an entrypoint", "^def clean(raw): return raw", "{raw: all}",
           Told("missing-entrypoint", "'transform'", "there is clean")),
    python("a named entrypoint", "def clean(raw): return raw", "{raw: all}",
           Told("missing-entrypoint", "'cleen'", "there is clean"), more="      entrypoint: ^cleen\n"),
    python("a coroutine", "^async def transform(raw): return raw", "{raw: all}",
           Told("missing-entrypoint", "'transform'", "no coroutine")),
    Wrong("a file of its own",
          {"d.yaml": RAW.join((FLOW, "  out: {transform: {file: t.py, inputs: {raw: all}}}\n")),
           "t.py": "X = 1\n\ndef transform(raw, ^rav):\n    return raw\n"},
          (Told("missing-input", "'rav'", "'raw'"),)),
)  # fmt: skip

CASES = (*TRIAL, *SEVERAL_FILES, *SQL, *COLUMNS, *SCHEMAS, *LANGUAGE, *PYTHON)
