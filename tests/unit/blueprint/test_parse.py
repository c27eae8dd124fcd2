"""What a correct blueprint becomes; and that nothing but InvalidBlueprint is ever raised."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from controlplane.core.blueprint import (
    InputHint,
    Position,
    Read,
    Retention,
    SparkSettings,
    SqlTransform,
    Write,
    file_references,
    parse,
)
from controlplane.core.errors import InvalidBlueprint
from tests.unit.blueprint.texts import READ, component, one

FULL = """\
dataflow: flights
description: >
  On-time performance
timezone: Europe/Berlin
spark: {ansi: false, case_sensitive: true}
components:
  flights:
    description: all of them
    owner: me
    tags: [b, a]
    paused: true
    priority: -5
    retention: {generations: 3}
    resources: large
    read:
      connector: files
      path: data/flights/*.csv
      format: csv
      options: {nullValue: NA, header: true, n: 007, x: 1e3, e: ""}
      schema: "year INT, `a b` ARRAY<STRUCT<x: INT, y: STRING>>, d DECIMAL(10, 2) COMMENT 'a, b'"
      refresh: 5m
      partition: "{month}.csv"
      metadata: [name, modified]
      on_bad_record: drop
      schema_change: fail
      deletes: {max: 1}
  delays:
    transform:
      sql: SELECT * FROM flights JOIN x USING (carrier)
      params: {minimum: 0, b: text, a: null, f: 1.5}
      inputs: {flights: each, x: {from: other.airlines, mode: all}, y: {from: flights}}
  copy:
    write: {connector: files, from: delays, path: out, format: parquet, options: {compression: zstd}}
"""


def test_a_blueprint_with_everything() -> None:
    found = parse(FULL, file="f.yaml")
    assert (found.dataflow, found.description, found.timezone) == (
        "flights",
        "On-time performance\n",
        "Europe/Berlin",
    )
    assert found.spark == SparkSettings(ansi=False, case_sensitive=True)
    flights, delays, copy = found.components
    assert (flights.name, flights.place) == ("flights", Position("f.yaml", 7, 3))
    assert (flights.owner, flights.tags, flights.paused, flights.priority) == (
        "me",
        ("b", "a"),
        True,
        -5,
    )
    assert (flights.retention, flights.resources) == (Retention(3, 30), "large")
    assert flights.body == Read(
        connector="files",
        path="data/flights/*.csv",
        format="csv",
        options=(("e", ""), ("header", "true"), ("n", "007"), ("nullValue", "NA"), ("x", "1e3")),
        schema="year INT, `a b` ARRAY<STRUCT<x: INT, y: STRING>>, d DECIMAL(10, 2) COMMENT 'a, b'",
        refresh_s=300.0,
        partition="{month}.csv",
        metadata=("name", "modified"),
        on_bad_record="drop",
        schema_change="fail",
        deletes_max=1.0,
    )
    assert isinstance(delays.body, SqlTransform)
    assert delays.body.params == (("a", None), ("b", "text"), ("f", 1.5), ("minimum", 0))
    assert delays.body.inputs == (
        InputHint("flights", None, "each", Position("f.yaml", 31, 16)),
        InputHint("x", "other.airlines", "all", Position("f.yaml", 31, 31)),
        InputHint("y", "flights", None, Position("f.yaml", 31, 69)),
    )
    assert copy.body == Write("files", "delays", "out", "parquet", (("compression", "zstd"),))


def test_defaults() -> None:
    body = one(READ)
    assert body == Read(
        "files", "data/*.csv", "csv", (), None, 60.0, None, (), "fail", "append", 0.5
    )


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30), ("5m", 300), ("1h", 3600), ("1d", 86400), ("manual", None)]
)
def test_durations(text: str, seconds: float | None) -> None:
    body = one(f"read: {{connector: files, path: a, format: csv, refresh: {text}}}")
    assert isinstance(body, Read)
    assert body.refresh_s == seconds


@pytest.mark.parametrize(
    ("text", "seconds", "within_s"),
    [
        ("continuous", 1.0, 1.0),
        ("{within: 100ms}", 0.1, 0.1),
        ("{within: 2s}", 2.0, 2.0),
        ("30s", 30.0, None),
        ("manual", None, None),
        ("'cron: 0 6 * * *'", None, None),
    ],
)
def test_how_a_topic_is_followed(text: str, seconds: float | None, within_s: float | None) -> None:
    topic = "connector: kafka, servers: 'a:1', topic: t, schema: a INT"
    body = one(f"read: {{{topic}, refresh: {text}}}")
    assert isinstance(body, Read)
    assert (body.refresh_s, body.within_s) == (seconds, within_s)


def test_a_cron_expression_is_of_five_fields() -> None:
    body = one(
        "read: {connector: files, path: a, format: csv, refresh: 'cron:  0 6  * * mon-fri '}"
    )
    assert isinstance(body, Read)
    assert (body.cron, body.refresh_s) == ("0 6 * * mon-fri", None)


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("61 6 * * *", "has a wrong minute"),
        ("0 24 * * *", "has a wrong hour"),
        ("0 6 32 * *", "has a wrong day of month"),
        ("0 6 * 13 *", "has a wrong month"),
        ("0 6 * * 8", "has a wrong day of week"),
        ("0 0 6 * * *", "has 6 fields"),
        ("@daily", "has 1 fields"),
        ("", "has 0 fields"),
        ("0 6 31 4,6 *", "day"),
        (f"{','.join(['1'] * 50)} 6 * * *", "more than 100 characters"),
    ],
)
def test_a_wrong_cron_expression_names_its_field(expression: str, fault: str) -> None:
    with pytest.raises(InvalidBlueprint) as refused:
        one(f"read: {{connector: files, path: a, format: csv, refresh: 'cron: {expression}'}}")
    [problem] = refused.value.problems
    assert problem.code == "invalid-value"
    assert fault in problem.message


WATCHED = "read: {{connector: {}, refresh: on_change}}"


@pytest.mark.parametrize(
    "source",
    [
        "files, path: a, format: csv",
        "files, path: 'file:///a/*.csv', format: csv",
        "delta, path: /data/table",
    ],
)
def test_local_folders_may_be_listed_on_change(source: str) -> None:
    body = one(WATCHED.format(source))
    assert isinstance(body, Read)
    assert (body.is_watched, body.within_s, body.refresh_s) == (True, 1.0, 600.0)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("files, path: 's3://b/*.csv', format: csv", "an object store"),
        ("files, path: 'gs://b/*.csv', format: csv", "an object store"),
        ("kafka, servers: 'a:1', topic: t, schema: a INT", "a local folder"),
    ],
)
def test_other_places_give_no_notice(source: str, reason: str) -> None:
    with pytest.raises(InvalidBlueprint) as refused:
        one(WATCHED.format(source))
    [problem] = refused.value.problems
    assert problem.code == "not-supported"
    assert reason in problem.message


NOTICES = "notices: {servers: 'a:1', topic: t, options: {sasl.password: secret://a/b}}"


def test_a_bucket_may_be_listed_on_change_by_notices() -> None:
    body = one(WATCHED.format(f"files, path: 's3://b/*.csv', format: csv, {NOTICES}"))
    assert isinstance(body, Read)
    assert (body.is_watched, body.refresh_s) == (True, 600.0)
    assert dict(body.settings) == {
        "notices.servers": "a:1",
        "notices.topic": "t",
        "notices.client.sasl.password": "secret://a/b",
    }


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("path: 's3://b/*.csv'", "refresh: on_change"),
        ("path: 'gs://b/*.csv', refresh: on_change", "s3://"),
        ("path: 'a/*.csv', refresh: on_change", "s3://"),
    ],
)
def test_misplaced_notices_are_refused(source: str, reason: str) -> None:
    with pytest.raises(InvalidBlueprint) as refused:
        one(f"read: {{connector: files, {source}, format: csv, {NOTICES}}}")
    [problem] = refused.value.problems
    assert problem.code == "conflicting-keys"
    assert reason in problem.message


def test_a_dataflow_may_be_empty() -> None:
    assert parse("dataflow: d\ncomponents: {}", file="f").components == ()


def test_bytes_and_text_are_the_same() -> None:
    assert (
        parse(FULL.encode(), file="f") == parse(FULL, file="f") == parse("\ufeff" + FULL, file="f")
    )


def test_file_references_are_found_in_spite_of_problems() -> None:
    text = component(
        "tranform: x\ntransform:\n  file: t/a.py\n  modules: [t/b.py, /etc/c.py, ../d.py, [], t/a.py]\n  x: 1"
    )
    assert file_references(text) == ("t/a.py", "t/b.py")
    assert (
        file_references("[") == file_references("a: 1") == file_references("components: [1]") == ()
    )


VOCABULARY = """
dataflow components read transform write connector files path format csv options schema refresh partition inputs sql
python file modules params from mode each all by expect secret:// http://a:b@c {a}.csv 1 012 true null ~ .nan
& * ! | > ' " [ ] { } , : - ? # % @ ` \\ é 😀 --- ...
"""
WORDS = st.sampled_from([*VOCABULARY.split(), "\t", "\n", "\r", "\0", "\u2028", "\ud800"])
PIECES = st.lists(
    st.tuples(WORDS, st.sampled_from(["", " ", ": ", "\n", "\n  ", "\n    ", ", "])), max_size=40
)


@given(PIECES.map(lambda pieces: "".join(a + b for a, b in pieces)) | st.text() | st.binary())
@example("\x00")
def test_only_invalid_blueprint_is_raised(text: str | bytes) -> None:
    file_references(text)
    with pytest.raises(InvalidBlueprint) as caught:
        parse(text, file="f")
    found = caught.value.problems
    assert found == tuple(sorted(found))
    assert all(p.line > 0 and p.column > 0 for p in found)


LEAVES = st.sampled_from(
    ["each", "x", "1", "true", "~", "'{a}.csv'", "30s", "files", "csv", "[]", "{}", "[a, [b]]"]
)
COMPONENT = (
    "read transform write description owner tags paused priority retention resources publish expect"
)
BODY = "connector path format options schema refresh partition metadata deletes sql python file inputs params from x"
INNER = "generations days max from mode by header password self a"
KEYS = [COMPONENT.split(), BODY.split(), INNER.split()]


def tree(level: int) -> st.SearchStrategy[str]:
    if level == len(KEYS):
        return LEAVES
    entry = st.tuples(st.sampled_from(KEYS[level]), tree(level + 1)).map(
        lambda e: f"{e[0]}: {e[1]}"
    )
    return LEAVES | st.lists(entry, max_size=5).map(lambda entries: "{" + ", ".join(entries) + "}")


@given(tree(0))
def test_any_tree_of_known_keys_is_read_or_refused(component_text: str) -> None:
    text = f"dataflow: d\ncomponents: {{c: {component_text}}}"
    try:
        assert len(parse(text, file="f").components) == 1
    except InvalidBlueprint as e:
        assert e.problems  # noqa: PT017 - both outcomes are right
