"""Queries that try to read past their inputs, and ordinary ones that only look alike.

`CANARY` stands for a path that no query may open. The inputs of all of them are `x(c STRING)` and
`y(c STRING)`. Does not belong here: what refuses them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle

# Only Spark can read this, so the control plane goes by tokens.
VARIANT = """parse_json('{"a":{"b":[7]}}'):a.b[0]::string"""

FORMATS = [
    *(
        "text.`CANARY`",
        "csv.`CANARY`",
        "json.`CANARY`",
        "parquet.`CANARY`",
        "orc.`CANARY`",
        "avro.`CANARY`",
    ),
    *(
        "binaryFile.`CANARY`",
        "xml.`CANARY`",
        "delta.`CANARY`",
        "jdbc.`CANARY`",
        "TEXT.`CANARY`",
        "`text`.`CANARY`",
    ),
    *(
        "iceberg.`CANARY`",
        "text.`file:CANARY`",
        "text /* . */ . /* ` */ `CANARY`",
        "text\n.\n`CANARY`",
    ),
    *(
        "`org.apache.spark.sql.execution.datasources.text.TextFileFormat`.`CANARY`",
        "spark_catalog.text.`CANARY`",
    ),
    *(
        "text.`CANARY/*`",
        "text.`{CANARY,CANARY}`",
        "hive.`CANARY`",
        "`CANARY`",
        "image.`CANARY`",
        "libsvm.`CANARY`",
    ),
    *(
        "global_temp.leak",
        "spark_catalog.default.leak",
        "default.leak",
        "session.leak",
        "system.session.leak",
    ),
]

# T: a table. Q: an expression of the select list.
PLACES = {
    "first": "SELECT Q AS q FROM T",
    "with-alias": "SELECT Q AS q, t.* FROM T AS t",
    "with-columns": "SELECT Q AS q, t.* FROM T AS t(a)",
    "comma": "SELECT Q AS q FROM x, T",
    "comma-alias": "SELECT Q AS q FROM x a, T",
    "comma-columns": "SELECT Q AS q FROM x AS t(c), T",
    "comma-columns-without-as": "SELECT Q AS q FROM x t(c), T",
    "comma-lateral": "SELECT Q AS q FROM x, LATERAL (SELECT * FROM T) l",
    "after-sample": "SELECT Q AS q FROM x TABLESAMPLE (100 PERCENT), T",
    "after-sample-of-rows": "SELECT Q AS q FROM x TABLESAMPLE (3 ROWS) AS s, T",
    "after-pivot": "SELECT Q AS q FROM x PIVOT (count(*) FOR c IN ('a')), T",
    "after-unpivot": "SELECT Q AS q FROM x UNPIVOT (v FOR k IN (c)), T",
    "after-range": "SELECT Q AS q FROM range(3), T",
    "after-range-alias": "SELECT Q AS q FROM range(3) AS r(i), T",
    "after-values": "SELECT Q AS q FROM VALUES (1) v(a), T",
    "after-subquery": "SELECT Q AS q FROM (SELECT * FROM x) s, T",
    "after-explode": "SELECT Q AS q FROM explode(array(1)) e, T",
    "parentheses": "SELECT Q AS q FROM (T)",
    "parentheses-twice": "SELECT Q AS q FROM ((T) AS t)",
    "parenthesised-join": "SELECT Q AS q FROM x JOIN (y CROSS JOIN T) ON true",
    "parenthesised-comma": "SELECT Q AS q FROM x, (T)",
    "join": "SELECT Q AS q FROM x JOIN T ON true",
    "join-parentheses": "SELECT Q AS q FROM x JOIN (T) ON true",
    "cross-join": "SELECT Q AS q FROM x CROSS JOIN T",
    "left-join": "SELECT Q AS q FROM x LEFT OUTER JOIN T AS t ON true",
    "natural-join": "SELECT Q AS q FROM x NATURAL JOIN T",
    "semi-join": "SELECT Q AS q FROM x LEFT SEMI JOIN T ON true",
    "anti-join": "SELECT Q AS q FROM x LEFT ANTI JOIN T ON true",
    "using": "SELECT Q AS q FROM x JOIN T USING (value)",
    "join-lateral": "SELECT Q AS q FROM x JOIN LATERAL (SELECT * FROM T) l ON true",
    "join-lateral-table": "SELECT Q AS q FROM x CROSS JOIN LATERAL (TABLE T)",
    "join-lateral-from": "SELECT Q AS q FROM x CROSS JOIN LATERAL (FROM T)",
    "join-subquery-table": "SELECT Q AS q FROM x JOIN (TABLE T) ON true",
    "subquery": "SELECT Q AS q FROM (SELECT * FROM T)",
    "subquery-table": "SELECT Q AS q FROM (TABLE T)",
    "subquery-table-twice": "SELECT Q AS q FROM ((TABLE T))",
    "subquery-from": "SELECT Q AS q FROM (FROM T SELECT *)",
    "subquery-from-alone": "SELECT Q AS q FROM (FROM T) s",
    "lateral-view": "SELECT Q AS q FROM x LATERAL VIEW explode(array((SELECT max(value) FROM T))) e AS i",
    "after-lateral-view": "SELECT Q AS q FROM T LATERAL VIEW explode(array(1)) e AS i",
    "cte": "WITH t AS (SELECT * FROM T) SELECT Q AS q, t.* FROM t",
    "cte-table": "WITH t AS (TABLE T) SELECT Q AS q, t.value FROM x, t",
    "cte-from": "WITH t AS (FROM T) SELECT Q AS q, t.value FROM x, t",
    "cte-columns": "WITH t(a) AS (TABLE T) SELECT Q AS q, t.a FROM x, t",
    "cte-of-cte": "WITH t AS (WITH u AS (TABLE T) SELECT * FROM u) SELECT Q AS q FROM t",
    "cte-unused": "WITH t AS (TABLE T) SELECT Q AS q FROM x",
    "cte-recursive": "WITH RECURSIVE r(n) AS (TABLE T UNION ALL SELECT n FROM r) SELECT Q AS q FROM r",
    "cte-in-subquery": "SELECT Q AS q, (WITH t AS (TABLE T) SELECT max(value) FROM t) FROM x",
    "cte-named-as-format": "WITH text AS (SELECT 1) SELECT Q AS q FROM text, T",
    "scalar": "SELECT Q AS q, (SELECT max(value) FROM T) AS s FROM x",
    "scalar-table": "SELECT Q AS q, (TABLE T) AS s FROM x",
    "scalar-from": "SELECT Q AS q, (FROM T SELECT max(value)) AS s FROM x",
    "in": "SELECT Q AS q FROM x WHERE c IN (SELECT value FROM T)",
    "in-table": "SELECT Q AS q FROM x WHERE c IN (TABLE T)",
    "not-in-from": "SELECT Q AS q FROM x WHERE c NOT IN (FROM T)",
    "exists": "SELECT Q AS q FROM x WHERE EXISTS (SELECT 1 FROM T)",
    "exists-table": "SELECT Q AS q FROM x WHERE EXISTS (TABLE T)",
    "exists-from": "SELECT Q AS q FROM x WHERE EXISTS (FROM T)",
    "not-exists": "SELECT Q AS q FROM x WHERE NOT EXISTS(FROM T)",
    "case": "SELECT CASE WHEN (SELECT count(*) FROM T) > 0 THEN Q END AS q FROM x",
    "on": "SELECT Q AS q FROM x a JOIN y b ON a.c = (SELECT max(value) FROM T)",
    "having": "SELECT Q AS q FROM x GROUP BY 1 HAVING count(*) > (SELECT count(*) FROM T)",
    "order-by": "SELECT Q AS q FROM x ORDER BY (SELECT max(value) FROM T)",
    "window": "SELECT Q AS q, count(*) OVER w FROM x WINDOW w AS (PARTITION BY (SELECT max(value) FROM T))",
    "struct": "SELECT Q AS q, struct((SELECT max(value) FROM T) AS v).v FROM x",
    "union-all": "SELECT Q AS q FROM x UNION ALL SELECT value FROM T",
    "union-table": "SELECT Q AS q FROM x UNION ALL TABLE T",
    "union-parenthesised-table": "SELECT Q AS q FROM x UNION ALL (TABLE T)",
    "union-from": "SELECT Q AS q FROM x UNION (FROM T)",
    "except": "SELECT Q AS q FROM x EXCEPT (TABLE T)",
    "intersect": "SELECT Q AS q FROM x INTERSECT SELECT value FROM T",
    "minus": "SELECT Q AS q FROM x MINUS ALL (TABLE T)",
    "from-first": "FROM T SELECT Q AS q",
    "from-first-comma": "FROM x, T SELECT Q AS q",
    "from-first-sampled": "FROM x TABLESAMPLE (100 PERCENT), T SELECT Q AS q",
    "pipe": "FROM T |> SELECT Q AS q",
    "pipe-join": "FROM x |> JOIN T ON true |> SELECT Q AS q",
    "pipe-cross-join": "FROM x |> EXTEND Q AS q |> CROSS JOIN T",
    "pipe-union": "FROM x |> SELECT Q AS q |> UNION ALL (TABLE T)",
    "pipe-where": "FROM x |> WHERE EXISTS (FROM T) |> SELECT Q AS q",
    "pipe-of-select": "SELECT Q AS q FROM x |> INTERSECT (SELECT * FROM T)",
    "sampled-itself": "SELECT Q AS q FROM T TABLESAMPLE (100 PERCENT)",
    "pivoted-itself": "SELECT Q AS q FROM T PIVOT (count(*) FOR value IN ('a'))",
    "options": "SELECT Q AS q FROM T WITH (header = true)",
    "time-travel": "SELECT Q AS q FROM T VERSION AS OF 0",
    "hinted": "SELECT /*+ BROADCAST(x) */ Q AS q FROM x CROSS JOIN T",
    "lambda": "SELECT Q AS q, transform(array(1), i -> (SELECT count(*) FROM T)) FROM x",
    "values": "SELECT Q AS q FROM VALUES ((SELECT max(value) FROM T)) v(a)",
    "map-key": "SELECT Q AS q, map('k', (SELECT max(value) FROM T))['k'] FROM x",
    "line-comment": "SELECT Q AS q FROM -- x\n T",
}  # fmt: skip

# The JSON of a schema, whose default Spark takes for SQL.
DEFAULT = (
    '{"type":"struct","fields":[{"name":"a","type":"string","nullable":true,'
    '"metadata":{"EXISTS_DEFAULT":"%s"}}]}'
)
OF_XSD = r"to_json(from_xml(\'<a/>\', \'a STRING\', map(\'rowValidationXSDPath\', \'CANARY\')))"

EXPRESSIONS = {
    "default-json": f"from_json('{{}}', '{DEFAULT % OF_XSD}')",
    "default-csv": f"from_csv('', '{DEFAULT % OF_XSD}')",
    "default-xml": f"from_xml('<a/>', '{DEFAULT % OF_XSD}')",
    "reflect": "reflect('java.lang.System', 'getenv', 'HOME')",
    "java_method": "java_method('java.lang.System', 'getProperty', 'user.home')",
    "try_reflect": "try_reflect('java.lang.System', 'getenv', 'HOME')",
    "reflect-case": "ReFlect ( 'java.lang.System', 'getenv', 'HOME')",
    "reflect-quoted": "`reflect`('java.lang.System', 'getenv', 'HOME')",
    "reflect-qualified": "system.builtin.reflect('java.lang.System', 'getenv', 'HOME')",
    "reflect-builtin": "builtin.`java_method`('java.lang.System', 'getenv', 'HOME')",
    "reflect-in-lambda": "transform(array('HOME'), i -> reflect('java.lang.System', 'getenv', i))",
    "reflect-in-filter": "count(*) FILTER (WHERE reflect('java.lang.System', 'getenv', 'HOME') IS NOT NULL)",
    "xsd": "from_xml('<a/>', 'a STRING', map('rowValidationXSDPath', 'CANARY'))",
    "xsd-case": "from_xml('<a/>', 'a STRING', map('ROWVALIDATIONXSDPATH', 'CANARY'))",
    "xsd-joined": "from_xml('<a/>', 'a STRING', map('rowValidation' 'XSDPath', 'CANARY'))",
    "xsd-concat": "from_xml('<a/>', 'a STRING', map(concat('rowValidation', 'XSDPath'), 'CANARY'))",
    "xsd-bars": "from_xml('<a/>', 'a STRING', map('rowValidation' || 'XSDPath', 'CANARY'))",
    "xsd-escape": r"from_xml('<a/>', 'a STRING', map('rowValidation\u0058SDPath', 'CANARY'))",
    "xsd-arrays": "from_xml('<a/>', 'a STRING', map_from_arrays(array('rowValidationXSDPath'), array('CANARY')))",
    "xsd-text": "from_xml('<a/>', 'a STRING', str_to_map('rowValidationXSDPath:CANARY'))",
    "xsd-schema": "schema_of_xml('<a/>', map('rowValidationXSDPath', 'CANARY'))",
    "xsd-as-schema": "from_xml('<a/>', schema_of_xml('<a/>', map('rowValidationXSDPath', 'CANARY')))",
    "xsd-double-quotes": 'from_xml("<a/>", "a STRING", map("rowValidationXSDPath", "CANARY"))',
    "avro-schema": "from_avro(x'00', '\"string\"', map('avroSchemaUrl', 'CANARY'))",
    "avro-schema-writing": "to_avro(c, '\"string\"', map('avroSchemaUrl', 'CANARY'))",
    "avro-schema-concat": "from_avro(x'00', '\"string\"', map(concat('avro', 'SchemaUrl'), 'CANARY'))",
    "protobuf-file": "from_protobuf(x'00', 'M', 'CANARY')",
    "protobuf-file-writing": "to_protobuf(struct(c), 'M', 'CANARY')",
    "protobuf-options": "from_protobuf(x'00', 'M', 'CANARY', map('mode', 'FAILFAST'))",
    "file-name": "input_file_name()",
    "file-start": "input_file_block_start()",
    "file-length": "`input_file_block_length`()",
    "environment": "'${env:HOME}'",
    "system-property": "'${system:user.home}'",
    "setting": "'${spark.app.id}'",
    "variable": "system.session.secret",
    "unknown-class": "default.leak(c)",
    "identifier-function": "IDENTIFIER('reflect')('java.lang.System', 'getenv', 'HOME')",
    "identifier-column": "IDENTIFIER('c' || '')",
}  # fmt: skip

TABLES = {
    "read_files": "read_files('CANARY')",
    "read_kafka": "read_kafka(bootstrapServers => 'CANARY')",
    "python_worker_logs": "python_worker_logs()",
    "unknown": "leak('CANARY')",
    "qualified": "default.leak('CANARY')",
    "table-argument": "leak(TABLE(text.`CANARY`))",
    "table-argument-from": "explode(TABLE(SELECT * FROM text.`CANARY`))",
    "scalar-argument": "range((SELECT count(*) FROM text.`CANARY`))",
    "identifier": "IDENTIFIER('text.`CANARY`')",
    "identifier-joined": "IDENTIFIER('te' || 'xt.`CANARY`')",
    "identifier-quoted": "`IDENTIFIER`('text.`CANARY`')",
    "stream": "STREAM x",
    "stream-file": "STREAM text.`CANARY`",
    "stream-call": "STREAM(text.`CANARY`)",
    "changes": "text.`CANARY` CHANGES FROM VERSION 0",
}  # fmt: skip

STATEMENTS = {
    "table": "TABLE text.`CANARY`",
    "values": "VALUES ((SELECT max(value) FROM text.`CANARY`))",
    "script": "SELECT TRANSFORM(c) USING 'cat CANARY' AS (q STRING) FROM x",
    "script-map": "FROM x MAP c USING 'cat CANARY' AS (q STRING)",
    "script-reduce": "FROM (SELECT c FROM x CLUSTER BY c) REDUCE c USING 'cat CANARY' AS (q STRING)",
    "insert": "INSERT INTO x SELECT * FROM text.`CANARY`",
    "insert-after-with": "WITH t AS (TABLE text.`CANARY`) INSERT INTO x SELECT * FROM t",
    "multiple-insert": "FROM x INSERT INTO a SELECT c INSERT INTO b SELECT c",
    "directory": "INSERT OVERWRITE DIRECTORY 'CANARY' USING text SELECT c FROM x",
    "create-view": "CREATE TEMPORARY VIEW leak USING text OPTIONS (path 'CANARY')",
    "create-table": "CREATE TABLE leak USING text LOCATION 'CANARY'",
    "create-function": "CREATE TEMPORARY FUNCTION leak AS 'org.example.Leak' USING JAR 'CANARY'",
    "cache": "CACHE TABLE leak AS SELECT * FROM text.`CANARY`",
    "describe": "DESCRIBE text.`CANARY`",
    "describe-query": "DESCRIBE QUERY SELECT * FROM text.`CANARY`",
    "show": "SHOW TABLES",
    "explain": "EXPLAIN EXTENDED SELECT * FROM text.`CANARY`",
    "execute": "EXECUTE IMMEDIATE 'SELECT * FROM text.`CANARY`'",
    "scripting": "BEGIN SELECT * FROM text.`CANARY`; END",
    "scripting-loop": "BEGIN FOR r AS (SELECT * FROM text.`CANARY`) DO SELECT r.value; END FOR; END",
    "declare": "DECLARE leak STRING DEFAULT (SELECT max(value) FROM text.`CANARY`)",
    "set": "SET spark.sql.runSQLOnFiles = true",
    "set-variable": "SET VAR leak = (SELECT max(value) FROM text.`CANARY`)",
    "add-file": "ADD FILE CANARY",
    "add-jar": "ADD JAR CANARY",
    "list-files": "LIST FILES",
    "load": "LOAD DATA INPATH 'CANARY' INTO TABLE x",
    "second": "SELECT c FROM x; SELECT * FROM text.`CANARY`",
    "call": "CALL system.leak('CANARY')",
    "refresh": "REFRESH 'CANARY'",
    "merge": "MERGE INTO x USING text.`CANARY` s ON true WHEN MATCHED THEN DELETE",
}  # fmt: skip

# Names that are columns or functions for all that a text can tell: only Spark knows that they are
# nothing.
UNTOLD = frozenset({"variable", "unknown-class"})

# As conditions of a check.
CONDITIONS = {
    **{name: f"({text}) IS NOT NULL" for name, text in EXPRESSIONS.items()},
    "scalar": "c = (SELECT max(value) FROM text.`CANARY`)",
    "scalar-table": "c = (TABLE text.`CANARY`)",
    "scalar-from": "c = (FROM text.`CANARY`)",
    "in": "c IN (SELECT value FROM text.`CANARY`)",
    "in-from": "c IN (FROM text.`CANARY`)",
    "exists-from": "EXISTS(FROM text.`CANARY`)",
    "variant": f"{VARIANT} = (FROM text.`CANARY`)",
    "cte": "c IN (WITH t AS (TABLE text.`CANARY`) SELECT value FROM t)",
    "plain-from": "EXISTS(FROM y)",
    "plain-with": "c IN (WITH t AS (FROM y) SELECT c FROM t)",
    "no-table": "EXISTS(FROM VALUES (1) v(a))",
    "closed": "true) OR EXISTS (SELECT 1 FROM text.`CANARY`",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Escape:
    id: str
    sql: str


def escapes() -> list[Escape]:
    found = list(_escapes())
    assert len({one.sql for one in found}) == len({one.id for one in found}) == len(found)
    return found


def _escapes() -> Iterator[Escape]:
    formats = cycle(FORMATS[1:])
    for place, text in PLACES.items():
        for way, value in WAYS.items():
            for table in (FORMATS[0], next(formats)):
                yield Escape(f"{place}/{way}/{FORMATS.index(table)}", put(text, table, value))
    for way, value in WAYS.items():
        for name, expression in EXPRESSIONS.items():
            yield Escape(
                f"expression/{name}/{way}", f"SELECT {value} AS q, {expression} AS e FROM x"
            )
        for name, table in TABLES.items():
            yield Escape(f"table/{name}/{way}", f"SELECT {value} AS q FROM x, {table}")
    for name, statement in STATEMENTS.items():
        yield Escape(f"statement/{name}", statement)


WAYS = {"parsed": "'q'", "tokens": VARIANT}


def put(text: str, table: str, value: str) -> str:
    return re.sub(r"\b[TQ]\b", lambda found: table if found[0] == "T" else value, text)


def at(text: str, canary: str) -> str:
    """The text with a path in it."""
    return text.replace("CANARY", canary)


# Ordinary queries over x and y.
LEGITIMATE = [
    "SELECT c FROM x",
    f"SELECT {VARIANT} AS q, a.c FROM x AS a, y b WHERE a.c = b.c",
    f"SELECT {VARIANT} AS q FROM x TABLESAMPLE (50 PERCENT) AS s, y",
    f"SELECT {VARIANT} AS q FROM x TABLESAMPLE (5 ROWS), y AS t(d)",
    f"SELECT {VARIANT} AS q FROM x PIVOT (count(*) FOR c IN ('a' AS a)), y",
    f"SELECT {VARIANT} AS q FROM x UNPIVOT INCLUDE NULLS (v FOR k IN (c)) AS u, y",
    f"SELECT {VARIANT} AS q FROM VALUES (1, 2), (3, 4) AS v(a, b), y",
    f"SELECT {VARIANT} AS q FROM (VALUES (1)) AS v(a)",
    f"SELECT {VARIANT} AS q FROM range(3), y",
    f"SELECT {VARIANT} AS q FROM range(1, 9, 2) AS r(i) JOIN x ON true",
    f"SELECT {VARIANT} AS q, v FROM x LATERAL VIEW explode(array(1, 2)) e AS v",
    f"SELECT {VARIANT} AS q FROM x LATERAL VIEW OUTER posexplode(array(1)) e AS p, v WHERE v > 0",
    f"SELECT {VARIANT} AS q FROM x, LATERAL explode(array(1, 2)) AS e(v)",
    f"SELECT {VARIANT} AS q FROM x JOIN LATERAL (SELECT max(c) AS m FROM y WHERE y.c = x.c) l ON true",
    f"SELECT {VARIANT} AS q FROM (x JOIN y USING (c))",
    f"SELECT {VARIANT} AS q FROM (SELECT * FROM x) s JOIN (y) ON true",
    f"SELECT {VARIANT} AS q FROM x LEFT ANTI JOIN y ON x.c = y.c",
    f"WITH t AS (SELECT * FROM x), u(d) AS (SELECT c FROM t) SELECT {VARIANT} AS q, d FROM u",
    f"WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 5) SELECT {VARIANT} AS q, n FROM r",
    f"SELECT {VARIANT} AS q FROM x WHERE EXISTS (SELECT 1 FROM y WHERE y.c = x.c) AND c IN (SELECT c FROM y)",
    f"SELECT {VARIANT} AS q, (SELECT max(c) FROM y) AS m FROM x",
    f"SELECT {VARIANT} AS q FROM x UNION ALL SELECT c FROM y",
    f"(SELECT {VARIANT} AS q FROM x) EXCEPT (SELECT c FROM y)",
    f"SELECT {VARIANT} AS q, extract(YEAR FROM DATE '2020-01-01'), substring(c FROM 2 FOR 3) FROM x",
    f"SELECT {VARIANT} AS q, trim(BOTH 'x' FROM c), c IS DISTINCT FROM 'a' FROM x",
    f"SELECT {VARIANT} AS q, count(*) OVER (PARTITION BY c ORDER BY c ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM x",
    f"SELECT {VARIANT} AS q FROM x GROUP BY ALL HAVING count(*) > 1 ORDER BY 1 LIMIT 3",
    f"SELECT {VARIANT} AS q, c FROM x CLUSTER BY c",
    f"SELECT /*+ BROADCAST(y) */ {VARIANT} AS q FROM x JOIN y ON x.c = y.c",
    f"FROM x SELECT {VARIANT} AS q",
    f"FROM x |> WHERE c = 'a' |> SELECT {VARIANT} AS q",
    f"FROM x |> JOIN y USING (c) |> EXTEND {VARIANT} AS q |> AGGREGATE count(*) AS n GROUP BY q",
    f"FROM x |> AS t |> SELECT {VARIANT} AS q |> UNION ALL (SELECT c FROM y)",
    f"SELECT {VARIANT} AS q FROM `x` AS `from`, `y` AS `join`",
    f"SELECT {VARIANT} AS q, 'FROM text.`/p`' AS s FROM x -- , text.`/p`",
    "SELECT from_json(c, 'a INT', map('mode', 'FAILFAST')).a FROM x",
    "SELECT from_xml(c, 'a INT', map('mode', 'PERMISSIVE')).a, schema_of_xml('<a><b>1</b></a>') FROM x",
    "SELECT from_xml(c, schema_of_xml('<a><b>1</b></a>')).b FROM x",
    "SELECT from_csv(c, 'a INT', map('sep', '|')).a, to_csv(struct(c)), to_json(struct(c)) FROM x",
    "SELECT xpath_string('<a><b>1</b></a>', 'a/b'), parse_url('http://h/p?q=1', 'QUERY', 'q') FROM x",
    "SELECT variant_get(parse_json('[1]'), '$[0]', 'int') FROM x, LATERAL variant_explode(parse_json('[1]'))",
    "SELECT c FROM x QUALIFY row_number() OVER (PARTITION BY c ORDER BY c) = 1",
    "SELECT a.c FROM x a JOIN x b ON a.c = b.c",
    "SELECT x.*, y.c AS d FROM x NATURAL JOIN y",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY length(c)) FROM x",
    "SELECT c, sum(length(c)) FROM x GROUP BY GROUPING SETS ((c), ()) ORDER BY c LIMIT 3 OFFSET 1",
    "SELECT transform(array(1), i -> i + 1), stack(2, 'a', 'b') FROM x",
    "SELECT count(*) OVER w FROM x WINDOW w AS (PARTITION BY (SELECT max(c) FROM y) ORDER BY c)",
    "SELECT * EXCEPT (c), c AS d FROM x",
    "SELECT keyword FROM sql_keywords()",
]  # fmt: skip
