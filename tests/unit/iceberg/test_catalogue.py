"""The catalogue of Iceberg, against committed states."""

from __future__ import annotations

import io
import json
from base64 import b32encode, urlsafe_b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import date
from pathlib import Path
from threading import Event
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest
from obstore.exceptions import BaseError

from controlplane.core.iceberg import iceberg_schema, scan_filter
from controlplane.core.model.branches import Branch
from controlplane.core.records import pruning
from controlplane.core.rights import TokenScope
from controlplane.core.scopes import Scope
from controlplane.operations.desired import blueprints, tokens, vended_keys
from controlplane.operations.planning.snapshot import desired
from controlplane.services.iceberg import scan_plans
from controlplane.services.s3 import iceberg_files
from controlplane.services.s3.made_bodies import MadeBodies
from tests.unit.iceberg.world import TABLE, Catalogue, Files, catalogue, ids_of, mapping_of
from tests.unit.lake.tables import struct
from tests.unit.records.conftest import order
from tests.unit.records.world import NOON, RecordWorld


def days(*keys: int) -> dict[str, list[Any]]:
    return {f"day=2013-01-{key:02}": [order(key)] for key in keys}


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[Catalogue]:
    """Orders in two generations, the second with a late file; and another dataset."""
    world = RecordWorld(tmp_path)
    world.commit(days(1, 3))
    world.now += 60
    world.commit(days(1, 2, 3))
    world.commit({"": [{"k": 1}]}, "shop.other", schema=struct(k="long"))
    with catalogue(world) as found:
        yield found


def test_names_are_listed_level_by_level(orders: Catalogue) -> None:
    config = orders.get("config?warehouse=main")
    assert config["overrides"] == {"prefix": "main"}
    assert "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/plan" in config["endpoints"]
    assert orders.get("config")["overrides"] == {"prefix": "main"}
    assert orders.get("main/namespaces")["namespaces"] == [["shop"]]
    assert orders.get("main/namespaces?parent=shop")["namespaces"] == []
    assert orders.get("main/namespaces/shop")["namespace"] == ["shop"]
    tables = orders.get("main/namespaces/shop/tables")["identifiers"]
    assert [table["name"] for table in tables] == ["orders", "other"]
    page = orders.get("main/namespaces/shop/tables?pageToken=&pageSize=1")
    assert [table["name"] for table in page["identifiers"]] == ["orders"]
    last = orders.get(f"main/namespaces/shop/tables?pageToken={page['next-page-token']}&pageSize=1")
    assert [table["name"] for table in last["identifiers"]] == ["other"]
    assert last["next-page-token"] is None
    assert orders.send("HEAD", TABLE).status_code == 204
    assert orders.send("HEAD", "main/namespaces/shop").status_code == 204


def test_what_is_not_there_is_404_in_the_protocols_words(orders: Catalogue) -> None:
    no_namespace, no_table = (404, "NoSuchNamespaceException"), (404, "NoSuchTableException")
    assert orders.error("GET", "config?warehouse=nobody") == no_namespace
    assert orders.error("GET", "config?warehouse=a/b") == no_namespace
    assert orders.error("GET", "config?warehouse=main@20991124T070000Z") == no_namespace
    assert orders.error("GET", "main/namespaces/nobody/tables") == no_namespace
    assert orders.error("GET", "main/namespaces?parent=nobody") == no_namespace
    for table in ("nobody", "orders@9", "orders@x"):
        assert orders.error("GET", f"main/namespaces/shop/tables/{table}") == no_table
    assert orders.error("GET", "main/views")[0] == 404
    assert orders.send("HEAD", "main/namespaces/shop/tables/nobody").status_code == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_writes_are_refused(orders: Catalogue, method: str) -> None:
    for path in ("main/namespaces", "main/namespaces/shop/tables", TABLE, "oauth/tokens"):
        assert orders.error(method, path, {}) == (405, "UnsupportedOperationException")


def test_snapshots_are_generations_with_their_files(orders: Catalogue) -> None:
    table = orders.get(TABLE)
    metadata = table["metadata"]
    assert metadata["location"] == "s3://default/main/shop/orders"
    assert metadata["current-snapshot-id"] == 2
    first, second = metadata["snapshots"]
    assert (first["snapshot-id"], second["snapshot-id"]) == (1, 2)
    assert second["parent-snapshot-id"] == 1
    assert first["timestamp-ms"] == NOON * 1000 == second["timestamp-ms"] - 60_000
    files = Files(table["config"])
    for snapshot, keys in ((first, [1, 3]), (second, [1, 2, 3])):
        entries = files.entries(snapshot["manifest-list"])
        rows = [
            row
            for entry in entries
            for row in pq.read_table(
                io.BytesIO(files.body(entry["data_file"]["file_path"]))
            ).to_pylist()
        ]
        assert rows == [order(key) for key in keys]
        for entry in entries:
            size = len(files.body(entry["data_file"]["file_path"]))
            assert entry["data_file"]["file_size_in_bytes"] == size
    assert json.loads(files.body(table["metadata-location"])) == metadata
    only = orders.get(f"{TABLE}?snapshots=refs")["metadata"]["snapshots"]
    assert [snapshot["snapshot-id"] for snapshot in only] == [2]


def test_bounds_and_counts_are_those_that_were_noted(orders: Catalogue) -> None:
    table = orders.get(TABLE)
    metadata = table["metadata"]
    ids = ids_of(metadata["schemas"][0])
    entry = Files(table["config"]).entries(metadata["snapshots"][-1]["manifest-list"])[1]
    lows = {pair["key"]: pair["value"] for pair in entry["data_file"]["lower_bounds"]}
    assert lows[ids["k"]] == (2).to_bytes(8, "little")
    assert lows[ids["name"]] == b"a"
    assert lows[ids["price"]] == (110).to_bytes(1, "big")
    assert int.from_bytes(lows[ids["day"]], "little") == 15_707  # 2013-01-02
    assert int.from_bytes(lows[ids["at"]], "little") == 1_357_128_000 * 10**6
    nulls = {pair["key"]: pair["value"] for pair in entry["data_file"]["null_value_counts"]}
    assert set(nulls.values()) == {0}
    assert set(nulls) == set(ids.values())


def test_a_generation_a_time_and_a_branch_are_tables(orders: Catalogue) -> None:
    with orders.world.store.begin() as tx:
        tx.branches.create(Branch(name="dev", source="main", at=tx.now(), actor="ann"))
    orders.world.commit(days(9), branch="dev")
    expected = {
        "main/namespaces/shop/tables/orders": 3,
        "main/namespaces/shop/tables/orders@1": 2,
        "main@20251125T120030Z/namespaces/shop/tables/orders": 2,
        "dev/namespaces/shop/tables/orders": 1,
    }
    uuids = set()
    for path, files in expected.items():
        table = orders.get(path)
        uuids.add(table["metadata"]["table-uuid"])
        snapshot = table["metadata"]["snapshots"][-1]
        found = Files(table["config"]).entries(snapshot["manifest-list"])
        assert len(found) == files, path
        planned = orders.post(f"{path}/plan", {})["file-scan-tasks"]
        assert [task["data-file"]["file-path"] for task in planned] == [
            entry["data_file"]["file_path"] for entry in found
        ]
    assert len(uuids) == 2  # main's, and that of the branch


def test_a_commit_changes_no_manifest_of_other_leaves(orders: Catalogue) -> None:
    """Bytes are equal when they are made again, in another process as well."""
    table = orders.get(TABLE)
    (url,) = [s["manifest-list"] for s in table["metadata"]["snapshots"][-1:]]
    before = Files(table["config"]).body(url)
    with catalogue(orders.world) as other:
        config = other.get(TABLE)["config"]
        assert Files(config).body(url) == before
    assert fastavro.reader(io.BytesIO(before)).metadata["format-version"] == "2"


def test_a_repaired_fragment_has_its_new_files(tmp_path: Path) -> None:
    """It keeps its id, so the tree stays as it was."""
    world = RecordWorld(tmp_path)
    rows = [order(1), order(2)]
    before = world.fragment(rows)
    world.commit({"a": before})
    with catalogue(world) as place:
        table = place.get(TABLE)
        files, url = Files(table["config"]), table["metadata"]["snapshots"][-1]["manifest-list"]
        assert [entry["data_file"]["record_count"] for entry in files.entries(url)] == [2]
        (earlier,) = files.records(url)
        with world.store.begin() as tx:
            tx.traces.condemn([before.id])
        repaired = world.fragment(rows, files=2)
        assert repaired.id == before.id
        world.commit({"a": repaired})
        for snapshot in place.get(TABLE)["metadata"]["snapshots"]:
            entries = files.entries(snapshot["manifest-list"])
            assert [entry["data_file"]["record_count"] for entry in entries] == [1, 1]
        with pytest.raises(FileNotFoundError):
            files.body(earlier["manifest_path"])  # and no body of another length


# --- schemas


def test_two_columns_of_one_id_are_in_no_mapping_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes of their names are equal."""
    monkeypatch.setattr(iceberg_schema, "_hashed", lambda path, family: 7)
    of = iceberg_schema.iceberg_schema
    a, b = of(struct(a="long")), of(struct(b="long"))
    assert not iceberg_schema.agree(b, a.ids)
    assert iceberg_schema.agree(a, a.ids)
    both = {("a",): 7, ("b",): 8}
    assert of(struct(a="long", b="long")).ids == of(struct(b="long", a="long")).ids == both


def test_ids_follow_names_and_families_of_types(orders: Catalogue) -> None:
    """A column that comes back has its id; one of another family has another."""
    world = orders.world

    def commit(**columns: Any) -> Any:
        row = {name: "1" if kind == "string" else 1 for name, kind in columns.items()}
        world.commit({"": [row]}, "shop.moves", schema=struct(**columns))
        return orders.get("main/namespaces/shop/tables/moves")["metadata"]

    first = ids_of(commit(a="integer", b="string")["schemas"][-1])
    renamed = commit(b="string", c="integer")
    both = ids_of(renamed["schemas"][-1])
    assert both["b"] == first["b"]
    assert both["c"] not in first.values()
    assert mapping_of(renamed) == {**first, **both}
    assert ids_of(commit(b="string", a="long")["schemas"][-1]) == first  # and it grew
    retyped = commit(b="string", a="string")
    assert ids_of(retyped["schemas"][-1])["a"] != first["a"]
    # One mapping of names reads no generation in which `a` is another column
    assert [snapshot["snapshot-id"] for snapshot in retyped["snapshots"]] == [4]
    earlier = orders.get("main/namespaces/shop/tables/moves@3")["metadata"]
    assert mapping_of(earlier) == {**first, **both}
    assert [snapshot["snapshot-id"] for snapshot in earlier["snapshots"]] == [1, 2, 3]


def test_columns_that_iceberg_cannot_hold_are_named(orders: Catalogue) -> None:
    schema = struct(k="long", nothing="void")
    orders.world.commit({"": [{"k": 1, "nothing": None}]}, "shop.odd", schema=schema)
    metadata = orders.get("main/namespaces/shop/tables/odd")["metadata"]
    assert list(ids_of(metadata["schemas"][0])) == ["k"]
    assert json.loads(metadata["properties"]["headgate.left-out-columns"]) == {"nothing": "void"}


# --- rights


def test_tokens_read_no_more_than_elsewhere(orders: Catalogue) -> None:
    ctx = orders.world.ctx
    narrow, _ = tokens.create(ctx, "bob", ("data",), within=TokenScope(datasets=("shop.other",)))
    viewer, _ = tokens.create(ctx, "eve", ("view",))
    assert orders.get("main/namespaces", narrow)["namespaces"] == [["shop"]]
    listed = orders.get("main/namespaces/shop/tables", narrow)["identifiers"]
    assert [table["name"] for table in listed] == ["other"]
    orders.get("main/namespaces/shop/tables/other", narrow)
    forbidden = (403, "ForbiddenException")
    for path in (TABLE, "main/namespaces/shop/tables/nobody", f"{TABLE}/credentials"):
        assert orders.error("GET", path, token=narrow) == forbidden
    assert orders.error("POST", f"{TABLE}/plan", {}, token=narrow) == forbidden
    assert orders.error("GET", "config", token=viewer) == forbidden
    for token in ("", "hg_wrong"):
        assert orders.error("GET", "config", token=token or "x")[0] == 401


def test_the_key_of_a_table_reads_this_table_and_ends(orders: Catalogue) -> None:
    text, token = tokens.create(orders.world.ctx, "bob", ("data",))
    table = orders.get(TABLE, text)
    url = table["metadata"]["snapshots"][-1]["manifest-list"]
    files = Files(table["config"])
    assert files.body(url)
    other = orders.get("main/namespaces/shop/tables/other", text)["metadata"]
    other_url = other["snapshots"][-1]["manifest-list"]
    with pytest.raises(BaseError, match="403"):
        files.body(other_url)
    (stored,) = orders.get(f"{TABLE}/credentials", text)["storage-credentials"]
    assert stored["prefix"] == "s3://default/main/shop/orders/"
    assert Files(stored["config"]).body(url)
    forged = {**table["config"], "s3.access-key-id": table["config"]["s3.access-key-id"] + "a"}
    with pytest.raises(BaseError, match="403"):
        Files(forged).body(url)
    for text in ('["a",Infinity,"main"]', '["\\ud800",9999999999,"main"]', '[1,9999999999,"main"]'):
        key = vended_keys.PREFIX + b32encode(text.encode()).decode().rstrip("=").lower()
        with pytest.raises(BaseError, match="403"):
            Files({**table["config"], "s3.access-key-id": key}).body(url)
    tokens.revoke(orders.world.ctx, token.id)
    with pytest.raises(BaseError, match="403"):
        files.body(url)


def test_a_key_ends_after_its_hours(orders: Catalogue) -> None:
    _, token = tokens.create(orders.world.ctx, "bob", ("data",))
    key = vended_keys.access_key(token, Scope("main"), orders.world.now + 10)
    assert vended_keys.find(orders.world.store, key) is not None
    orders.world.now += 11
    assert vended_keys.find(orders.world.store, key) is None


# --- plans


def compared(operator: str, column: str, constant: Any) -> dict[str, Any]:
    return {"type": operator, "term": column, "value": constant}


def names(files: list[dict[str, Any]]) -> list[int]:
    return [int(file["file-path"].split("day@2013-01-")[1][:2]) for file in files]


def test_plans_leave_out_files_without_such_rows(orders: Catalogue) -> None:
    assert names(orders.planned()) == [1, 2, 3]
    assert names(orders.planned(**{"snapshot-id": 1})) == [1, 3]
    over_one, is_day = compared("gt", "k", 1), compared("eq", "day", "2013-01-03")
    assert names(orders.planned(over_one)) == [2, 3]
    assert names(orders.planned({"type": "not", "child": over_one})) == [1]
    assert names(orders.planned({"type": "and", "left": over_one, "right": is_day})) == [3]
    assert names(orders.planned({"type": "in", "term": "k", "values": [1, 2]})) == [1, 2]
    assert names(orders.planned({"type": "is-null", "term": "k"})) == []
    assert names(orders.planned({"type": "not-null", "term": "k"})) == [1, 2, 3]
    assert names(orders.planned(compared("lt", "price", "1.00"))) == []
    assert names(orders.planned(compared("gt-eq", "at", "2013-01-02T12:00:00+00:00"))) == [2, 3]
    assert names(orders.planned({"type": "starts-with", "term": "name", "value": "b"})) == []


def test_a_filter_that_is_not_understood_leaves_out_nothing(orders: Catalogue) -> None:
    odd = {"type": "odd", "term": "k", "value": 9}
    nan = {"type": "not-nan", "term": "k"}
    transform = {"type": "eq", "term": {"type": "transform", "transform": "day"}, "value": 1}
    for filter in (odd, nan, transform, compared("eq", "k", "x"), compared("eq", "no", 1), 7, True):
        assert names(orders.planned(filter)) == [1, 2, 3], filter
        assert names(orders.planned({"type": "not", "child": filter})) == [1, 2, 3], filter


def test_plans_go_on_page_by_page(orders: Catalogue, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_plans, "BATCH", 1)
    monkeypatch.setattr(scan_plans, "MOST_READ", 1)
    assert len(orders.post(f"{TABLE}/plan", {})["file-scan-tasks"]) == 1
    assert names(orders.planned()) == [1, 2, 3]
    assert names(orders.planned(compared("gt", "k", 2))) == [3]


def test_requests_for_plans_are_checked(orders: Catalogue) -> None:
    bad = (400, "BadRequestException")
    assert orders.error("POST", f"{TABLE}/plan", []) == bad
    assert orders.error("POST", f"{TABLE}/plan", {"snapshot-id": 9}) == bad
    assert orders.error("POST", f"{TABLE}/plan", {"start-snapshot-id": 1}) == bad
    assert orders.error("POST", f"{TABLE}/plan", {"filter": "x" * 20_000}) == bad
    gone = (404, "NoSuchPlanTaskException")
    for task in (None, "", "x", "W10="):
        assert orders.error("POST", f"{TABLE}/tasks", {"plan-task": task}) == gone
    root = "00" * 32
    for text in (
        f'[Infinity,"{root}",null,""]',
        f'[2.7,"{root}",null,""]',
        f'[true,"{root}",null,""]',
        f'[2,"{root}",null,"\\ud800"]',
        f'[2,"{root}",null,1]',
        '[2,"",null,""]',
    ):
        assert orders.error("POST", f"{TABLE}/tasks", {"plan-task": token_of(text)}) == gone, text
    for filter in (f'"{"x" * 20_000}"', "NaN", '"\\ud800"'):
        task = token_of(f'[2,"{root}",{filter},""]')
        assert orders.error("POST", f"{TABLE}/tasks", {"plan-task": task}) == bad


def token_of(text: str) -> str:
    return urlsafe_b64encode(text.encode()).decode()


def test_null_is_not_equal_to_a_value(orders: Catalogue) -> None:
    """Where Iceberg says so: SQL does not."""
    rows: dict[str, list[Any]] = {"a": [{"k": 1}, {"k": None}], "b": [{"k": 1}], "c": [{"k": 2}]}
    orders.world.commit(rows, "shop.nulls", schema=struct(k="long"))
    is_one = compared("eq", "k", 1)
    either = {"type": "or", "left": is_one, "right": compared("gt", "k", 5)}
    expected = {
        json.dumps(filter): keys
        for filter, keys in (
            (compared("not-eq", "k", 1), ["a", "c"]),
            ({"type": "not", "child": is_one}, ["a", "c"]),
            ({"type": "not", "child": {"type": "not", "child": is_one}}, ["a", "b"]),
            ({"type": "not", "child": either}, ["a", "c"]),
            ({"type": "not", "child": {"type": "in", "term": "k", "values": [1]}}, [*"abc"]),
        )
    }
    for filter, keys in expected.items():
        page = orders.post("main/namespaces/shop/tables/nulls/plan", {"filter": json.loads(filter)})
        paths = [task["data-file"]["file-path"] for task in page["file-scan-tasks"]]
        assert [path.split("nulls/")[1][0] for path in paths] == keys, filter


def test_a_long_filter_ends_a_page_early(
    orders: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By comparisons, and by bytes of an answer: each task has the filter."""
    values = {"type": "in", "term": "k", "values": [2, *range(100, 199)]}
    monkeypatch.setattr(scan_plans, "MOST_WORK", 150)
    page = orders.post(f"{TABLE}/plan", {"filter": values})
    assert len(page["plan-tasks"]) == 1
    assert names(orders.planned(values)) == [2]
    monkeypatch.undo()
    monkeypatch.setattr(scan_plans, "MOST_BYTES", 10_000)
    page = orders.post(f"{TABLE}/plan", {"filter": {"type": "odd", "pad": "x" * 9_000}})
    assert len(page["file-scan-tasks"]) == 2
    assert len(page["plan-tasks"]) == 1


def test_of_many_values_the_ends_are_compared(orders: Catalogue) -> None:
    schema = struct(k="long", day="date")
    many = {"type": "in", "term": "k", "values": [1000, *range(300)]}
    condition = scan_filter.condition_of(many, schema)
    assert pruning.comparisons(condition) <= 3
    assert names(orders.planned({**many, "values": [*range(3, 1000)]})) == [3]
    assert names(orders.planned({**many, "values": [*range(10, 1000)]})) == []


def test_too_many_partitions_have_plans_and_no_manifests(
    orders: Catalogue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(iceberg_files, "MOST_PARTITIONS", 2)
    table = orders.get(TABLE)
    with pytest.raises(BaseError, match="scan-planning-mode"):
        Files(table["config"]).body(table["metadata"]["snapshots"][-1]["manifest-list"])
    assert names(orders.planned()) == [1, 2, 3]


def test_a_file_is_made_by_one_thread_for_all_that_request_it() -> None:
    bodies, is_second_maker, makers = MadeBodies(100), Event(), []

    def make() -> tuple[bytes]:
        makers.append(1)
        if len(makers) > 1:
            is_second_maker.set()
        is_second_maker.wait(0.3)  # of a right cache it never comes
        return (b"x",)

    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(bodies.get, "key", make) for _ in range(2)]
    assert [answer.result() for answer in answers] == [(b"x",), (b"x",)]
    assert len(makers) == 1


def test_an_empty_table_has_no_manifests(orders: Catalogue) -> None:
    orders.world.commit({}, "shop.empty", schema=struct(k="long"))
    table = orders.get("main/namespaces/shop/tables/empty")
    url = table["metadata"]["snapshots"][-1]["manifest-list"]
    assert Files(table["config"]).records(url) == []
    assert orders.post("main/namespaces/shop/tables/empty/plan", {})["file-scan-tasks"] == []


# --- cost


def test_a_page_costs_as_much_however_many_partitions_there_are(tmp_path: Path) -> None:
    """Most statements read nodes of the tree and files, in batches; counted, not timed."""
    world = RecordWorld(tmp_path)
    fragment = world.fragment([order(1)])
    costs = []
    for number in (5_000, 50_000):
        world.commit({f"n={n:05}": fragment for n in range(number)})
        with catalogue(world) as place:
            place.get("config")
            before = world.store.statements
            page = place.post(f"{TABLE}/plan", {"filter": compared("eq", "k", 1)})
            costs.append(world.store.statements - before)
        assert len(page["file-scan-tasks"]) == 1_000
        assert len(page["plan-tasks"]) == 1
    assert costs[1] <= costs[0] + 2, costs  # one more level of the tree
    assert costs[0] < 40


KEYED_BLUEPRINT = """
dataflow: shop
components:
  raw: {read: {connector: files, path: /data/*.csv, format: csv, schema: "k BIGINT, day DATE"}}
  daily: {transform: {sql: 'SELECT * FROM raw', partition_by: [day, k]}}
"""


def test_a_filter_on_a_key_costs_as_much_however_many_other_partitions_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here files have no statistics, and a page looks at fewer keys than the table has. A page that
    may leave out few nodes goes on key by key, and loses no file."""
    world, schema = RecordWorld(tmp_path), struct(k="long", day="date")
    blueprints.apply(
        world.ctx, "main", [blueprints.SentBlueprint("/shop.yaml", KEYED_BLUEPRINT, {})]
    )
    with world.store.read() as tx:
        node = desired(tx, "main").nodes["shop.daily"]
    assert node.is_transform
    fragment = world.fragment([{"k": 1, "day": date(2013, 1, 1)}], schema)
    unmeasured = replace(fragment, files=tuple({**f, "stats": {}} for f in fragment.files))
    is_day = compared("eq", "day", "2013-01-02")
    is_key = {"type": "in", "term": "k", "values": [7, 4242]}
    filter = {"type": "and", "left": is_day, "right": is_key}
    table, costs = TABLE.replace("orders", "daily"), []
    for days_of_table in (2, 6):
        days_of_keys = [f"day=2013-01-{day:02}" for day in range(1, days_of_table + 1)]
        keys = [f"{day}/k={k}" for day in days_of_keys for k in range(5_000)]
        world.commit(dict.fromkeys(keys, unmeasured), "shop.daily", schema, logic=node.logic)
        with catalogue(world) as place:
            place.get("config")
            before = world.store.statements
            page = place.post(f"{table}/plan", {"filter": filter})
            costs.append(world.store.statements - before)
        assert len(page["file-scan-tasks"]) == 2
        assert page["plan-tasks"] == []
    assert costs[1] <= costs[0] + 2, costs  # one more level of the tree
    assert costs[0] < 20
    monkeypatch.setattr(scan_plans, "MOST_RANGES", 1)
    with catalogue(world) as place:
        assert len(place.planned_of(table, filter)) == 2
        assert place.planned_of(table, compared("eq", "day", "2014-01-01")) == []
