"""The official client of Delta Sharing reads what a service shares, in both forms. It lives in an
environment of its own: what it needs and what we need do not have to agree."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dataplane.spark.wheels import installed
from tests.slices import in_turn
from tests.unit.lake.tables import struct
from tests.unit.records.conftest import order
from tests.unit.records.world import ORDERS, RecordWorld
from tests.unit.sharing.world import Sharing, partitions, sharing

# Takes turns with readers of Iceberg: what the protocol answers is asked of unit/sharing.
pytestmark = in_turn(1, 2)

REQUIREMENTS = Path(__file__).parent.parent / "delta_sharing.requirements"
CLIENT = """
import contextlib, json, sys
import delta_sharing

profile, name, *asked = sys.argv[1:]
table, asked = f"{profile}#sales.shop.{name}", json.loads(asked[0])

def told(frame):
    return json.loads(frame.to_json(orient="records", date_format="iso"))

found = {}
with contextlib.redirect_stdout(sys.stderr):
    client = delta_sharing.SharingClient(profile)
    found["tables"] = [f"{t.share}.{t.schema}.{t.name}" for t in client.list_all_tables()]
    found["version"] = delta_sharing.get_table_version(table)
    for label, options in asked.items():
        is_feed = "starting_version" in options
        load = delta_sharing.load_table_changes_as_pandas if is_feed else delta_sharing.load_as_pandas
        found[label] = told(load(table, **options))
json.dump(found, sys.stdout)
"""


@pytest.fixture(scope="session")
def client() -> Path:
    return installed(REQUIREMENTS)


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Sharing]:
    """Orders in four versions: the first ones, a late file, a corrected one, a withdrawn one; and
    times."""
    world = RecordWorld(tmp_path)
    for groups in ([1, 2], [3, 4]), ([1, 2], [3, 4], [5]), ([1, 2], [3, 9], [5]), ([1, 2], [], [5]):
        world.commit({key: found for key, found in partitions(*groups).items() if found})
        world.now += 60
    world.commit(
        {"": [{"k": 1, "t": None}]}, "shop.times", schema=struct(k="long", t="timestamp_ntz")
    )
    with sharing(world) as found, found.place.client() as client:
        client.add_to_share("sales", "shop.times")
        yield found


def read(client: Path, shared: Sharing, table: str, **asked: dict[str, Any]) -> dict[str, Any]:
    profile = shared.world.root / "sales.share"
    content = {
        "shareCredentialsVersion": 1,
        "endpoint": shared.endpoint,
        "bearerToken": shared.token,
    }
    profile.write_text(json.dumps(content))
    environ = {**os.environ, "PYTHONPATH": str(client), "NO_PROXY": "*", "no_proxy": "*"}
    command = [sys.executable, "-S", "-c", CLIENT, str(profile), table, json.dumps(asked)]
    done = subprocess.run(
        command, env=environ, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def keys(rows: list[dict[str, Any]]) -> list[int]:
    return sorted(row["k"] for row in rows)


def changes(rows: list[dict[str, Any]]) -> list[tuple[int, str, int]]:
    return sorted((row["_commit_version"], row["_change_type"], row["k"]) for row in rows)


def test_snapshots_and_changes_are_our_own(client: Path, shared: Sharing) -> None:
    found = read(
        client,
        shared,
        "orders",
        newest={},
        delta={"use_delta_format": True},
        first={"version": 1},
        first_delta={"version": 1, "use_delta_format": True},
        at={"timestamp": "2025-11-25T12:01:30Z"},
        limited={"limit": 2},
        feed={"starting_version": 2},
        feed_delta={"starting_version": 2, "use_delta_format": True},
        whole={"starting_version": 1, "ending_version": 2},
    )
    assert (found["tables"], found["version"]) == (["sales.shop.orders", "sales.shop.times"], 4)
    assert keys(found["newest"]) == keys(found["delta"]) == [1, 2, 5]
    assert keys(found["first"]) == keys(found["first_delta"]) == [1, 2, 3, 4]
    assert keys(found["at"]) == [1, 2, 3, 4, 5]
    assert len(found["limited"]) == 2
    told = [
        (2, "insert", 5),
        *[(3, kind, k) for kind, ks in (("delete", (3, 4)), ("insert", (3, 9))) for k in ks],
    ]
    assert changes(found["feed"]) == [*told, (4, "delete", 3), (4, "delete", 9)]
    assert changes(found["feed_delta"]) == changes(found["feed"])
    assert changes(found["whole"]) == [*((1, "insert", k) for k in (1, 2, 3, 4)), (2, "insert", 5)]
    with shared.place.client() as ours, ours.records(ORDERS, format="json") as parts:
        expected = json.loads(b"".join(parts))
    for form in ("newest", "delta"):
        assert sorted(row["name"] for row in found[form]) == sorted(row["name"] for row in expected)
        assert {row["day"][:10] for row in found[form]} == {str(order(k)["day"]) for k in (1, 2, 5)}


def test_a_table_that_needs_the_form_of_delta_gets_it(client: Path, shared: Sharing) -> None:
    found = read(client, shared, "times", newest={})
    assert found["newest"] == [{"k": 1, "t": None}]
