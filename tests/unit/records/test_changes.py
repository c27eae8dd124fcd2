"""Changes of rows between generations: exactly what turns the one into the other, read from what
differs alone."""

from __future__ import annotations

import gzip
import io
import json
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx2
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from controlplane.core import tree
from controlplane.core.errors import NotCompared
from controlplane.core.model.retention import Expired
from controlplane.ports.records import Rendering, RequestedChanges
from controlplane.services.queries.adapter.change_renderer import ChangeRenderer
from dataplane.contract.schemas import column_names
from dataplane.fragments.file_changes import FileChangesRequest, write
from tests.unit.lake.tables import struct
from tests.unit.records.conftest import order
from tests.unit.records.world import ORDERS, SCHEMA, RecordWorld, Row, Served

pytestmark = pytest.mark.unit
CHANGES = "/v1/branches/main/datasets/shop.orders/changes"
SCHEMA_NAMES = column_names(SCHEMA)


def told(answer: httpx2.Response) -> list[tuple[str, int, str | None]]:
    assert answer.status_code == 200, answer.text
    rows = [json.loads(line) for line in answer.text.splitlines()]
    return [(row["_change_type"], row["k"], row["name"]) for row in rows]


def opened(world: RecordWorld) -> tuple[list[str], list[str]]:
    asked = world.changed[-1]
    return [Path(p).name for p in asked.before], [Path(p).name for p in asked.after]


def test_rows_that_were_added_removed_and_changed(place: Served) -> None:
    world = place.world
    # b.csv was withdrawn
    world.commit(
        {
            "a.csv": world.fragment([order(1), order(2, "changed")]),  # one row changed
            "c.csv": [order(5, "", "9.99")],  # as it was, in another file
            "d.csv": [order(6), order(6)],  # late
        }
    )
    with place.http() as http:
        answer = http.get(f"{CHANGES}.ndjson", params={"since": 1})
        again = http.get(f"{CHANGES}.ndjson", params={"since": 2})
        follows = http.get(answer.links["next"]["url"])
    assert told(answer) == [
        ("delete", 2, '=1+1, "x"'),
        ("delete", 3, None),
        ("delete", 4, "ü"),
        ("insert", 2, "changed"),
        ("insert", 6, "a"),
        ("insert", 6, "a"),
    ]
    assert {json.loads(line)["_generation"] for line in answer.text.splitlines()} == {2}
    assert (answer.headers["x-since"], answer.headers["x-generation"]) == ("1", "2")
    assert opened(world) == ([], [])  # of the last answer
    assert ([Path(p).name for p in world.changed[0].before], len(world.changed[0].after)) == (
        ["1-0.parquet", "2-0.parquet"],
        2,
    )
    assert told(again) == told(follows) == []


def test_from_nothing_all_rows_are_added_in_the_order_of_keys(place: Served) -> None:
    with place.http() as http:
        answer = http.get(f"{CHANGES}.csv", params={"since": 0})
        parquet = http.get(f"{CHANGES}.parquet", params={"since": 0, "compression": "gzip"})
        arrow = http.get(f"{CHANGES}.arrow", params={"since": 0})
    lines = answer.text.splitlines()
    assert lines[0] == '"k","name","price","day","at","_change_type","_generation"'
    assert lines[1] == '1,"a",1.10,2013-01-01,"2013-01-01T12:00:00.000000Z","insert",1'
    assert len(lines) == 6
    for table in (
        pq.read_table(io.BytesIO(parquet.content)),
        pa.ipc.open_stream(arrow.content).read_all(),
    ):
        assert table["k"].to_pylist() == [1, 2, 3, 4, 5]
        assert set(table["_change_type"].to_pylist()) == {"insert"}


def test_rows_that_moved_are_no_changes(place: Served) -> None:
    world = place.world
    with world.store.read() as tx:
        state = tx.states.newest("main", [ORDERS])[ORDERS]
        fragments = {
            e.key: tx.traces.fragments([e.fragment])[e.fragment]
            for e in tree.scan(tx.nodes, state.root)
        }
    world.commit(
        {"z.csv": fragments["a.csv"], "b.csv": fragments["b.csv"], "c.csv": fragments["c.csv"]}
    )
    world.commit(
        {"z.csv": fragments["b.csv"], "b.csv": fragments["a.csv"], "c.csv": fragments["c.csv"]}
    )
    with place.http() as http:
        assert told(http.get(f"{CHANGES}.ndjson", params={"since": 2})) == []
        assert opened(world) == ([], [])  # two partitions have each other's rows
    world.commit(
        {
            "z.csv": [order(1)],
            "b.csv": [order(2, '=1+1, "x"', "2.50"), order(3, None), order(4, "ü")],
        }
    )
    with place.http() as http:
        assert told(http.get(f"{CHANGES}.ndjson", params={"since": 1, "until": 2})) == []
        assert opened(world) == ([], [])  # the partition moved as a whole
        assert told(http.get(f"{CHANGES}.ndjson", params={"since": 2})) == [("delete", 5, "")]
        assert told(http.get(f"{CHANGES}.ndjson", params={"since": 1})) == [("delete", 5, "")]


def test_a_copy_that_follows_is_the_dataset(place: Served) -> None:
    """Whatever generations a reader skips."""
    world = place.world
    world.commit({"a.csv": [order(1), order(1), order(8)], "b.csv": [order(3, None)]})
    world.commit(
        {"a.csv": [order(1)], "b.csv": [order(3, None), order(4)], "e.csv": [order(8), order(9)]}
    )
    copies = []
    with place.http() as http:
        for steps in ([0, 1, 2, 3], [0, 3], [0, 2, 3]):
            copy: Counter[str] = Counter()
            for since, until in pairwise(steps):
                for line in http.get(
                    f"{CHANGES}.ndjson", params={"since": since, "until": until}
                ).text.splitlines():
                    row = json.loads(line)
                    kind = row.pop("_change_type")
                    assert row.pop("_generation") == until
                    copy[json.dumps(row)] += 1 if kind == "insert" else -1
            copies.append(+copy)
        rows = http.get("/v1/branches/main/datasets/shop.orders/records.ndjson").text.splitlines()
    whole = Counter(json.dumps(json.loads(row)) for row in rows)
    assert copies == [whole] * 3


def test_unchanged_answers_and_headers_read_nothing(place: Served) -> None:
    place.world.commit({"a.csv": [order(1)]})
    with place.http() as http:
        head = http.head(f"{CHANGES}.csv", params={"since": 1})
        known = http.get(
            f"{CHANGES}.csv", params={"since": 1}, headers={"If-None-Match": head.headers["etag"]}
        )
    assert (head.status_code, known.status_code, known.headers["x-generation"]) == (200, 304, "2")
    assert place.world.changed == []


def test_columns_that_came_and_types_that_grew(place: Served) -> None:
    world = place.world
    old, new = struct(k="integer", name="string"), struct(k="long", name="string", more="double")
    world.commit({"a": [{"k": 1, "name": "x"}], "b": [{"k": 2, "name": "y"}]}, "shop.grown", old)
    world.commit(
        {"a": [{"k": 1, "name": "x"}], "b": [{"k": 2, "name": "y", "more": 1.5}]}, "shop.grown", new
    )
    world.commit({"a": [{"k": "1", "name": "x"}]}, "shop.grown", struct(k="string", name="string"))
    path = CHANGES.replace("orders", "grown")
    with place.http() as http:
        found = http.get(f"{path}.ndjson", params={"since": 1, "until": 2})
        refused = http.get(f"{path}.ndjson", params={"since": 2})
    rows = [json.loads(line) for line in found.text.splitlines()]
    assert [(r["_change_type"], r["k"], r["more"]) for r in rows] == [
        ("delete", 2, None),
        ("insert", 2, 1.5),
    ]
    assert (refused.status_code, refused.json()["type"]) == (422, "urn:headgate:not-compared")
    assert "was BIGINT in generation 2" in refused.json()["detail"]


def test_what_cannot_be_told(place: Served) -> None:
    world = place.world
    world.commit({"a": [{"_generation": 1}]}, "shop.odd", struct(_generation="long"))
    for k in (2, 3):
        world.commit({"a.csv": [order(k)]})
    with place.http() as http:
        odd = http.get(CHANGES.replace("orders", "odd") + ".ndjson", params={"since": 0}).json()
        swapped = http.get(f"{CHANGES}.ndjson", params={"since": 3, "until": 2}).json()
        unknown = http.get(f"{CHANGES}.ndjson", params={"since": 9})
        nothing = http.get(f"{CHANGES}.ndjson")
        bad = http.get(f"{CHANGES}.ndjson", params={"since": "x"}).json()
        assert http.get(f"{CHANGES}.json", params={"since": 1}).status_code == 422
    assert (odd["type"], "_generation" in odd["detail"]) == ("urn:headgate:not-compared", True)
    assert "swap" in swapped["detail"]
    assert (unknown.status_code, nothing.status_code) == (404, 422)
    assert bad["type"] == "urn:headgate:bad-address"


def test_a_generation_that_is_not_kept_is_gone_with_the_oldest_that_is(place: Served) -> None:
    world = place.world
    for k in (2, 3):
        world.commit({"a.csv": [order(k)]})
    with world.store.begin() as tx:
        tx.upkeep.drop_states([Expired("main", ORDERS, seq=1, generation=2, before=world.now + 1)])
    with place.http() as http:
        answer = http.get(f"{CHANGES}.ndjson", params={"since": 1})
    assert (answer.status_code, answer.json()["type"]) == (410, "urn:headgate:generation-gone")
    assert "generation 2" in answer.json()["detail"]


# --- a part of the rows

CHOSEN: list[tuple[str, str, Callable[[Any], bool]]] = [
    ("k", "k >= 3", lambda row: row["k"] >= 3),
    ("name,k", "name IS NOT NULL AND k < 6", lambda row: row["name"] is not None and row["k"] < 6),
    ("price", "name = 'changed' OR k = 5", lambda row: row["name"] == "changed" or row["k"] == 5),
    ("day", "NOT (price > 2)", lambda row: not Decimal(row["price"]) > 2),
    ("", "k > 100", lambda row: row["k"] > 100),
    ("name", "", lambda _: True),
]


def with_history(world: RecordWorld) -> None:
    """A late file, a corrected one, one of which a column alone is corrected, and one that is
    withdrawn."""
    a = [order(1), order(2, '=1+1, "x"', "2.50")]
    world.commit(
        {
            "a.csv": a,
            "b.csv": [order(3, None), order(4, "ü")],
            "c.csv": [order(5)],
            "d.csv": [order(6)] * 2,
        }
    )
    world.commit(
        {
            "a.csv": [order(1), order(2, "changed")],
            "b.csv": [order(3, "was NULL")],
            "c.csv": [order(5, "", "1.00")],
        }
    )
    world.commit(
        {
            "a.csv": [order(1), order(2, "changed", "8.00")],
            "c.csv": [order(5, "changed")],
            "d.csv": [order(6)],
        }
    )


def netted(lines: list[Any], columns: str, chosen: Callable[[Any], bool]) -> Counter[str]:
    """How often each row came (below zero: went), of those that are chosen, as these columns tell
    them apart."""
    found: Counter[str] = Counter()
    for row in filter(chosen, lines):
        names = columns.split(",") if columns else [n for n in row if not n.startswith("_")]
        sign = {"insert": 1, "delete": -1}[row.get("_change_type", "insert")]
        found[json.dumps({name: row[name] for name in names})] += sign
    return Counter({row: times for row, times in found.items() if times})


def lines_of(answer: httpx2.Response) -> list[Any]:
    assert answer.status_code == 200, answer.text
    return [json.loads(line) for line in answer.text.splitlines()]


@pytest.mark.parametrize(("columns", "where", "chosen"), CHOSEN)
def test_a_part_of_changes_is_that_part_of_the_whole_stream(
    place: Served, columns: str, where: str, chosen: Callable[[Any], bool]
) -> None:
    with_history(place.world)
    asked = {name: text for name, text in (("columns", columns), ("where", where)) if text}
    with place.http() as http:
        for since, until in [(0, 1), (1, 2), (2, 3), (3, 4), (1, 4), (2, 4), (0, 4)]:
            steps = {"since": str(since), "until": str(until)}
            whole = lines_of(http.get(f"{CHANGES}.ndjson", params=steps))
            part = lines_of(http.get(f"{CHANGES}.ndjson", params={**steps, **asked}))
            assert netted(part, columns, lambda _: True) == netted(whole, columns, chosen), (
                since,
                until,
            )
            # None goes and comes
            assert len(part) == sum(map(abs, netted(part, columns, lambda _: True).values()))
            told_of = [
                *(columns.split(",") if columns else SCHEMA_NAMES),
                "_change_type",
                "_generation",
            ]
            assert all(list(row) == told_of for row in part)


def test_a_copy_of_a_part_follows_by_the_link(place: Served) -> None:
    """With the columns and the condition of the first request."""
    world = place.world
    asked = {"columns": "name,k", "where": "k <> 4 AND price < 9"}
    copy: Counter[str] = Counter()
    with place.http() as http:
        answer = http.get(f"{CHANGES}.ndjson", params={"since": 0, **asked})
        copy.update(netted(lines_of(answer), "name,k", lambda _: True))
        for partitions in (
            [order(4), order(7)],
            [order(7, "b"), order(8, "b", "9.50")],
            [order(8, "b", "8.50")],
        ):
            world.commit({"z.csv": partitions})
            answer = http.get(answer.links["next"]["url"])
            copy.update(netted(lines_of(answer), "name,k", lambda _: True))
            rows = lines_of(
                http.get("/v1/branches/main/datasets/shop.orders/records.ndjson", params=asked)
            )
            assert Counter({row: n for row, n in copy.items() if n}) == netted(
                rows, "name,k", lambda _: True
            )
        unchanged = http.get(answer.links["next"]["url"])
    assert lines_of(unchanged) == []


def test_a_row_that_begins_to_satisfy_the_condition_is_added(place: Served) -> None:
    place.world.commit({"a.csv": [order(1, "a", "7.00"), order(2, '=1+1, "x"', "2.50")]})
    with place.http() as http:
        begins = http.get(f"{CHANGES}.ndjson", params={"since": 1, "where": "price > 5 AND k < 3"})
        stops = http.get(
            f"{CHANGES}.ndjson",
            params={"since": 1, "where": "price < 2 AND k < 3", "columns": "k,name"},
        )
        other = http.get(
            f"{CHANGES}.ndjson", params={"since": 1, "where": "k = 1", "columns": "k,name"}
        )
    assert told(begins) == [("insert", 1, "a")]
    assert told(stops) == [("delete", 1, "a")]
    assert told(other) == []  # its price alone changed


def test_files_without_rows_of_the_condition_are_not_opened(place: Served) -> None:
    place.world.commit({"a.csv": [order(1), order(2, "changed")], "e.csv": [order(20)]})
    with place.http() as http:
        http.get(f"{CHANGES}.ndjson", params={"since": 1, "where": "k > 10"})
    assert opened(place.world) == ([], ["5-0.parquet"])


def test_a_part_has_a_content_of_its_own_and_is_in_the_audit(place: Served) -> None:
    place.world.commit({"a.csv": [order(1)]})
    with place.http() as http:
        tags = [
            http.head(f"{CHANGES}.csv", params={"since": 1, **asked}).headers["etag"]
            for asked in (
                {},
                {"columns": "k"},
                {"columns": "k,name"},
                {"where": "k > 1"},
                {"where": "k > 2"},
            )
        ]
        http.get(f"{CHANGES}.csv", params={"since": 1, "columns": "K", "where": "k > 1"})
        reads = http.get("/v1/audit/reads").json()["items"]
    assert len(set(tags)) == len(tags)
    assert (reads[0]["how"], reads[0]["what"]["columns"], reads[0]["what"]["where"]) == (
        "changes",
        ["K"],
        "k > 1",
    )


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        ({"where": "nothing = 1"}, "bad-condition"),
        ({"where": "k = (SELECT 1)"}, "bad-condition"),
        ({"where": ""}, "bad-condition"),
        ({"columns": "k,k"}, "bad-columns"),
        ({"columns": "_change_type"}, "bad-columns"),
    ],
)
def test_what_cannot_be_asked_for(place: Served, asked: dict[str, str], kind: str) -> None:
    with place.http() as http:
        answer = http.get(f"{CHANGES}.ndjson", params={"since": 0, **asked})
    assert (answer.status_code, answer.json()["type"]) == (422, f"urn:headgate:{kind}")


def test_the_client_names_columns_and_a_condition(place: Served) -> None:
    with (
        place.client() as client,
        client.changes(
            "shop.orders", since=0, format="csv", columns=["name", "k"], where="k = 4"
        ) as found,
    ):
        assert b"".join(found.parts).decode().splitlines()[1:] == ['"ü",4,"insert",1']


# --- the process


def wanted_changes(
    before: Sequence[str], after: Sequence[str], rendering: Rendering
) -> RequestedChanges:
    return RequestedChanges(
        before, after, SCHEMA, columns=SCHEMA_NAMES, where=None, generation=7, rendering=rendering
    )


def request(root: Path, before: list[Row], after: list[Row]) -> FileChangesRequest:
    world = RecordWorld(root)
    sides = [
        [file["path"] for file in world.fragment(rows).files] if rows else []
        for rows in (before, after)
    ]
    return {
        "lake": world.lake.uri,
        "before": sides[0],
        "after": sides[1],
        "schema": SCHEMA,
        "columns": list(column_names(SCHEMA)),
        "where": None,
        "generation": 7,
        "format": "ndjson",
        "compression": None,
        "scratch": str(root),
        "memory_bytes": 1 << 30,
        "seconds": 0,
    }


def test_a_row_is_told_as_often_as_one_side_has_it_more(tmp_path: Path) -> None:
    out = io.BytesIO()
    write(request(tmp_path, [order(1)] * 3 + [order(2)], [order(1)] * 40_000 + [order(3)]), out)
    rows = [json.loads(line) for line in out.getvalue().splitlines()]
    assert Counter((r["_change_type"], r["k"]) for r in rows) == {
        ("delete", 2): 1,
        ("insert", 1): 39_997,
        ("insert", 3): 1,
    }


def test_processes_tell_the_same(tmp_path: Path) -> None:
    asked = request(tmp_path, [order(1), order(2)], [order(2), order(3)])
    render = ChangeRenderer(asked["lake"], threading.Event())
    wanted = wanted_changes(asked["before"], asked["after"], Rendering("csv", coding="gzip"))
    lines = gzip.decompress(b"".join(render(wanted))).decode().splitlines()
    assert [line.split(",")[0] for line in lines] == ['"k"', "1", "3"]
    added = (
        b"".join(render(replace(wanted, before=[], rendering=Rendering("csv"))))
        .decode()
        .splitlines()
    )
    assert [line.split(",")[0] for line in added] == ['"k"', "2", "3"]
    with pytest.raises(NotCompared, match=r"gone\.parquet"):
        next(iter(render(replace(wanted, before=["gone.parquet"]))))


def test_a_comparison_that_nobody_waits_for_ends_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    began = tmp_path / "began"
    waits = f"import pathlib, time; pathlib.Path({str(began)!r}).touch(); time.sleep(600)"
    monkeypatch.setattr(
        "controlplane.services.queries.adapter.change_renderer.COMMAND", ("python3", "-c", waits)
    )
    pieces: Any = ChangeRenderer("file:///x", threading.Event())(
        wanted_changes(["a"], ["b"], Rendering("csv"))
    )
    refused: list[Exception] = []

    def take() -> None:
        try:
            next(pieces)
        except NotCompared as e:
            refused.append(e)

    waiting = threading.Thread(target=take)
    waiting.start()
    while not began.exists():
        waiting.join(0.01)
    pieces.close()
    waiting.join()
    assert len(refused) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["began"]
