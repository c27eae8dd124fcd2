"""Loads of a REST API by dlt, each listed by a process of its own: pages, cursors, limits, errors and
kills."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Thread
from typing import Any, cast

import pyarrow.parquet as pq
import pytest

from dataplane.connectors.dlt.load_files import STATE_BYTES, folder_of, write_load
from dataplane.contract.claims import Claim
from dataplane.contract.results import TaskResult
from dataplane.contract.source_objects import ListingResult, SourceObject
from dataplane.runtime import listing_child
from dataplane.runtime.heartbeats import Orders
from dataplane.task_failures import TaskFailure
from tests.servers.ticket_api import TOKEN, TicketApi, ticket_api
from tests.unit.listing.location import list_job

AGENTS = Path(__file__).parents[2] / "blueprints" / "tickets" / "sources" / "agents.py"
TICKETS = [
    {"id": n, "status": "open", "updated": f"2024-01-0{n}T00:00:00Z", "price": f"{n}.50"}
    for n in range(1, 6)
]


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[TicketApi]:
    monkeypatch.setenv("HEADGATE_SECRET_TICKETS_TOKEN", TOKEN)
    with ticket_api() as server:
        server.rows = {"tickets": TICKETS[:3], "agents": [{"id": 1, "name": "Ann"}]}
        yield server


class Resource:
    """A resource as the control plane knows it: what its last listing named."""

    def __init__(self, lake: Path, settings: Mapping[str, Any]) -> None:
        self.lake, self.settings = lake, {"arguments": "{}", "rest_api": "", **settings}
        self.key: str | None = None
        self.objects: list[SourceObject] = []

    def perform(self, orders: Orders | None = None) -> list[TaskResult]:
        job = list_job("dlt:x", connector="dlt", settings=self.settings)
        if self.settings["write_disposition"] == "append":
            job["known"] = {"key": self.key, "objects": self.objects}
        claim = {
            "kind": "list",
            "lake": self.lake.as_uri(),
            "prefix": "default/flow/set/_frags/aa/a1",
            "job": job,
            "tasks": [{"task": "00" * 32, "epoch": 1}],
        }
        return listing_child.perform(cast("Claim", claim), orders or Orders())

    def failure(self) -> Any:
        [result] = self.perform()
        assert result["state"] == "failed", result
        return result["error"]

    def load(self) -> list[dict[str, Any]] | None:
        """The rows of the partition that one listing names; None without one. It is taken in."""
        [result] = self.perform()
        assert result["state"] == "done", result
        parts = cast("ListingResult", result["result"])["partitions"]
        if not parts:
            return None
        [part] = parts
        self.key, self.objects = part["key"], part["objects"]
        [source] = self.objects
        return self.rows(source)

    def rows(self, source: SourceObject) -> list[dict[str, Any]]:
        table = pq.read_table(self.lake / source["detail"]["path"])
        return [json.loads(text) for text in table["row"].to_pylist()]

    @property
    def files(self) -> list[str]:
        return sorted(path.name for path in self.lake.rglob("*") if path.is_file())


def tickets(lake: Path, api: TicketApi, disposition: str = "append") -> Resource:
    endpoint = {
        "path": "tickets",
        "data_selector": "items",
        "params": {"since": "{incremental.start_value}"},
        "incremental": {"cursor_path": "updated", "initial_value": "2024-01-01T00:00:00Z"},
    }
    config = {
        "client": {
            "base_url": api.url,
            "auth": {"type": "bearer", "token": "secret://tickets/token"},
            "paginator": {"type": "json_link", "next_url_path": "next"},
        },
        "resources": [{"name": "tickets", "endpoint": endpoint}],
    }
    settings = {"rest_api": json.dumps(config), "source": None, "resource": "tickets"}
    return Resource(lake, {**settings, "write_disposition": disposition})


def agents(lake: Path, api: TicketApi, code: str | None = None) -> Resource:
    settings = {
        "main": "agents.py",
        "modules": json.dumps({"agents.py": code or AGENTS.read_text()}),
        "source": "agents",
        "resource": "agents",
        "arguments": json.dumps({"url": api.url, "token": "secret://tickets/token"}),
        "write_disposition": "replace",
    }
    return Resource(lake, settings)


def ids(rows: list[dict[str, Any]] | None) -> list[int]:
    assert rows is not None
    return [row["id"] for row in rows]


def test_a_load_begins_where_the_one_before_it_ended(tmp_path: Path, api: TicketApi) -> None:
    resource = tickets(tmp_path, api)
    api.answers["tickets"] = [200, 429]  # in the middle of the pages
    assert ids(resource.load()) == [1, 2, 3]
    assert resource.load() is None
    api.rows["tickets"] = TICKETS
    api.requests.clear()
    assert ids(resource.load()) == [4, 5]
    assert "since=2024-01-03T00%3A00%3A00Z" in api.requests[0]
    assert resource.key == "000000000002"


def test_a_load_that_fails_half_way_leaves_nothing(tmp_path: Path, api: TicketApi) -> None:
    resource = tickets(tmp_path, api)
    api.answers["tickets"] = [200, 404]
    error = resource.failure()
    assert "404" in error["message"]
    assert resource.files == []
    api.answers["tickets"] = []
    assert ids(resource.load()) == [1, 2, 3]


@pytest.mark.parametrize(
    ("point", "files"), [pytest.param("dlt-fetched", 0, marks=pytest.mark.soak), ("dlt-put", 1)]
)
def test_a_kill_between_steps_gives_each_row_once(
    tmp_path: Path, api: TicketApi, monkeypatch: pytest.MonkeyPatch, point: str, files: int
) -> None:
    resource = tickets(tmp_path, api)
    monkeypatch.setenv("HEADGATE_FAILPOINTS", point)
    assert resource.failure()["condition"] == "listing-died"
    assert len(resource.files) == files
    monkeypatch.delenv("HEADGATE_FAILPOINTS")
    assert ids(resource.load()) == [1, 2, 3]
    assert len(resource.files) == 1


@pytest.mark.soak
def test_a_listing_that_is_fenced_while_it_fetches_leaves_nothing(
    tmp_path: Path, api: TicketApi
) -> None:
    resource, orders = tickets(tmp_path, api), Orders()
    with api.held("tickets") as reached:
        listing = Thread(target=lambda: results.extend(resource.perform(orders)))
        results: list[TaskResult] = []
        listing.start()
        reached.wait()
        orders.fence()
        listing.join()
    assert (results, resource.files) == ([], [])


def test_rows_that_a_replaced_resource_lacks_are_gone(tmp_path: Path, api: TicketApi) -> None:
    resource = agents(tmp_path, api)
    api.rows["agents"] = [
        {"id": 1, "name": "Ann"},
        {"id": 2, "name": "Bob"},
        {"id": 3, "name": "Eve"},
    ]
    assert ids(resource.load()) == [1, 2, 3]
    before = resource.objects
    api.rows["agents"].reverse()
    resource.load()
    assert (resource.objects, len(resource.files)) == (before, 1)
    del api.rows["agents"][0]
    assert ids(resource.load()) == [2, 1]
    [old], [new] = before, resource.objects
    assert old["version"] != new["version"]
    assert len(resource.rows(old)) == 3, "tasks may still read it"


@pytest.mark.soak
def test_replaced_loads_are_deleted_after_a_day(tmp_path: Path, api: TicketApi) -> None:
    resource = agents(tmp_path, api)
    resource.load()
    [new] = (tmp_path / "default/flow/set/_loads").rglob("*.parquet")
    for day in ("000000000000001", "000000000000002"):
        shutil.copy(new, new.with_name(f"{day}-{'0' * 32}.parquet"))
    resource.load()
    assert len(resource.files) == 2, "the second of them was replaced today"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        pytest.param(
            "def agents(url, token):\n    return 1\n", "gives int", marks=pytest.mark.soak
        ),
        (
            "import dlt\n\ndef agents(url, token):\n    return dlt.resource([1], name='agents')\n",
            "rows as mappings, not int",
        ),
        pytest.param(
            "import dlt\n\ndef agents(url, token):\n    return dlt.resource([{}], name='others')\n",
            "no resource 'agents'; there is others",
            marks=pytest.mark.soak,
        ),
        ("def agents(url, token):\n    raise ValueError(token)\n", "*** <- agents.py:2 in agents"),
    ],
)
def test_what_is_no_resource_is_refused(
    tmp_path: Path, api: TicketApi, code: str, words: str
) -> None:
    assert words in agents(tmp_path, api, code).failure()["message"]


STAMPED = """\
import time
import dlt

def agents(url, token):
    @dlt.resource(name="agents")
    def rows():
        dlt.current.resource_state()["at"] = time.time_ns()
        yield {"id": 1}
    return rows
"""


def test_loads_of_equal_rows_and_other_states_are_two_files(tmp_path: Path, api: TicketApi) -> None:
    """One of a plan, or of an attempt that was given up, replaces no file that is named."""
    for _ in range(2):
        resource = agents(tmp_path, api, STAMPED)
        resource.settings = {**resource.settings, "write_disposition": "append"}
        resource.load()
    assert len(resource.files) == 2


def test_an_equal_load_in_another_file_moves_the_listing_there(
    tmp_path: Path, api: TicketApi
) -> None:
    """The first file is deleted some day."""
    resource = agents(tmp_path, api)
    resource.load()
    [first] = resource.objects
    (tmp_path / first["detail"]["path"]).unlink()
    resource.load()
    [second] = resource.objects
    assert first["version"] == second["version"]
    assert first["uri"] != second["uri"], "of which the listing's tree has a hash"


def test_a_configuration_reaches_no_link_local_address(tmp_path: Path, api: TicketApi) -> None:
    resource = tickets(tmp_path, api)
    resource.settings = {
        **resource.settings,
        "rest_api": resource.settings["rest_api"].replace("127.0.0.1", "169.254.169.254"),
    }
    assert "169.254.169.254 is link-local" in resource.failure()["message"]


def test_comments_of_code_are_no_part_of_a_source() -> None:
    one, other = (
        folder_of("default/flow/set", {"code": "1", "modules": text, "row_schema": text})
        for text in ("a", "b")
    )
    assert one == other


def test_rows_and_state_are_bounded(tmp_path: Path) -> None:
    file = tmp_path / "load.parquet"
    rows = ['{"id": 1}'] * 3
    assert write_load(file, 1, rows, lambda: "{}", most_bytes=27).rows == 3
    for most_bytes, state in ((26, "{}"), (27, "x" * (STATE_BYTES + 1))):
        with pytest.raises(TaskFailure) as caught:
            write_load(file, 1, rows, [state].pop, most_bytes=most_bytes)
        assert caught.value.condition == "listing-too-large"
