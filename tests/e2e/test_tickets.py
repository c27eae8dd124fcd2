"""The example with a REST API that dlt reads, against a local server: late rows, deletes, and an edit
of columns."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import ways
from tests.e2e.workspace import Workspace
from tests.servers.ticket_api import TOKEN, TicketApi, ticket_api
from tests.slices import in_turn

# Takes turns with calendars: what dlt loads is asked of tests/apis and spark/test_dlt_rows.
pytestmark = in_turn(0, 2)

EXAMPLE = Path(__file__).parents[2] / "blueprints" / "tickets"
OPEN = {"id": 1, "status": "open", "updated": "2024-01-01T00:00:00Z", "deleted": False}


@pytest.fixture
def api() -> Iterator[TicketApi]:
    with ticket_api() as server:
        yield server


def rows(workspace: Workspace, dataset: str) -> list[dict[str, Any]]:
    text = workspace.call("records", dataset, "--format", "json", "--home", workspace.home)
    return sorted(json.loads(text), key=lambda row: row["id"])


@pytest.mark.parametrize("workspace", ways(14), indirect=True)
def test_loads_of_an_api_are_partitions(workspace: Workspace, api: TicketApi) -> None:
    shutil.copytree(EXAMPLE, workspace.folder, dirs_exist_ok=True)
    workspace.environment["HEADGATE_SECRET_TICKETS_TOKEN"] = TOKEN
    text = (EXAMPLE / "tickets.yaml").read_text().replace("http://127.0.0.1:8000", api.url)
    workspace.write("tickets.yaml", text)
    api.rows = {
        "tickets": [OPEN, {**OPEN, "id": 2}, {**OPEN, "id": 3}],
        "agents": [{"id": 1, "name": "Ann"}, {"id": 2, "name": "Bob"}],
    }
    workspace.run("tickets.yaml")
    assert [row["id"] for row in rows(workspace, "tickets.tickets")] == [1, 2, 3]
    workspace.run("tickets.yaml").assert_idle()

    api.rows["tickets"] += [
        {**OPEN, "id": 2, "status": "done", "updated": "2024-01-02T00:00:00Z"},
        {**OPEN, "id": 3, "deleted": True, "updated": "2024-01-02T00:00:00Z"},
    ]
    del api.rows["agents"][0]
    workspace.run("tickets.yaml")
    tickets = rows(workspace, "tickets.tickets")
    assert [(row["id"], row["status"]) for row in tickets] == [(1, "open"), (2, "done")]
    assert [row["name"] for row in rows(workspace, "tickets.agents")] == ["Bob"]

    api.requests.clear()
    workspace.edit("tickets.yaml", ('"id BIGINT, name STRING"', '"name STRING, id INT"'))
    workspace.edit("tickets.yaml", ("id BIGINT, status", "id INT, status"))
    workspace.run("tickets.yaml")
    assert len(rows(workspace, "tickets.ticket_events")) == 5
    assert not [request for request in api.requests if "2024-01-01" in request], (
        "rows that were fetched are read from the lake"
    )
