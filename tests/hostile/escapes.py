"""Queries that try to read a file, or to run code of the JVM, past the dataflow; and queries that only look so.

`{p}` stands for the path of a file, `{f}` for the name of a format. Every form comes plain, and with a path into a
variant beside it, which sqlglot cannot read. Does not belong here: who has to refuse them.
"""

from __future__ import annotations

from collections.abc import Iterator

VARIANT = 'parse_json(\'{"a":{"b":[7]}}\'):a.b[0]::string AS q'

# Forms with a place for a table. `{v}` is a select item: a plain one, or a path into a variant.
PLACES = (
    "SELECT {v}, t.value FROM {t} AS t",
    "SELECT {v}, t.value FROM x, {t} AS t",
    "SELECT {v}, t.value FROM x JOIN {t} AS t ON true",
    "SELECT {v}, t.value FROM x LEFT OUTER JOIN {t} AS t ON x.a = length(t.value)",
    "SELECT {v}, value FROM x CROSS JOIN {t}",
    "SELECT {v} FROM x LEFT SEMI JOIN {t} AS t ON true",
    "SELECT {v} FROM x LEFT ANTI JOIN {t} AS t ON false",
    "SELECT {v}, value FROM x NATURAL JOIN {t}",
    "WITH t AS (SELECT * FROM {t}) SELECT {v}, t.value FROM x, t",
    "WITH t AS (FROM {t}) SELECT {v}, t.value FROM x, t",
    "WITH t AS (TABLE {t}) SELECT {v}, t.value FROM x, t",
    "WITH t(value) AS (TABLE {t}) SELECT {v}, t.value FROM x, t",
    "WITH a AS (SELECT 1 AS n), t AS (SELECT * FROM a, {t}) SELECT {v}, t.value FROM t",
    "WITH RECURSIVE t AS (SELECT value, 1 AS n FROM {t} UNION ALL SELECT value, n + 1 FROM t WHERE n < 2) "
    "SELECT {v}, value FROM t",
    "SELECT {v}, t.value FROM x CROSS JOIN LATERAL (TABLE {t}) AS t",
    "SELECT {v}, t.value FROM x, LATERAL (SELECT * FROM {t}) AS t",
    "SELECT {v}, t.value FROM x, LATERAL (FROM {t}) AS t",
    "SELECT {v}, value FROM x TABLESAMPLE (100 PERCENT), {t}",
    "SELECT {v}, value FROM x TABLESAMPLE (3 ROWS) AS s, {t}",
    "SELECT {v}, value FROM x AS s(c, d), {t}",
    "SELECT {v}, value FROM ({t})",
    "SELECT {v}, value FROM (x CROSS JOIN {t})",
    "SELECT {v}, value FROM ((x), {t})",
    "SELECT {v}, value FROM VALUES (1) v(a), {t}",
    "SELECT {v}, value FROM (VALUES (1), (2)) AS v(a), {t}",
    "SELECT {v}, value FROM range(3), {t}",
    "SELECT {v}, value FROM range(3) AS r(i) JOIN {t}",
    "SELECT {v}, value FROM x PIVOT (sum(a) FOR b IN (0, 1)), {t}",
    "SELECT {v}, value FROM x UNPIVOT (n FOR m IN (a, b)), {t}",
    "SELECT {v}, value FROM explode(array(1, 2)) AS e(i), {t}",
    "SELECT {v}, value FROM x, {t} LATERAL VIEW explode(array(1)) e AS i",
    "SELECT {v}, '' AS value FROM x UNION ALL (TABLE {t})",
    "SELECT '' AS value FROM x UNION TABLE {t}",
    "SELECT value FROM (SELECT '' AS value, {v} FROM x) UNION ALL SELECT value, '' FROM {t}",
    "SELECT '' AS value FROM x EXCEPT SELECT value FROM {t}",
    "SELECT '' AS value FROM x INTERSECT (FROM {t})",
    "SELECT {v} FROM x WHERE EXISTS (FROM {t})",
    "SELECT {v} FROM x WHERE EXISTS (SELECT 1 FROM {t} WHERE value LIKE 'hg_%')",
    "SELECT {v} FROM x WHERE NOT EXISTS (TABLE {t})",
    "SELECT {v} FROM x WHERE a IN (SELECT length(value) FROM {t})",
    "SELECT {v} FROM x WHERE a IN (TABLE {t})",
    "SELECT {v}, (SELECT max(value) FROM {t}) AS value FROM x",
    "SELECT {v}, (FROM {t} |> AGGREGATE max(value)) AS value FROM x",
    "SELECT {v}, (TABLE {t}) AS value FROM x",
    "SELECT {v}, array(1, (SELECT length(max(value)) FROM {t})) AS value FROM x",
    "SELECT {v}, CASE WHEN (SELECT count(*) FROM {t}) > 0 THEN 1 END AS value FROM x",
    "SELECT {v} FROM x GROUP BY a HAVING (SELECT count(*) FROM {t}) > 0",
    "SELECT {v} FROM x ORDER BY (SELECT max(value) FROM {t})",
    "SELECT {v} FROM x QUALIFY (SELECT count(*) FROM {t}) > 0",
    "SELECT {v}, sum(a) OVER (ORDER BY (SELECT max(value) FROM {t})) FROM x",
    "FROM {t} SELECT {v}, value",
    "FROM {t}",
    "TABLE {t}",
    "FROM {t} |> SELECT value",
    "FROM x |> CROSS JOIN {t}",
    "FROM x |> SELECT a |> UNION ALL (TABLE {t})",
    "FROM x |> EXTEND (SELECT max(value) FROM {t}) AS value",
    "SELECT /*+ BROADCAST(t) */ {v}, t.value FROM x, {t} AS t",
    "SELECT {v} FROM x -- \n, {t}",
    "SELECT {v} FROM x /* , */ , /* y */ {t}",
    "SELECT {v}, value FROM x\n,\n{t}",
)
PLAIN = "1 AS q"
FORMATS = ("text", "csv", "json", "parquet", "orc", "avro", "binaryFile", "xml", "delta", "TEXT", "`text`", "jdbc")
PACKAGE = "org.apache.spark.sql.execution.datasources.text.TextFileFormat"

# Queries that stand by themselves.
OTHERS = (
    "SELECT reflect('java.nio.file.Files', 'readString', '{p}') FROM x",
    "SELECT java_method('java.lang.System', 'getProperty', 'user.home') FROM x",
    "SELECT try_reflect('java.lang.System', 'getenv', 'HOME') FROM x",
    "SELECT REFLECT('java.lang.System', 'getenv') FROM x",
    "SELECT `reflect`('java.lang.System', 'getenv') FROM x",
    "SELECT from_xml('<a/>', 'a INT', map('rowValidationXSDPath', '{p}')) FROM x",
    "SELECT from_xml('<a/>', 'a INT', map('ROWVALIDATIONXSDPATH', '{p}')) FROM x",
    "SELECT schema_of_xml('<a/>', map('rowValidationXSDPath', '{p}')) FROM x",
    "SELECT from_protobuf(b, 'M', '{p}') FROM x",
    "SELECT to_protobuf(struct(a), 'M', '{p}') FROM x",
    "SELECT * FROM IDENTIFIER('text.`{p}`')",
    "SELECT * FROM IDENTIFIER('te' || 'xt.`{p}`')",
    "SELECT * FROM python_worker_logs()",
    "SELECT * FROM read_files('{p}')",
    "SELECT TRANSFORM(a) USING 'cat {p}' AS (value) FROM x",
    "FROM x MAP a USING 'cat {p}' AS value",
    "FROM x REDUCE a USING 'cat {p}' AS value",
    "EXECUTE IMMEDIATE 'SELECT * FROM text.`{p}`'",
    "BEGIN SELECT * FROM text.`{p}`; END",
    "SHOW TABLES",
    "SHOW FUNCTIONS",
    "DESCRIBE x",
    "DESCRIBE QUERY SELECT * FROM text.`{p}`",
    "EXPLAIN SELECT * FROM text.`{p}`",
    "SET spark.sql.runSQLOnFiles=true",
    "SET",
    "CREATE TEMPORARY VIEW y USING text OPTIONS (path '{p}')",
    "CREATE TABLE y USING text LOCATION '{p}'",
    "CREATE FUNCTION f AS 'java.lang.System'",
    "CREATE TEMPORARY FUNCTION f() RETURNS STRING RETURN (SELECT max(value) FROM text.`{p}`)",
    "INSERT OVERWRITE DIRECTORY '{p}.out' USING csv SELECT * FROM x",
    "INSERT INTO x SELECT * FROM x",
    "LOAD DATA INPATH '{p}' INTO TABLE x",
    "CACHE TABLE y AS SELECT * FROM text.`{p}`",
    "ADD FILE '{p}'",
    "ADD JAR '{p}'",
    "LIST FILES",
    "ANALYZE TABLE x COMPUTE STATISTICS",
    "REFRESH '{p}'",
    "WITH t AS (SELECT 1) INSERT INTO x SELECT * FROM t",
    "SELECT * FROM x; SELECT * FROM text.`{p}`",
    "SELECT * FROM global_temp.y",
    "SELECT * FROM spark_catalog.default.y",
    "SELECT * FROM default.y",
    "SELECT * FROM system.session.y",
    "SELECT * FROM y",
    "SELECT * FROM x VERSION AS OF 1",
    "SELECT * FROM text.`{p}` TIMESTAMP AS OF '2020-01-01'",
    "SELECT /*+ REPARTITION(3) */ * FROM text.`{p}`",
)

# What the first wall alone refuses: it opens nothing, and would make results depend on more than inputs.
AMBIENT = ("SELECT input_file_name() FROM x", "SELECT '${env:HOME}' FROM x", "SELECT current_user() FROM x")

# What only looks so, or is seldom written: all of it has to go on to work. Views `x` (a, b) and `z` (a, value).
HONEST = (
    "SELECT {v} FROM x",
    "SELECT {v}, z.value FROM x, z",
    "SELECT {v}, z.value FROM x JOIN z USING (a)",
    "WITH t AS (SELECT * FROM z) SELECT {v}, t.value FROM x, t",
    "WITH z AS (SELECT a FROM z) SELECT {v}, z.a FROM z",
    "SELECT {v} FROM x PIVOT (sum(a) FOR b IN (0, 1))",
    "SELECT {v} FROM x UNPIVOT (n FOR m IN (a, b))",
    "SELECT {v}, i FROM x LATERAL VIEW explode(array(1, 2)) e AS i",
    "SELECT {v} FROM x TABLESAMPLE (50 PERCENT) REPEATABLE (1)",
    "SELECT {v}, n FROM x, VALUES (1), (2) AS v(n)",
    "SELECT {v}, id FROM x, range(3)",
    "SELECT {v}, l.c FROM x, LATERAL (SELECT x.a + 1 AS c) AS l",
    "SELECT {v} FROM x WHERE EXISTS (SELECT 1 FROM z WHERE z.a = x.a)",
    "SELECT {v} FROM x WHERE a IN (SELECT a FROM z)",
    "SELECT {v}, (SELECT max(value) FROM z) AS m FROM x",
    "SELECT {v}, sum(a) OVER w FROM x WINDOW w AS (PARTITION BY b ORDER BY a)",
    "SELECT b, count(*) FROM x GROUP BY b HAVING count(*) > 0 ORDER BY 1 LIMIT 3",
    "SELECT a FROM x UNION ALL SELECT a FROM z",
    "SELECT a FROM x EXCEPT SELECT a FROM z",
    "SELECT /*+ BROADCAST(z) */ {v} FROM x JOIN z ON x.a = z.a",
    "SELECT {v}, s.value FROM (SELECT * FROM z) s",
    "SELECT extract(year FROM date '2020-01-01'), trim(BOTH ' ' FROM 'a'), substring('abc' FROM 2) FROM x",
    "SELECT text.value FROM z AS text",
    "SELECT CAST(struct(a) AS STRUCT<a: INT>) AS s, {v} FROM x",
    "SELECT from_xml('<r><a>1</a></r>', 'a INT', map('mode', 'FAILFAST')) AS s FROM x",
    "SELECT one.a FROM x AS one JOIN x AS other ON one.a = other.a",
    "SELECT a FROM x CLUSTER BY a",
    "SELECT DISTINCT a FROM x OFFSET 1",
    "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 3) SELECT n FROM t, x",
)


def escapes(path: str) -> Iterator[tuple[str, str]]:
    """Names and texts of all of them."""
    for number, place in enumerate(PLACES):
        for kind, item in (("plain", PLAIN), ("variant", VARIANT)):
            text = place.replace("{t}", f"text.`{path}`").replace("{v}", item)
            yield f"place-{number}-{kind}", text
    for name in FORMATS:
        yield f"format-{name}", f"SELECT {VARIANT}, t.* FROM x, {name}.`{path}` t"
    yield "format-class", f"SELECT {VARIANT}, t.* FROM x, `{PACKAGE}`.`{path}` t"
    yield "uri", f"SELECT {VARIANT}, t.* FROM x, text.`file://{path}` t"
    for number, text in enumerate(OTHERS):
        yield f"other-{number}", text.replace("{p}", path)


def honest() -> Iterator[str]:
    for text in HONEST:
        for item in dict.fromkeys((PLAIN, VARIANT) if "{v}" in text else (PLAIN,)):
            yield text.replace("{v}", item)
