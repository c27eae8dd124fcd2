"""Every problem of the language, with its exact line and column."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import get_args

import pytest

from controlplane.core import errors
from controlplane.core.blueprint.problems import MOST_PROBLEMS, Code
from controlplane.core.schema.ddl_schemas import parse_ddl, types
from tests.unit.blueprint.texts import READ, component, marked, problems_of

SQL = "transform: {sql: SELECT 1}"


URL = "'jdbc:postgresql://h/d'"
CATALOG = "uri: 'https://h'"
CLIENT = "client_id: a, client_secret: secret://a/b"
LINK_LOCAL = "http://169.254.169.254"
TOPIC = "connector: kafka, servers: 'a:1', topic: t"


LIST, READ_IT = "def list(context): return []", "def read(context, object): return []"
BOTH = f"  python: |\n    {LIST}\n    {READ_IT}"


def jdbc(keys: str) -> str:
    return component(f"read:\n  connector: jdbc\n  url: {URL}\n  table: t\n  {keys}")


def read(keys: str) -> str:
    return component(f"read:\n  connector: files\n  path: data/*.csv\n  format: csv\n  {keys}")


def s3(keys: str) -> str:
    return component(f"read:\n  connector: files\n  path: s3://a/*.csv\n  format: csv\n  {keys}")


def dlt(keys: str, schema: str = ", schema: a INT", at: str = "^") -> str:
    return component(f"read: {at}{{connector: dlt, {keys}{schema}}}")


def spark(at: str, partitions: str) -> str:
    keys = f"schema: a INT, partitions: {{{partitions}}}"
    return component(f"read: {at}{{connector: spark, format: x, {keys}}}")


def packaged(keys: str) -> str:
    return component(f"read: {{connector: spark, schema: a INT, {keys}}}")


def python(keys: str) -> str:
    return component(f"transform:\n  python: 'def transform(): 1'\n  {keys}")


DDL = "schema: k INT"
SFTP = "user: u, host_key: 'SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU'"


def served(path: str, more: str = "") -> str:
    """A component that reads files at a path, with another key."""
    keys = f"connector: files, path: {path}, format: csv"
    return component(f"read: {{{keys}{', ' if more else ''}{more}}}")


CASES = [
    # names
    ("invalid-name", "dataflow: ^Flights\ncomponents: {}"),
    ("invalid-name", "dataflow: ^a__b\ncomponents: {}"),
    ("invalid-name", f"dataflow: ^{'a' * 101}\ncomponents: {{}}"),
    ("invalid-name", component(READ, "^self")),
    ("invalid-name", component(READ, "^1")),
    ("invalid-name", component("write: {connector: files, from: ^a.b.c, path: out, format: csv}")),
    ("invalid-name", python("inputs: {^class: all}")),
    ("invalid-name", python("inputs: {^other.rows: all}")),
    # keys
    ("missing-key", "^dataflow: d"),
    ("missing-key", component("read: ^{path: a, format: csv}")),
    ("missing-key", component("^description: nothing is done here")),
    ("missing-key", component("transform: ^{params: {a: 1}}")),
    ("missing-key", component("transform: ^{python: 'def transform(): 1'}")),
    ("unknown-key", "dataflow: d\n^component: {}\ncomponents: {}"),
    ("unknown-key", read("^ParTition: a")),
    ("unknown-key", read("deletes: {^maximum: 1}")),
    ("unknown-key", "dataflow: d\nspark: {^shuffle.partitions: 4}\ncomponents: {}"),
    ("conflicting-keys", component(f"{READ}\n^{SQL}")),
    ("conflicting-keys", component("transform: {sql: SELECT 1, ^entrypoint: f}")),
    ("conflicting-keys", python("params: {a: 1}\n  inputs: {^a: all}")),
    ("conflicting-keys", python("inputs: {^spark: all}")),
    (
        "invalid-key",
        component("read: {connector: files, path: a, format: csv, options: {^[a, b]: 1}}"),
    ),
    ("invalid-key", "dataflow: d\ncomponents: {}\n?^ \n: 1"),
    # types and values
    ("wrong-type", "^- dataflow: d"),
    ("wrong-type", "^"),
    ("wrong-type", "dataflow: ^2013\ncomponents: {}"),
    ("wrong-type", "dataflow: d\ncomponents: ^[]"),
    ("wrong-type", "dataflow: d\ndescription: ^{a: b}\ncomponents: {}"),
    ("wrong-type", component("read:^")),
    ("wrong-type", component(f"{READ}\npaused: ^yes")),
    ("wrong-type", component(f"{READ}\npriority: ^high")),
    ("wrong-type", component(f"{READ}\npriority: ^true")),
    ("wrong-type", component(f"{READ}\ntags: ^daily")),
    ("wrong-type", read("deletes: {max: ^half}")),
    ("wrong-type", read("options: {header: ^[true]}")),
    ("wrong-type", read("options: {header: ^null}")),
    ("wrong-type", component("transform: {sql: SELECT 1, params: {a: ^[1]}}")),
    ("wrong-type", component("transform: {sql: SELECT 1, inputs: ^[a]}")),
    ("invalid-value", component(f"{READ}\npriority: ^1001")),
    ("invalid-value", component(f"{READ}\nresources: ^huge")),
    ("invalid-value", component(f"{READ}\ntags: [a, ^a]")),
    ("invalid-value", component(f"{READ}\nretention: {{generations: ^0}}")),
    ("invalid-value", read("deletes: {max: ^1.5}")),
    ("invalid-value", read("deletes: {max: ^.nan}")),
    ("invalid-value", component("transform: {sql: ^'  '}")),
    ("invalid-value", component("transform: {sql: SELECT 1, params: {^a-b: 1}}")),
    ("invalid-value", component("transform: {sql: SELECT 1, params: {a: ^.inf}}")),
    ("invalid-value", "dataflow: d\ntimezone: ^Berlin time\ncomponents: {}"),
    ("wrong-type", component("transform: {sql: SELECT 1, partition_by: ^a}")),
    ("wrong-type", component("transform: {sql: SELECT 1, partition_by: [^1]}")),
    ("invalid-value", component("transform: {sql: SELECT 1, partition_by: ^[]}")),
    ("invalid-value", component("transform: {sql: SELECT 1, partition_by: ^[a, {A: day}]}")),
    ("invalid-value", component("transform: {sql: SELECT 1, partition_by: [{a: ^decade}]}")),
    ("invalid-value", component("transform: {sql: SELECT 1, partition_by: [{a: ^bucket 0}]}")),
    ("invalid-value", component("transform: {sql: SELECT 1, partition_by: [{a: ^bucket 100001}]}")),
    ("invalid-value", component("transform: {sql: SELECT 1, partition_by: [^{a: day, b: day}]}")),
    ("invalid-duration", read("refresh: ^30")),
    ("invalid-duration", read("refresh: ^0s")),
    ("invalid-duration", read("refresh: ^1w")),
    ("invalid-duration", read("refresh: ^500ms")),
    ("wrong-type", read("refresh: ^{within: 1s}")),
    ("invalid-duration", component(f"read: {{{TOPIC}, schema: a INT, refresh: ^500ms}}")),
    *(
        (
            "invalid-duration",
            component(f"read: {{{TOPIC}, format: raw, refresh: {{within: ^{bound}}}}}"),
        )
        for bound in ("99ms", "0ms", "0s", "1w", "[1s]", "manual")
    ),
    ("missing-key", component(f"read: {{{TOPIC}, schema: a INT, refresh: ^{{}}}}")),
    (
        "unknown-key",
        component(f"read: {{{TOPIC}, format: raw, refresh: {{within: 1s, ^after: 1s}}}}"),
    ),
    ("invalid-path", component("read: {connector: files, path: ^' ', format: csv}")),
    ("invalid-path", component("read: {connector: files, path: ^'ftp://a/b.csv', format: csv}")),
    ("invalid-path", served("^'https://a/../b.csv'")),
    ("invalid-path", served("^'https://a/*.csv'")),
    ("invalid-path", served("^'https://u@a/b.csv'")),
    ("place-refused", served("^'http://169.254.169.254/b.csv'")),
    (
        "not-supported",
        component("write: {connector: files, from: a, path: ^'https://a/b', format: csv}"),
    ),
    ("literal-secret", served("'https://a/b.csv'", "^headers: {Accept: text}")),
    ("invalid-value", served("'https://a/b.csv'", "headers: {^Host: 'secret://a/b'}")),
    ("conflicting-keys", served("'a/*.csv'", "^headers: {Accept: 'secret://a/b'}")),
    ("conflicting-keys", served("'a/*.csv'", f"^sftp: {{{SFTP}, key: 'secret://a/b'}}")),
    ("missing-key", served("'sftp://a/*.csv'", f"sftp: ^{{{SFTP}}}")),
    ("invalid-value", served("'a/*.zip'", "members: ^/a.csv")),
    ("invalid-path", component("write: {connector: files, from: a, path: ^'out/*', format: csv}")),
    ("invalid-path", component("transform: {file: ^../a.py, inputs: {}}")),
    ("invalid-path", component("transform: {file: ^/a.py, inputs: {}}")),
    ("invalid-path", component("transform: {file: ^a.sql, inputs: {}}")),
    ("missing-file", component("transform: {file: ^a.py, inputs: {}}")),
    ("invalid-schema", read("schema: '^'")),
    ("invalid-schema", read("schema: ^year")),
    ("invalid-schema", read("schema: year INT,^, month INT")),
    ("invalid-schema", read("schema: a ARRAY^<INT")),
    ("invalid-partition", read("partition: ^month.csv")),
    ("invalid-partition", read("partition: ^'{Month}.csv'")),
    ("invalid-partition", read("partition: ^'{month.csv'")),
    ("invalid-partition", read("partition: ^'{a}{b}.csv'")),
    ("invalid-partition", read("partition: ^'{a}-{a}.csv'")),
    # later releases
    *(
        ("invalid-schema", read(f"schema: '{ddl}'"))
        for ddl in (
            *("a ^CHAR(3)", "a INT, b STRING ^NOT NULL", "a ^STRING(3)", "a INT ^PRIMARY KEY"),
            *(
                "a INT, ^PRIMARY KEY (a)",
                "a STRUCT<b: INT ^NOT NULL>",
                "a ARRAY<^VARCHAR(3)>",
                "a INT ^DEFAULT 3",
            ),
            *(
                "a ^TIMESTAMP(3)",
                "a INT ^UNIQUE",
                "a INT ^CHECK (a > 0)",
                "a CHARACTER ^VARYING(5)",
                "a ^INT(5)",
            ),
            *("a DECIMAL^(37, -2)", "a DECIMAL^(-2)", "a STRING ^COLLATE UNICODE"),
        )
    ),
    ("missing-key", component("read: ^{connector: python, schema: 'a INT'}")),
    ("missing-key", dlt("source: 's:f', resource: r", schema="")),
    ("missing-key", dlt("resource: r")),
    ("invalid-value", dlt("source: ^s, resource: r", at="")),
    ("missing-key", dlt("rest_api: {resources: [r]}")),
    ("conflicting-keys", dlt("source: s, resource: r, rest_api: {resources: [r]}")),
    ("wrong-type", dlt("resource: r, rest_api: ^1", at="")),
    ("invalid-value", dlt("resource: r, rest_api: {a: [^'secret://x']}", at="")),
    ("literal-secret", dlt("resource: r, rest_api: {auth: {token: ^x}}", at="")),
    ("invalid-value", dlt("resource: r, rest_api: {a: ^'Bearer secret://x/y'}", at="")),
    ("place-refused", dlt("resource: r, rest_api: {a: ^'http://169.254.169.254/'}", at="")),
    ("place-refused", dlt("resource: r, rest_api: {a: [^' HTTP://0xa9fea9fe']}", at="")),
    ("invalid-value", spark("", "option: day, ^values: []")),
    ("invalid-value", spark("", "option: day, values: [^'']")),
    (
        "missing-key",
        component("read: {connector: spark, format: x, schema: a INT, partitions: ^{option: d}}"),
    ),
    ("invalid-value", spark("", f"option: day, values: [^{'d' * 201}]")),
    ("missing-key", component("read: ^{connector: spark, format: mongodb}")),
    (
        "not-supported",
        component("read: {connector: spark, format: ^Kafka, schema: 'a INT'}"),
    ),
    ("invalid-value", packaged("format: x, packages: [^'g:a']")),
    ("invalid-value", packaged("format: x, packages: [^'g:a:1-SNAPSHOT']")),
    ("invalid-value", packaged("format: x, packages: [^'g:a:[1,2)']")),
    ("invalid-value", packaged("format: x, packages: [^'g<:a:1']")),
    *[
        ("invalid-value", packaged(f"format: x, packages: [^{json.dumps(coordinates)}]"))
        for coordinates in (
            "g:a:SNAPSHOT",
            "g:a:1.snapshot",
            "g:a:1.+",
            "g:a:latest.release",
            "g..h:a:1",
            "g:a:1..",
            "g/h:a:1",
            "g:a: 1",
            "g:a:1\n",
            "-Dx:a:1",
            "g:a:${env.HOME}",
            "g:a:1,h:b:1",
        )
    ],
    (
        "invalid-value",
        packaged(f"format: x, packages: ^[{', '.join(f'g:a:{n}' for n in range(21))}]"),
    ),
    (
        "conflicting-keys",
        packaged("python: 'def f(): 1', source: f, packages: ^['g:a:1']"),
    ),
    (
        "missing-key",
        component("read: ^{connector: spark, python: 'def f(): ...', schema: 'a INT'}"),
    ),
    ("missing-key", dlt("resource: r, python: 'def f(): ...'")),
    (
        "literal-secret",
        component("read: {connector: spark, format: x, schema: 'a INT', options: {token: ^x}}"),
    ),
    (
        "invalid-value",
        dlt("source: 's:f', resource: r, write_disposition: ^merge", at=""),
    ),
    (
        "missing-key",
        component(f"read:\n  ^connector: python\n  python: |\n    {LIST}\n    {READ_IT}"),
    ),
    (
        "missing-entrypoint",
        component(f"read:\n  connector: python\n  schema: a INT\n  python: |\n    ^{LIST}"),
    ),
    (
        "invalid-value",
        component(
            f"read:\n  connector: python\n  schema: a INT\n  ^params: {{t: 'secret://x'}}\n{BOTH}"
        ),
    ),
    (
        "literal-secret",
        component(f"read:\n  connector: python\n  schema: a INT\n  params: {{token: ^x}}\n{BOTH}"),
    ),
    ("conflicting-keys", read("partition: '{m}.csv'\n  ^group: {by: folder}")),
    ("conflicting-keys", read("group: {by: folder, ^bytes: 5}")),
    ("missing-key", read("group: ^{bytes: 5}")),
    ("invalid-value", read("group: {by: ^name}")),
    ("conflicting-keys", read("^link: true")),
    *(("not-supported", component(f"write: {{connector: ^{c}, table: t}}")) for c in ("python",)),
    ("not-supported", component(f"{SQL}\npublish: ^progressive")),
    # folds
    ("missing-key", python("inputs: {^self: previous, a: each}")),
    ("invalid-schema", python("inputs: {self: previous, a: each}\n  schema: ^total")),
    ("wrong-type", python("inputs: {self: previous, a: each}\n  schema: ^[a INT]")),
    ("self-reference", python("inputs: {^self: all}")),
    ("self-reference", python("inputs: {^self: by}")),
    ("self-reference", python("inputs: {^before: {from: self, mode: each}}")),
    ("self-reference", component("transform: {sql: SELECT 1, inputs: {^before: {from: self}}}")),
    ("invalid-value", python("inputs: {^a: previous}")),
    ("invalid-value", python("inputs: {^b: {from: a, mode: previous}}")),
    ("invalid-name", python("inputs: {^self: {from: a, mode: all}}")),
    (
        "conflicting-keys",
        python(f"inputs: {{self: previous, ^b: {{from: self, mode: previous}}, a: each}}\n  {DDL}"),
    ),
    ("not-supported", python(f"inputs: {{a: each}}\n  ^{DDL}")),
    (
        "not-supported",
        python(f"inputs: {{self: previous, a: each}}\n  {DDL}\n  ^partition_by: [k]"),
    ),
    ("missing-key", component(f"read: ^{{{TOPIC}, format: avro}}")),
    ("missing-key", component(f"read: ^{{{TOPIC}}}")),
    ("invalid-value", component(f"read: {{{TOPIC}, format: avro, registry: ^'r:1'}}")),
    ("conflicting-keys", component(f"read: {{{TOPIC}, schema: a INT, ^registry: 'http://r:1'}}")),
    ("conflicting-keys", component(f"read: {{{TOPIC}, schema: a INT, ^schema_change: sync}}")),
    ("conflicting-keys", component(f"read: {{{TOPIC}, format: raw, ^on_bad_record: drop}}")),
    ("literal-secret", component(f"read: {{{TOPIC}, format: avro, registry: ^'http://u:p@r:1'}}")),
    ("not-supported", component("read: {connector: files, path: ^'hdfs://a/*.csv', format: csv}")),
    ("not-supported", component("read: {connector: delta, path: ^'s3://a/b'}")),
    ("invalid-path", component("read: {connector: files, path: ^'s3://a*/b.csv', format: csv}")),
    ("invalid-path", component("read: {connector: files, path: ^'s3://x@a/b.csv', format: csv}")),
    ("invalid-value", read("regex: ^'a('")),
    ("conflicting-keys", read("^storage: {region: eu-1}")),
    ("missing-key", s3("storage: ^{access_key_id: 'secret://a/b'}")),
    ("missing-key", s3("storage: ^{session_token: 'secret://a/b'}")),
    ("invalid-value", s3("storage: {endpoint: ^'ftp://a'}")),
    ("literal-secret", s3("storage: {access_key_id: ^AKIA, secret_access_key: 'secret://a/b'}")),
    ("unknown-key", s3("storage: {^bucket: a}")),
    ("invalid-value", read("refresh: ^'cron: 0 6 * *'")),
    ("invalid-value", read("refresh: ^'cron: 0 6 30 2 *'")),
    ("not-supported", read("refresh: ^continuous")),
    ("invalid-value", read("on_bad_record: ^keep")),
    ("not-supported", read("options: {a: ^'secret://warehouse/url'}")),
    # what lasts
    *(("invalid-value", component(f"{SQL}\nvolatile: ^{v}")) for v in ("weekly", "'true'")),
    *(("wrong-type", component(f"{SQL}\nvolatile: ^{v}")) for v in ("false", "1", "[daily]")),
    *(
        ("invalid-value", component(f"{SQL}\npin: ^{v}"))
        for v in ("abc", "A" * 64, f"'{'0' * 63}'")
    ),
    *(
        (
            "conflicting-keys",
            component(f"read: {{connector: files, path: a, format: csv}}\n^{line}"),
        )
        for line in ("volatile: daily", f"pin: '{'0' * 64}'")
    ),
    # packages
    ("wrong-type", python("inputs: {}\n  requirements: ^humanize==4.9.0")),
    *(
        ("invalid-value", python(f"inputs: {{}}\n  requirements: [^'{text}']"))
        for text in (
            "humanize",
            "humanize>=4",
            "humanize==4.*",
            "humanize[x]==4",
            "-r==a",
            "a @ file:///x",
            "pyspark==4.2.0",
        )
    ),
    ("invalid-value", python("inputs: {}\n  requirements: [a-b==1, ^A_b==2]")),
    # expectations
    ("wrong-type", component(f"{SQL}\nexpect: ^a > 1")),
    ("wrong-type", component(f"{SQL}\nsort_by: ^a")),
    (
        "conflicting-keys",
        component("write: {connector: files, from: b, path: out, format: csv}\n^sort_by: [a]"),
    ),
    (
        "conflicting-keys",
        component("write: {connector: files, from: b, path: out, format: csv}\n^freshness: 26h"),
    ),
    *(
        ("invalid-duration", component(f"{SQL}\nfreshness: ^{text}"))
        for text in ("26", "0h", "manual", "1w", "a day")
    ),
    ("wrong-type", component(f"{SQL}\nfreshness: ^[26h]")),
    (
        "invalid-duration",
        component("read: {connector: files, path: /a, format: csv, refresh: {min_interval: ^5}}"),
    ),
    ("invalid-value", component(f"{SQL}\nmax_recompute: {{b: ^all}}")),
    ("wrong-type", component(f"{SQL}\nmax_recompute: ^[b]")),
    (
        "conflicting-keys",
        component("read: {connector: files, path: /a, format: csv}\n^max_recompute: {b: key}"),
    ),
    ("missing-key", component(f"{SQL}\nexpect: [^{{name: a}}]")),
    ("conflicting-keys", component(f"{SQL}\nexpect: [{{check: a, ^unique: [b]}}]")),
    ("wrong-type", component(f"{SQL}\nexpect: [{{check: ^true}}]")),
    ("invalid-value", component(f"{SQL}\nexpect: [{{check: ^' '}}]")),
    ("invalid-value", component(f"{SQL}\nexpect: [^{{unique: []}}]")),
    ("invalid-value", component(f"{SQL}\nexpect: [{{check: a}}, ^{{check: ' a'}}]")),
    ("invalid-value", component(f"{SQL}\nexpect: [{{check: a, on_fail: ^ignore}}]")),
    ("invalid-value", component(f"{SQL}\nexpect: [{{check: a, threshold: ^2}}]")),
    ("invalid-value", component(f"{SQL}\nexpect: [{{rows: ^{{min: 2, max: 1}}}}]")),
    ("missing-key", component(f"{SQL}\nexpect: [{{rows: ^{{}}}}]")),
    ("conflicting-keys", component(f"{SQL}\nexpect: [{{unique: [a], ^on_fail: drop}}]")),
    (
        "conflicting-keys",
        component(f"{SQL}\nexpect: [{{check: a, on_fail: drop, ^threshold: 0.1}}]"),
    ),
    ("conflicting-keys", component(f"{SQL}\nexpect: [{{rows: {{min: 1}}, ^threshold: 0.1}}]")),
    (
        "conflicting-keys",
        component(
            "write: {connector: files, from: a, path: o, format: csv}\n^expect: [{check: a}]"
        ),
    ),
    ("conflicting-keys", component(f"{SQL}\nexpect: [{{rows: {{min: 1}}, ^on_fail: quarantine}}]")),
    # databases
    ("missing-key", component("read: ^{connector: jdbc, table: t}")),
    ("missing-key", component("read: ^{connector: jdbc, url: 'jdbc:postgresql://h/d'}")),
    ("conflicting-keys", jdbc("^query: SELECT 1")),
    ("conflicting-keys", jdbc("full: true\n  ^incremental: {column: a}")),
    ("missing-key", jdbc("partitioned: ^{bounds: [1]}")),
    ("wrong-type", jdbc("partitioned: {column: a, bounds: [1, ^true]}")),
    *(
        ("invalid-value", component(f"read: {{connector: files, path: a, format: {text}}}"))
        for text in (
            "xlsx, ^options: {page: 1}",
            "xlsx, ^options: {range: B2}",
            "xlsx, ^options: {range: 'C1:B2'}",
            "xlsx, ^options: {header: perhaps}",
            "fixed, ^options: {columns: 'a:0-5'}",
            "fixed, ^options: {columns: 'a:1-5, a:6-7'}",
            "xml, ^options: {header: true}",
        )
    ),
    ("invalid-value", component("read: {connector: jdbc, url: ^h, table: t}")),
    ("not-supported", component("read: {connector: jdbc, url: ^'jdbc:sybase://h/d', table: t}")),
    ("invalid-value", component("read: {connector: jdbc, url: ^'secret://a', table: t}")),
    ("invalid-value", jdbc("options: {user: ^'secret://../etc/passwd'}")),
    *(
        ("not-supported", jdbc(f"options: {{^{name}: x}}"))
        for name in (
            "socketFactory",
            "SSLFACTORY",
            "authenticationPluginClassName",
            "loggerFile",
            "xmlFactoryFactory",
        )
    ),
    *(
        ("not-supported", jdbc(f"options: {{^{name}: x}}"))
        for name in ("driver", "keytab", "connectionProvider", "sslhostnameverifier", "service")
    ),
    *(
        (
            "not-supported",
            component(
                f"read: {{connector: jdbc, url: ^'jdbc:postgresql://h/d?{query}', table: t}}"
            ),
        )
        for query in (
            "socketFactory=a.B&socketFactoryArg=/x",
            "ssl=true&loggerFile=/x",
            "a=b#&socket%46actory=x",
        )
    ),
    (
        "not-supported",
        component(
            f"write: {{connector: jdbc, from: a, url: {URL}, table: t, options: {{^driver: x}}}}"
        ),
    ),
    (
        "place-refused",
        component(
            "read: {connector: kafka, servers: 'a:1', topic: t, format: avro, registry: ^'http://169.254.1.1'}"
        ),
    ),
    (
        "conflicting-keys",
        component(
            "read: {connector: kafka, servers: 'a:1', topic: t, format: debezium, schema: a INT, ^subject: s}"
        ),
    ),
    (
        "missing-key",
        component("read: ^{connector: kafka, servers: 'a:1', topic: t, format: debezium}"),
    ),
    (
        "conflicting-keys",
        component("read: {connector: delta, path: /t, changes: true, ^deletes: {max: 0.5}}"),
    ),
    *(
        (code, component(f"read: {{connector: iceberg, {keys}}}"))
        for code, keys in (
            ("conflicting-keys", "table: a.b, catalog: {uri: 'https://h'}, snapshot: 1, ^ref: a"),
            ("invalid-value", "table: ^orders, catalog: {uri: 'https://h'}"),
            ("invalid-value", "table: a.b, catalog: {uri: ^'ftp://h'}"),
            ("invalid-value", "table: a.b, catalog: {uri: ^'sqlite:///relative.db'}"),
            ("literal-secret", "table: a.b, catalog: {uri: ^'postgresql://app:pw@h/db'}"),
            ("place-refused", "table: a.b, catalog: {uri: ^'sqlite:////proc/a.db'}"),
            ("place-refused", "table: a.b, catalog: {uri: ^'http://169.254.169.254'}"),
            ("invalid-value", "path: /t, snapshot: ^-1"),
            ("not-supported", "path: ^'https://h/t'"),
            ("not-supported", "path: ^'hdfs://host/t'"),
            ("missing-key", f"table: a.b, catalog: ^{{{CATALOG}, client_id: secret://a/b}}"),
            ("missing-key", f"table: a.b, catalog: ^{{{CATALOG}, signing: glue}}"),
            (
                "conflicting-keys",
                f"table: a.b, catalog: ^{{{CATALOG}, token: secret://a/b, signing: glue, region: x}}",
            ),
            (
                "literal-secret",
                f"table: a.b, catalog: {{{CATALOG}, client_id: a, client_secret: ^abc}}",
            ),
            (
                "place-refused",
                f"table: a.b, catalog: {{{CATALOG}, {CLIENT}, oauth_uri: ^'{LINK_LOCAL}/t'}}",
            ),
            ("invalid-path", "path: ^'/t/*'"),
            ("place-refused", "path: ^/proc/t"),
        )
    ),
    (
        "missing-key",
        component("read: ^{connector: iceberg, path: /t, catalog: {uri: 'https://h'}}"),
    ),
    ("missing-key", component("read: ^{connector: iceberg, table: a.b}")),
    ("unknown-key", jdbc("^path: a")),
    ("invalid-value", component(f"write: {{connector: jdbc, from: a, url: {URL}, table: ^' '}}")),
    (
        "conflicting-keys",
        component(f"write: ^{{connector: jdbc, from: a, url: {URL}, table: t, mode: upsert}}"),
    ),
    (
        "conflicting-keys",
        component(f"write: ^{{connector: jdbc, from: a, url: {URL}, table: t, key: [a]}}"),
    ),
    (
        "conflicting-keys",
        component(
            f"write: ^{{connector: jdbc, from: a, url: {URL}, table: t, mode: append,"
            " schema_change: recreate}"
        ),
    ),
    (
        "invalid-value",
        component(
            f"write: {{connector: jdbc, from: a, url: {URL}, table: t, schema_change: ^sync}}"
        ),
    ),
    # secrets
    ("literal-secret", jdbc("options: {password: ^hunter2}")),
    (
        "literal-secret",
        component("read: {connector: jdbc, url: ^'jdbc:postgresql://h/d?password=x', table: t}"),
    ),
    (
        "literal-secret",
        component("read: {connector: jdbc, url: ^'jdbc:postgresql://u:x@h/d', table: t}"),
    ),
    ("literal-secret", read("options: {dbPassword: ^hunter2}")),
    ("literal-secret", read("options: {fs.s3a.access.key: ^AKIA}")),
    (
        "literal-secret",
        component("read: {connector: files, path: ^'file://me:hunter2@host/a', format: csv}"),
    ),
]


@pytest.mark.parametrize(("code", "text"), CASES)
def test_one_problem_at_its_place(code: str, text: str) -> None:
    plain, places = marked(text)
    found = problems_of(plain)
    assert [(p.code, (p.line, p.column)) for p in found] == [(code, place) for place in places], (
        found
    )
    assert all(p.message and p.file == "f.yaml" for p in found)


def test_names_that_differ_in_case_only() -> None:
    text = f"dataflow: d\ncomponents:\n  daily:\n    {READ}\n  Daily:\n    {READ}\n"
    assert [(p.code, p.line) for p in problems_of(text)] == [("invalid-name", 5), ("name-clash", 5)]


def test_all_problems_at_once_in_order_of_place() -> None:
    text = """\
dataflow: ^Flights
timezone: ^"not a zone"
components:
  ^A:
    read: {connector: ^pythn}
  b:
    pin: ^x
    transform:
      sql: ^&x SELECT 1
      params: {a: ^*x, ^a: 2}
  c:
    write: ^{connector: files, from: b, path: out, ^formt: csv}
"""
    plain, places = marked(text)
    found = problems_of(plain)
    assert [(p.line, p.column) for p in found] == places
    assert [p.code for p in found] == [
        "invalid-name",
        "invalid-value",
        "invalid-name",
        "invalid-value",
        "invalid-value",
        "yaml-anchor",
        "yaml-anchor",
        "duplicate-key",
        "missing-key",
        "unknown-key",
    ]


def test_a_hint_names_the_closest_key() -> None:
    (found,) = problems_of(read("partiton: '{a}.csv'"))
    assert found.hint == "did you mean 'partition'?"
    (found,) = problems_of(read("zzzzzz: 1"))
    assert "schema_change" in found.hint


def test_a_secret_enters_no_message() -> None:
    text = read(
        "options: {password: hunter2, url: 'jdbc:x://me:hunter2@host', u: 'a?password=hunter2'}"
    )
    found = problems_of(text)
    assert [p.code for p in found] == ["literal-secret"] * 3
    assert "hunter2" not in str(found)


def test_more_problems_than_anybody_reads_are_counted() -> None:
    found = problems_of(
        "dataflow: d\ncomponents: {}\n" + "".join(f"k{i}: 1\n" for i in range(MOST_PROBLEMS + 5))
    )
    assert len(found) == MOST_PROBLEMS + 1
    assert (found[-1].code, found[-1].message) == (
        "too-many-problems",
        "5 more problems are not shown",
    )


def test_every_code_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "errors.md").read_text(encoding="utf-8")
    documented = re.findall(r"^\| `([a-z-]+)` \|", page, re.MULTILINE)
    assert len(documented) == len(set(documented))
    kinds = [
        e
        for e in vars(errors).values()
        if isinstance(e, type) and issubclass(e, errors.HeadgateError)
    ]
    assert set(get_args(Code)) | {e.code for e in kinds} <= set(documented)


DECLARED = "v VARCHAR(3), n INT NOT NULL, `a b` CHAR(2) NOT NULL, s STRUCT<x: INT NOT NULL>, PRIMARY KEY (v, `a b`)"
KEPT = "v STRING, n INT, `a b` STRING, s STRUCT<x: INT>"


def test_what_a_schema_cannot_keep_is_told_with_the_lines_that_check_it() -> None:
    """The lines are those that a user copies: with them the blueprint is taken."""
    found = problems_of(read(f"schema: '{DECLARED}'"))
    lines = [problem.hint.partition("expect: ")[2] for problem in found]
    assert lines == [
        "[{check: length(v) <= 3}]",
        "[{check: n IS NOT NULL}]",
        '[{check: "length(`a b`) <= 2"}]',
        '[{check: "`a b` IS NOT NULL"}]',
        "[{check: s.x IS NOT NULL}]",
        '[{unique: [v, "a b"]}, {check: v IS NOT NULL}, {check: "`a b` IS NOT NULL"}]',
    ]
    kept = read(f"schema: '{KEPT}'")
    for line in lines:
        assert problems_of(f"{kept}    expect: {line}\n") == ()


def test_a_number_with_zeros_before_its_point_is_whole() -> None:
    assert types(
        parse_ddl(
            "a numeric(5,-2), b DECIMAL( 36 , - 2 ), c VARCHAR, d CHAR, e INT NULL COMMENT 'x'"
        )
    ) == {
        "a": "decimal(7,0)",
        "b": "decimal(38,0)",
        "c": "string",
        "d": "string",
        "e": "integer",
    }
    assert problems_of(read("schema: 'a numeric(5,-2)'")) == ()
