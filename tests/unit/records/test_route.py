"""Records over HTTP: five forms of the same rows, parts of them, and answers without any."""

from __future__ import annotations

import csv
import gzip
import io
import json
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

import httpx2
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from controlplane.core.compile.nodes import Transform
from controlplane.operations.desired import blueprints
from controlplane.operations.planning.snapshot import desired
from tests.unit.lake.tables import struct
from tests.unit.records.conftest import order
from tests.unit.records.world import NOON, RECORDS, Served

pytestmark = pytest.mark.unit
FORMATS = ("json", "ndjson", "csv", "arrow", "parquet")


def table(answer: httpx2.Response) -> list[dict[str, Any]]:
    """The rows of an answer, as JSON has them."""
    assert answer.status_code == 200, answer.text
    kind = answer.headers["content-type"].partition(";")[0]
    match kind:
        case "application/json":
            return json.loads(answer.content)
        case "application/x-ndjson":
            return [json.loads(line) for line in answer.text.splitlines()]
        case "text/csv":
            return list(csv.DictReader(io.StringIO(answer.text)))
        case "application/vnd.apache.arrow.stream":
            return pa.ipc.open_stream(answer.content).read_all().to_pylist()
        case "application/vnd.apache.parquet":
            return pq.read_table(io.BytesIO(answer.content)).to_pylist()
    raise AssertionError(kind)


def keys(answer: httpx2.Response) -> list[int]:
    return [int(row["k"]) for row in table(answer)]


@pytest.mark.parametrize("format", FORMATS)
def test_every_form_has_the_same_rows_in_the_order_of_keys(place: Served, format: str) -> None:
    with place.http() as http:
        answer = http.get(f"{RECORDS}.{format}")
        assert answer.content == http.get(RECORDS, params={"format": format}).content
        assert keys(http.get(f"{RECORDS}.{format}", params={"offset": 1, "limit": 3})) == [2, 3, 4]
        assert keys(http.get(f"{RECORDS}.{format}", params={"where": "k > 3 AND name = 'ü'"})) == [
            4
        ]
        assert list(table(http.get(f"{RECORDS}.{format}", params={"columns": "day, K"}))[0]) == [
            "day",
            "k",
        ]
        assert keys(http.get(f"{RECORDS}.{format}", params={"where": "k > 9"})) == []
    assert keys(answer) == [1, 2, 3, 4, 5]
    assert list(table(answer)[0]) == ["k", "name", "price", "day", "at"]
    assert answer.headers["content-disposition"] == f'attachment; filename="shop.orders.{format}"'
    assert (answer.headers["x-generation"], answer.headers["x-rows"]) == ("1", "5")


@pytest.mark.parametrize("format", ["arrow", "parquet"])
def test_binary_forms_keep_types_and_say_how_they_are_compressed(
    place: Served, format: str
) -> None:
    compressions = {
        "arrow": ("none", "lz4", "zstd"),
        "parquet": ("none", "snappy", "gzip", "zstd"),
    }[format]
    with place.http() as http:
        bodies = {
            c: http.get(f"{RECORDS}.{format}", params={"compression": c}) for c in compressions
        }
        refused = http.get(f"{RECORDS}.csv", params={"compression": "gzip"})
    assert all(table(body) == [dict(order(1)), *table(body)[1:]] for body in bodies.values())
    assert len({body.headers["etag"] for body in bodies.values()}) == len(bodies)
    assert "content-encoding" not in bodies["none"].headers
    assert (refused.status_code, "Accept-Encoding" in refused.json()["detail"]) == (422, True)
    if format == "parquet":
        found = (
            pq.ParquetFile(io.BytesIO(bodies["gzip"].content))
            .metadata.row_group(0)
            .column(0)
            .compression
        )
        assert found == "GZIP"


def test_texts_are_compressed_as_a_client_says(place: Served) -> None:
    with (
        place.http() as http,
        http.stream("GET", f"{RECORDS}.csv", headers={"Accept-Encoding": "gzip;q=1, br"}) as one,
    ):
        body = b"".join(one.iter_raw())
    with place.http() as http:
        plain = http.get(f"{RECORDS}.csv")
        both = http.head(f"{RECORDS}.csv", headers={"Accept-Encoding": "gzip, zstd"})
        none = http.head(f"{RECORDS}.csv", headers={"Accept-Encoding": "gzip;q=0, br"})
    assert one.headers["content-encoding"] == "gzip"
    assert gzip.decompress(body) == plain.content
    assert one.headers["etag"] == plain.headers["etag"]
    assert "Accept-Encoding" in plain.headers["vary"]
    assert both.headers["content-encoding"] == "zstd"
    assert "content-encoding" not in none.headers


def test_csv_keeps_formulas_and_tells_null_from_an_empty_text(place: Served) -> None:
    with place.http() as http:
        text = http.get(f"{RECORDS}.csv", params={"columns": "k,name"}).text
    assert text.splitlines() == ['"k","name"', '1,"a"', '2,"=1+1, ""x"""', "3,", '4,"ü"', '5,""']


def test_data_that_did_not_change_is_neither_read_nor_sent(place: Served) -> None:
    world = place.world
    with place.http() as http:
        first = http.get(f"{RECORDS}.csv", params={"where": "k > 1", "limit": 2})
        asked: Any = {
            "params": {"where": "k > 1", "limit": 2},
            "headers": {"If-None-Match": first.headers["etag"]},
        }
        assert (
            http.get(f"{RECORDS}.csv", params={"where": "k > 1", "limit": 3}).headers["etag"]
            != first.headers["etag"]
        )
        number = len(world.rendered)
        for path in world.root.glob("lake/**/*.parquet"):
            path.unlink()  # the lake is not asked
        again = http.get(f"{RECORDS}.csv", **asked)
        world.commit({"a.csv": [order(1)]})
        world.commit({"a.csv": [order(1), order(2)]})
        newer = http.get(f"{RECORDS}.csv", **asked)
    assert (again.status_code, again.content, again.headers["x-generation"]) == (304, b"", "1")
    assert again.headers["etag"] == first.headers["etag"]
    assert (newer.status_code, newer.headers["etag"] != first.headers["etag"]) == (200, True)
    assert len(world.rendered) == number + 1


def test_each_part_of_what_is_asked_has_a_tag_of_its_own(place: Served) -> None:
    asked: list[dict[str, str]] = [
        {},
        {"limit": "2"},
        {"offset": "2"},
        {"where": "k > 1"},
        {"where": "k > 2"},
        {"columns": "k"},
        {"columns": "k,name"},
        {"columns": "name,k"},
        {"partition": "a.csv"},
        {"format": "csv"},
        {"format": "parquet"},
        {"format": "parquet", "compression": "gzip"},
    ]
    with place.http() as http:
        tags = [http.head(RECORDS, params=one).headers["etag"] for one in asked]
        assert http.head(RECORDS, params={"columns": " k, name "}).headers["etag"] == tags[6]
    assert len(set(tags)) == len(asked)


def test_headers_alone_read_nothing(place: Served) -> None:
    with place.http() as http:
        head, got = http.head(f"{RECORDS}.csv"), http.get(f"{RECORDS}.csv")
    assert len(place.world.rendered) == 1
    names = ("etag", "x-rows", "x-generation", "content-type", "content-disposition")
    assert [head.headers[name] for name in names] == [got.headers[name] for name in names]


def test_a_generation_and_a_time_are_addresses(place: Served) -> None:
    world = place.world
    world.now += 3600
    world.commit({"a.csv": [order(7)]})
    early = datetime.fromtimestamp(NOON + 1, UTC).isoformat()
    with place.http() as http:
        assert keys(http.get(f"{RECORDS}.json")) == [7]
        for point in ({"at": "1"}, {"generation": "1"}, {"at": early}):
            found = http.get(f"{RECORDS}.json", params=point)
            assert keys(found) == [1, 2, 3, 4, 5]
        named = http.get(f"{RECORDS}.json", params={"at": "1"}).headers["content-disposition"]
        assert named == 'attachment; filename="shop.orders@1.json"'
        assert http.get(f"{RECORDS}.json", params={"at": "9"}).status_code == 404
        assert (
            http.get(f"{RECORDS}.json", params={"at": "x"}).json()["type"]
            == "urn:headgate:bad-address"
        )


@pytest.mark.parametrize(
    ("asked", "code", "said"),
    [
        ({"where": "k = 'x'"}, "bad-condition", "where:1:5:"),
        ({"where": "k =\n  nope"}, "bad-condition", "where:2:3:"),
        ({"where": "k = 1; DROP TABLE orders"}, "bad-condition", "where:1:6:"),
        ({"where": ""}, "bad-condition", "it is empty"),
        ({"columns": "k,nope"}, "bad-columns", "there are k, name"),
        ({"columns": "k,k"}, "bad-columns", "twice"),
        ({"columns": "`k"}, "bad-columns", "no list"),
        ({"partition": "nope"}, "not-found", "no partition"),
        ({"limit": "-1"}, "invalid-request", "limit"),
        ({"compression": "rar"}, "invalid-request", "compression"),
        ({"generation": "1", "at": "1"}, "invalid-request", "both"),
    ],
)
def test_what_is_refused_says_where_and_why(
    place: Served, asked: dict[str, str], code: str, said: str
) -> None:
    with place.http() as http:
        problem = http.get(f"{RECORDS}.json", params=asked).json()
        assert http.get(f"{RECORDS}.xml").status_code == 422
    assert (problem["type"], said in problem["detail"]) == (f"urn:headgate:{code}", True), problem[
        "detail"
    ]
    if code == "bad-condition":
        assert problem["errors"][0]["line"] >= 1


def test_a_file_that_cannot_be_read_is_an_error_at_once(place: Served) -> None:
    for path in place.world.root.glob("lake/**/*.parquet"):
        path.unlink()

    with place.http() as http:
        answer = http.get(f"{RECORDS}.json")
    assert answer.status_code in (500, 503)
    assert place.services.streams.running == 0


@pytest.mark.parametrize(
    ("where", "files"),
    [
        ("k < 3", ["1-0.parquet"]),
        ("day >= '2013-01-05' OR k = 1", ["1-0.parquet", "3-0.parquet"]),
        ("price > 5", ["3-0.parquet"]),
        ("at < '2013-01-03T00:00Z'", ["1-0.parquet"]),
        ("name IS NULL", ["2-0.parquet"]),
        ("name = 'zz'", []),
        ("NOT k < 4", ["2-0.parquet", "3-0.parquet"]),
        ("k IN (4, 17)", ["2-0.parquet"]),
        ("name LIKE 'ü%'", ["2-0.parquet"]),
        ("lower(name) = 'a'", ["1-0.parquet", "2-0.parquet", "3-0.parquet"]),
    ],
)
def test_files_that_cannot_match_are_not_opened(
    place: Served, where: str, files: list[str]
) -> None:
    with place.http() as http:
        table(http.get(f"{RECORDS}.json", params={"where": where}))
    assert place.world.opened == files


def test_files_before_the_offset_and_behind_the_limit_are_not_opened(place: Served) -> None:
    with place.http() as http:
        assert keys(http.get(f"{RECORDS}.json", params={"offset": 2, "limit": 1})) == [3]
        assert place.world.opened == ["2-0.parquet"]
        assert keys(http.get(f"{RECORDS}.json", params={"offset": 99})) == []
    assert place.world.opened == []


BLUEPRINT = """
dataflow: shop
components:
  raw: {read: {connector: files, path: /data/*.csv, format: csv, schema: "k BIGINT, name STRING, day DATE"}}
  daily: {transform: {sql: 'SELECT * FROM raw', partition_by: [{day: month}, name]}}
"""


def test_partitions_that_cannot_match_by_their_keys_are_not_looked_up(place: Served) -> None:
    """Here files have no statistics. Where other code may have made the state, keys tell
    nothing."""
    world = place.world
    blueprints.apply(world.ctx, "main", [blueprints.SentBlueprint("/shop.yaml", BLUEPRINT, {})])
    with world.store.read() as tx:
        node = desired(tx, "main").nodes["shop.daily"]
    assert isinstance(node, Transform)
    schema = struct(k="long", name="string", day="date")
    keys_of = [
        ("day=2013-01/name=a", 1, 1),
        ("day=2013-01/name=b", 1, 2),
        ("day=2013-02/name=a", 2, 3),
    ]
    partitions = {}
    for key, month, k in keys_of:
        found = world.fragment([{"k": k, "name": key[-1], "day": date(2013, month, 5)}], schema)
        partitions[key] = replace(found, files=tuple({**file, "stats": {}} for file in found.files))
    path = RECORDS.replace("orders", "daily") + ".json"
    asked = {"where": "day >= '2013-02-01' OR name = 'b'"}
    with place.http() as http:
        world.commit(partitions, "shop.daily", schema, logic=node.logic)
        assert keys(http.get(path, params=asked)) == [2, 3]
        assert len(world.opened) == 2
        world.commit(partitions, "shop.daily", schema, logic=bytes(32))
        assert keys(http.get(path, params=asked)) == [2, 3]
        assert len(world.opened) == 3
