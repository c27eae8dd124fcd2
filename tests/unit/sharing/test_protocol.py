"""The protocol of Delta Sharing, against our own answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from controlplane.core.model.retention import Expired
from controlplane.core.records import pruning
from controlplane.core.sharing import hints
from controlplane.services.sharing import version_files
from tests.unit.lake.tables import struct
from tests.unit.records.conftest import order
from tests.unit.records.world import ORDERS, SCHEMA, RecordWorld
from tests.unit.sharing.world import TABLE, Rows, Sharing, names, partitions, rows, rows_of, sharing

DELTA = {
    "delta-sharing-capabilities": "responseformat=delta;readerfeatures=deletionvectors,timestampntz"
}


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Sharing]:
    """Orders in four versions: the first ones, a late file, a corrected one, a withdrawn one."""
    world = RecordWorld(tmp_path)
    for groups in ([1, 2], [3, 4]), ([1, 2], [3, 4], [5]), ([1, 2], [3, 9], [5]), ([1, 2], [], [5]):
        world.commit({key: found for key, found in partitions(*groups).items() if found})
        world.now += 60
    with sharing(world) as found:
        yield found


def at(seconds: float) -> str:
    """A time of the tests' hour."""
    return f"2025-11-25T12:{int(seconds // 60):02}:{seconds % 60:06.3f}Z"


def test_names_are_listed_level_by_level(shared: Sharing) -> None:
    assert names(shared.get("/shares")) == ["sales"]
    assert shared.get("/shares/sales").json()["share"]["name"] == "sales"
    assert names(shared.get("/shares/sales/schemas")) == ["shop"]
    (table,) = shared.get("/shares/sales/schemas/shop/tables").json()["items"]
    assert (table["share"], table["schema"], table["name"]) == ("sales", "shop", "orders")
    assert shared.get("/shares/sales/all-tables").json()["items"] == [table]
    assert shared.get("/shares/SALES/schemas/Shop/tables").json()["items"] == [table]


def test_each_version_is_what_we_answer_ourselves(shared: Sharing) -> None:
    expected = {
        1: rows(1, 2, 3, 4),
        2: rows(1, 2, 3, 4, 5),
        3: rows(1, 2, 3, 9, 5),
        4: rows(1, 2, 5),
    }
    with shared.place.client() as client:
        for version, wanted in expected.items():
            with client.records(f"{ORDERS}@{version}", format="json") as parts:
                ours = json.loads(b"".join(parts))
            assert {row["k"] for row in ours} == {k for k, _ in wanted}
            assert shared.query(version=version) == wanted
    assert shared.query() == expected[4]
    assert shared.query(timestamp=at(61)) == expected[2]
    assert shared.query(maxFiles=1, idempotencyKey="x") == expected[4]


def test_a_snapshot_says_what_the_table_is(shared: Sharing) -> None:
    protocol, metadata, *found = shared.lines("POST", f"{TABLE}/query", {"version": 2})
    assert protocol == {"protocol": {"minReaderVersion": 1}}
    assert json.loads(metadata["metaData"]["schemaString"]) == SCHEMA
    assert (metadata["metaData"]["partitionColumns"], metadata["metaData"]["version"]) == ([], 2)
    assert [json.loads(line["file"]["stats"])["numRecords"] for line in found] == [2, 2, 1]
    assert {line["file"]["version"] for line in found} == {2}
    ids = [line["file"]["id"] for line in shared.lines("POST", f"{TABLE}/query", {})[2:]]
    assert set(ids) < {line["file"]["id"] for line in found}  # the same file is known again
    answer = shared.get(f"{TABLE}/metadata")
    assert answer.headers["delta-table-version"] == "4"
    assert answer.headers["delta-sharing-capabilities"] == "responseformat=parquet"
    assert len(answer.text.splitlines()) == 2


def test_a_limit_tells_no_more_files_than_it_takes(shared: Sharing) -> None:
    told = [
        len(shared.lines("POST", f"{TABLE}/query", {"version": 2, "limitHint": n})) - 2
        for n in (0, 1, 2, 3, 99)
    ]
    assert told == [0, 1, 1, 2, 3]


def test_hints_cost_no_more_however_many_there_are(shared: Sharing) -> None:
    """What a recipient writes holds no thread that other readers wait for."""
    schema = struct(k="long")
    comparison = hints.condition_of(["k > 4"], "", schema)
    assert comparison is not None
    texts = [" AND ".join(["k >= 0"] * 200), "k > 4", "k > 4" + " " * hints.LONGEST, "k > 5"]
    assert hints.condition_of(texts, "", schema) is None  # the first one has too many comparisons
    assert hints.condition_of(texts[1:], "", schema) == comparison
    many = hints.condition_of(["k > 4"] * 1000, "", schema)
    assert many is not None
    assert pruning.comparisons(many) <= hints.MOST_COMPARISONS + 1
    assert {k for k, _ in shared.query(version=2, predicateHints=texts[1:])} == {5}


def test_hints_leave_out_files_without_such_rows(shared: Sharing) -> None:
    def told(**asked: Any) -> set[int]:
        return {k for k, _ in shared.query(version=2, **asked)}

    def compared(
        operator: str, value: str, kind: str = "long", column: str = "k"
    ) -> dict[str, Any]:
        name = {"op": "column", "name": column, "valueType": kind}
        return {
            "op": operator,
            "children": [name, {"op": "literal", "value": value, "valueType": kind}],
        }

    def tree(operator: str, *children: dict[str, Any]) -> dict[str, Any]:
        return {"jsonPredicateHints": json.dumps({"op": operator, "children": children})}

    over_four, is_three = compared("greaterThan", "4"), compared("equal", "3")
    odd = {"op": "odd", "children": []}
    assert told(predicateHints=["k > 4"]) == told(**tree("and", over_four)) == {5}
    assert told(predicateHints=["k > 2", "k < 5"]) == {3, 4}
    assert (
        told(predicateHints=["k > 4", "nothing that is known", 3])
        == told(**tree("and", over_four, odd))
        == {5}
    )
    assert told(**tree("or", over_four, is_three)) == {3, 4, 5}
    assert told(**tree("not", compared("lessThanOrEqual", "2"))) == {3, 4, 5}
    assert told(**tree("and", compared("equal", "2013-01-03", "date", "day"))) == {3, 4}
    assert told(**tree("and", compared("equal", "a' OR 'a' = 'a", "string", "name"))) == {
        1,
        2,
        3,
        4,
        5,
    }
    for unknown in (
        tree("or", over_four, odd),
        tree("not", odd),
        tree("not", {"op": "and", "children": [over_four, odd]}),
    ):
        assert told(**unknown) == {1, 2, 3, 4, 5}
    for text in (
        "",
        "[",
        "3",
        "null",
        '{"op": {}}',
        "[" * 90_000,
        '{"op":"not","children":[' * 900 + "]}" * 900,
    ):
        assert told(jsonPredicateHints=text) == {1, 2, 3, 4, 5}
    # The first file may hold none that is kept
    assert told(predicateHints=["k > 2"], limitHint=1) == {3, 4, 5}


def test_the_form_of_delta_has_actions_of_a_log(shared: Sharing) -> None:
    protocol, metadata, *found = shared.lines("POST", f"{TABLE}/query", {}, **DELTA)
    assert protocol["protocol"]["deltaProtocol"] == {"minReaderVersion": 1, "minWriterVersion": 4}
    assert json.loads(metadata["metaData"]["deltaMetadata"]["schemaString"]) == SCHEMA
    adds = [line["file"]["deltaSingleAction"]["add"] for line in found]
    assert sum((rows_of(add["path"]) for add in adds), Rows()) == rows(1, 2, 5)
    both = {"delta-sharing-capabilities": "responseformat=delta,parquet"}
    assert (
        shared.get(f"{TABLE}/metadata", **both).headers["delta-sharing-capabilities"]
        == "responseformat=parquet"
    )
    assert (
        shared.get(f"{TABLE}/metadata", **DELTA).headers["delta-sharing-capabilities"]
        == "responseformat=delta"
    )


def test_changes_lead_from_version_to_version(shared: Sharing) -> None:
    late, corrected, withdrawn = rows(5), (rows(3, 4), rows(3, 9)), rows(3, 9)
    assert shared.changes("startingVersion=2") == {
        ("add", 2): late,
        ("remove", 3): corrected[0],
        ("add", 3): corrected[1],
        ("remove", 4): withdrawn,
    }
    assert shared.changes("startingVersion=0&endingVersion=1") == {("add", 1): rows(1, 2, 3, 4)}
    assert shared.changes(f"startingTimestamp={at(60)}&endingTimestamp={at(61)}") == {
        ("add", 2): late
    }
    assert shared.changes("startingVersion=4&endingVersion=99") == {("remove", 4): withdrawn}


def test_changes_of_the_form_of_delta_begin_a_log(shared: Sharing) -> None:
    _, metadata, *found = shared.lines("GET", f"{TABLE}/changes?startingVersion=2", **DELTA)
    assert metadata["metaData"]["version"] == 2
    assert metadata["metaData"]["deltaMetadata"]["configuration"] == {
        "delta.enableChangeDataFeed": "true"
    }
    told = [(line["file"]["version"], *line["file"]["deltaSingleAction"]) for line in found]
    assert told == [(2, "add"), (3, "remove"), (3, "add"), (4, "remove")]


def test_a_version_is_found_by_time(shared: Sharing) -> None:
    asked = f"{TABLE}/version"
    assert shared.get(asked).headers["delta-table-version"] == "4"
    for seconds, version in ((0, "1"), (1, "2"), (60, "2"), (60.001, "3")):
        assert (
            shared.get(f"{asked}?startingTimestamp={at(seconds)}").headers["delta-table-version"]
            == version
        )


REFUSED: list[tuple[str, Any]] = [
    ("version?startingTimestamp=2099-01-01T00:00:00Z", None),
    ("version?startingTimestamp=yesterday", None),
    ("metadata?version=-1", None),
    ("changes", None),
    ("changes?startingVersion=5", None),
    ("changes?startingVersion=3&endingVersion=2", None),
    ("changes?startingVersion=1&startingTimestamp=2025-11-25T12:00:00Z", None),
    ("changes?startingVersion=%D9%A1", None),
    ("query", []),
    ("query", {"version": 1, "timestamp": "2025-11-25T12:00:00Z"}),
    ("query", {"version": True}),
    ("query", {"version": 1.5}),
    ("query", {"version": 2**63}),  # which no column of a database holds
    ("query", {"timestamp": 3}),
    ("query", {"timestamp": "2025-11-25"}),
    ("query", {"limitHint": -1}),
    ("query", {"startingVersion": 1}),
]


def test_what_cannot_be_asked_is_refused(shared: Sharing) -> None:
    for path, body in REFUSED:
        method = "GET" if body is None else "POST"
        assert shared.error(method, f"{TABLE}/{path}", body) == (400, "INVALID_PARAMETER_VALUE"), (
            path,
            body,
        )


def test_versions_that_never_were_are_not_found(shared: Sharing) -> None:
    assert shared.error("POST", f"{TABLE}/query", {"version": 99}) == (
        404,
        "RESOURCE_DOES_NOT_EXIST",
    )
    assert shared.error("GET", f"{TABLE}/query") == (405, "METHOD_NOT_ALLOWED")
    assert shared.error("DELETE", "/shares/sales") == (405, "METHOD_NOT_ALLOWED")


HOSTILE = (
    "",
    "/",
    "/shares/",
    "/shares/other",
    "/shares/sales/schemas/shop",
    "/shares/sales/schemas/other/tables",
    "/shares/sales/schemas/shop/tables/other/metadata",
    "/shares/sales/schemas/shop/tables/orders/rows",
    "/shares/..%2Fsales",
    "/shares/sales/schemas/shop/tables/..%2F..%2Forders/metadata",
    "/shares/%00",
    "/shares/%F0%9F%9B%A9%ED%A0%80",
    "/shares/" + "x" * 5_000,
    "/shares/sales%27%20OR%201=1",
)


def test_hostile_names_are_not_found(shared: Sharing) -> None:
    for path in HOSTILE:
        assert shared.error("GET", path) == (404, "RESOURCE_DOES_NOT_EXIST"), path
    assert names(shared.get("/shares")) == ["sales"]


def test_hostile_bodies_are_refused(shared: Sharing) -> None:
    for body in (b"[" * 100_000, b"\xff", b"{", b"null"):
        sent = {"Authorization": f"Bearer {shared.token}"}
        answer = httpx2.post(
            f"{shared.endpoint}{TABLE}/query", content=body, headers=sent, trust_env=False
        )
        assert (answer.status_code, answer.json()["errorCode"]) == (400, "INVALID_PARAMETER_VALUE")


def test_listings_are_paged(shared: Sharing) -> None:
    with shared.place.client() as client:
        for number in range(5):
            client.add_to_share("sales", ORDERS, alias=f"copies.t{number}")
        client.create_share("more")
    assert names(shared.get("/shares")) == ["sales"]
    for path, whole in (
        ("/shares/sales/schemas/copies/tables", [f"t{n}" for n in range(5)]),
        ("/shares/sales/all-tables", [*(f"t{n}" for n in range(5)), "orders"]),
        ("/shares/sales/schemas", ["copies", "shop"]),
    ):
        for size in (1, 2, 6):
            found, token = list[str](), ""
            while True:
                page = shared.get(f"{path}?maxResults={size}&pageToken={token}").json()
                assert len(page["items"]) <= size
                found += [item["name"] for item in page["items"]]
                token = page.get("nextPageToken", "")
                if not token:
                    break
            assert found == whole
    assert shared.get("/shares/sales/schemas?maxResults=0").json()["items"] == []
    for bad in ("maxResults=x", "pageToken=%C3%BC", "pageToken=a"):
        assert shared.error("GET", f"/shares?{bad}") == (400, "INVALID_PARAMETER_VALUE")


def test_many_partitions_are_told_page_by_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(version_files, "BATCH", 2)
    world = RecordWorld(tmp_path)
    world.commit(partitions([1], [2], [3], [4], [5]))
    world.commit(partitions([1], [6], [7], [8]))
    with sharing(world) as shared:
        assert shared.query() == rows(1, 6, 7, 8)
        assert shared.query(version=1) == rows(1, 2, 3, 4, 5)
        assert len(shared.lines("POST", f"{TABLE}/query", {"version": 1, "limitHint": 3})) == 2 + 3
        assert shared.changes("startingVersion=2") == {
            ("remove", 2): rows(2, 3, 4, 5),
            ("add", 2): rows(6, 7, 8),
        }


def test_without_its_history_a_table_has_its_newest_version_alone(tmp_path: Path) -> None:
    world = RecordWorld(tmp_path)
    world.commit(partitions([1]))
    world.commit(partitions([1], [2]))
    with sharing(world, history=False) as shared:
        assert shared.query() == shared.query(version=2) == rows(1, 2)
        assert shared.get(f"{TABLE}/version").headers["delta-table-version"] == "2"
        for method, path, body in (
            ("POST", "query", {"version": 1}),
            ("POST", "query", {"timestamp": at(0)}),
            ("GET", "changes?startingVersion=1", None),
            ("GET", f"version?startingTimestamp={at(0)}", None),
            ("GET", "metadata?version=1", None),
        ):
            assert shared.error(method, f"{TABLE}/{path}", body) == (400, "INVALID_PARAMETER_VALUE")


def test_versions_that_are_not_kept_any_more_are_said_so(shared: Sharing) -> None:
    with shared.world.store.begin() as tx:
        assert tx.upkeep.drop_states([Expired("main", ORDERS, 2, 99, shared.world.now + 1)]) == 2
    assert (
        "oldest that is kept is generation 3"
        in shared.send("POST", f"{TABLE}/query", {"version": 2}).json()["message"]
    )
    answer = shared.get(f"{TABLE}/changes?startingVersion=2")
    assert (answer.status_code, answer.json()["message"]) == (
        400,
        "version 2 is not kept any more; start with version 4 or later",
    )
    assert shared.error("GET", f"{TABLE}/changes?startingVersion=3") == (
        400,
        "INVALID_PARAMETER_VALUE",
    )
    assert shared.changes("startingVersion=4") == {("remove", 4): rows(3, 9)}


def test_columns_that_were_of_another_type_have_no_changes(tmp_path: Path) -> None:
    world = RecordWorld(tmp_path)
    world.commit({"a": [{"k": 1, "v": 1}]}, schema=struct(k="long", v="integer"))
    world.commit({"a": [{"k": 1, "v": "x"}]}, schema=struct(k="long", v="string"))
    world.commit({"a": [{"k": 1, "v": "x", "w": 2}]}, schema=struct(k="long", v="string", w="long"))
    with sharing(world) as shared:
        answer = shared.get(f"{TABLE}/changes?startingVersion=2")
        assert (
            "column v was int in version 1 and is string in version 3"
            in answer.json()["message"].lower()
        )
        assert len(shared.lines("GET", f"{TABLE}/changes?startingVersion=3")) == 2 + 2


def test_times_without_a_zone_need_the_form_of_delta(tmp_path: Path) -> None:
    world = RecordWorld(tmp_path)
    world.commit({"a": [{"k": 1, "t": None}]}, schema=struct(k="long", t="timestamp_ntz"))
    with sharing(world) as shared:
        both = {
            "delta-sharing-capabilities": "responseformat=delta,parquet;readerfeatures=timestampntz"
        }
        (protocol, *_) = shared.lines("POST", f"{TABLE}/query", {}, **both)
        assert protocol["protocol"]["deltaProtocol"]["readerFeatures"] == ["timestampNtz"]
        less = {"delta-sharing-capabilities": "responseformat=delta"}
        assert shared.send("POST", f"{TABLE}/query", {}, **less).status_code == 400
        assert "protocol" in shared.lines("POST", f"{TABLE}/query", {})[0]


def test_a_branch_is_shared_by_its_name(shared: Sharing) -> None:
    with shared.place.client() as client:
        client.create_branch("dev")
        client.add_to_share("sales", ORDERS, alias="dev.orders", branch="dev")
    assert shared.query("/shares/sales/schemas/dev/tables/orders") == rows(1, 2, 5)
    with shared.place.client() as client:
        client.delete_branch("dev")
    dead = "/shares/sales/schemas/dev/tables/orders/metadata"
    assert shared.error("GET", dead) == (404, "RESOURCE_DOES_NOT_EXIST")


def test_each_partition_of_odd_key_is_read(tmp_path: Path) -> None:
    world = RecordWorld(tmp_path)
    world.commit(
        {"a=1/b=ü": [order(1)], "": [order(2)], "x y%2F": [order(3)], "day=2025-01-01": [order(4)]}
    )
    with sharing(world) as shared:
        assert shared.query() == rows(1, 2, 3, 4)


def test_a_roll_up_is_no_change(tmp_path: Path) -> None:
    """Slices and the span of them have the same rows in other files."""
    world = RecordWorld(tmp_path)
    first, second = (world.fragment([order(k)]) for k in (1, 2))
    world.commit({"000000000001": first, "000000000002": second})
    content = first.content.plus(second.content)
    span = replace(world.fragment([order(1), order(2)]), content=content)
    world.commit({"000000000001-000000000002": span, "000000000003": [order(3)]})
    with sharing(world) as shared:
        assert shared.changes("startingVersion=2") == {("add", 2): rows(3)}
        assert shared.query() == rows(1, 2, 3)
