"""The example with a program of one's own as a source, against an HTTP API."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import ways
from tests.e2e.workspace import Workspace
from tests.slices import in_turn

# Programs that list and read are asked of unit/listing/test_python_objects,
# spark/test_python_source and hostile/test_secrets, which also runs one through all processes.
pytestmark = in_turn(3, 6)

EXAMPLE = Path(__file__).parents[2] / "blueprints" / "pages"
DAYS: dict[str, list[dict[str, Any]]] = {}


class Api(BaseHTTPRequestHandler):
    def do_GET(self) -> None:  # the name that the base class calls
        day = self.path.removeprefix("/days").removeprefix("/")
        found: Any = (
            DAYS.get(day)
            if day
            else [{"day": d, "version": len(json.dumps(s))} for d, s in DAYS.items()]
        )
        self.send_response(404 if found is None else 200)
        self.end_headers()
        self.wfile.write(json.dumps(found).encode())

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Api)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("workspace", ways(8), indirect=True)
def test_days_of_an_api_are_read_once(workspace: Workspace, url: str) -> None:
    shutil.copytree(EXAMPLE, workspace.folder, dirs_exist_ok=True)
    workspace.edit("pages.yaml", ("http://127.0.0.1:8000", url))
    DAYS.update(
        {"2020-01-01": [{"team": "a", "points": 3}], "2020-01-02": [{"team": "b", "points": 1}]}
    )
    assert workspace.run("pages.yaml").executed == 2 + 1
    workspace.run("pages.yaml").assert_idle()
    DAYS["2020-01-02"] = [{"team": "b", "points": 1}, {"team": "a", "points": 2}]
    assert workspace.run("pages.yaml").executed == 1 + 1
    told = workspace.call(
        "records", "pages.standings", "--format", "json", "--home", workspace.home
    )
    assert sorted((r["team"], r["points"]) for r in json.loads(told)) == [("a", 5), ("b", 1)]
    workspace.edit("sources/api.py", ('day["version"]', 'day["revision"]'))
    failed = workspace.run("pages.yaml", code=1)
    (error,) = failed.value["errors"]
    assert "KeyError: 'revision' <- sources/api.py:10 in list" in json.dumps(error)
