"""A service with one warm driver, and the commands that talk to it."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pyarrow as pa
import pyarrow.orc as orc
import pyarrow.parquet as pq
import pytest

from controlplane.cli.example_making import OverApi
from controlplane.client import Headgate
from tests.avro_files import avro_file
from tests.e2e.conftest import closing
from tests.e2e.workspace import HANGS_S, Run, Service, Workspace, ended, until
from tests.excel_files import sheet, workbook
from tests.servers.web import web_server
from tests.spark.source_places import zipped

LETTERS = """\
dataflow: letters
components:
  lines:
    read: {connector: files, path: letters/*.txt, format: text, refresh: 1s}
  upper:
    transform: {sql: SELECT upper(value) AS value FROM lines}
  count:
    transform: {sql: SELECT count(*) AS n FROM upper}
  copy:
    write: {connector: files, from: upper, path: out, format: json}
"""


@pytest.fixture(scope="module")
def place(module_folder: Path) -> Iterator[Workspace]:
    with closing(Workspace(module_folder)) as workspace:
        workspace.write("letters/a.txt", "one\ntwo\n")
        workspace.write("letters.yaml", LETTERS)
        yield workspace


@pytest.fixture(scope="module")
def service(place: Workspace) -> Iterator[Service]:
    with place.serving() as found:
        place.ask("apply", "letters.yaml", "--wait")
        yield found


@pytest.fixture
def api(service: Service) -> Iterator[Headgate]:
    with service.client() as client:
        yield client


def _without_clocks(status: Any) -> Any:
    """A status without the times of listings, which move on between two looks (`as_of` is that of
    the last one)."""
    if isinstance(status, list):
        return [_without_clocks(part) for part in status]
    if isinstance(status, dict):
        return {
            key: _without_clocks(part)
            for key, part in status.items()
            if key not in ("as_of", "listing")
        }
    return status


@pytest.fixture(autouse=True)
def still_alive(service: Service) -> Iterator[None]:
    """Whatever a test sends, the service goes on; other dataflows than the letters are its own."""
    yield
    assert service.process.poll() is None
    with service.client() as client:
        assert client.is_ready()
        for flow in client.dataflows():
            if flow["name"] != "letters":
                client.delete(flow["name"])


def applied(place: Workspace, name: str, text: str, code: int = 0) -> dict[str, dict[str, Any]]:
    """Apply one blueprint and wait: its datasets by name."""
    place.write(f"{name}.yaml", text)
    value = place.ask("apply", f"{name}.yaml", "--wait", code=code)
    things = (*value["datasets"], *value["targets"])
    return {d["name"].partition(".")[2]: d for d in things if d["name"].startswith(f"{name}.")}


def rows(api: Headgate, dataset: str) -> list[dict[str, Any]]:
    with api.records(dataset) as parts:
        found: list[dict[str, Any]] = json.loads(b"".join(parts))
    return found


# --- following ------------------------------------------------------------------------------------


def test_a_late_file_is_found_within_its_refresh(place: Workspace, api: Headgate) -> None:
    before = api.dataset("letters.count")["generation"]
    place.write("letters/b.txt", "three\n")
    for _ in api.events():
        if api.dataset("letters.count")["published_generation"] > before:
            break
    assert rows(api, "letters.count") == [{"n": 3}]
    api_state = place.ask("wait", "letters")
    assert api_state["state"] == "up_to_date"
    assert sorted(p.name for p in (place.folder / "out").iterdir() if p.is_dir()) == [
        "a.txt",
        "b.txt",
    ]


def test_a_second_service_on_the_home_is_refused(place: Workspace, service: Service) -> None:
    with place.start("serve", "--port", "0", "--home", place.home) as process:
        _, err = process.communicate()
    assert process.returncode == 1
    assert (
        f"home-locked: {place.home} is held by process {service.process.pid} (serving at {service.url})"
        in err.decode()
    )


# --- commands -------------------------------------------------------------------------------------


def test_a_plan_only_looks_and_its_listing_is_used_when_it_is_applied(
    place: Workspace, api: Headgate
) -> None:
    place.write("hourly/a.txt", "one\n")
    text = LETTERS.partition("  copy:")[0].replace("letters", "hourly").replace("1s", "1h")
    applied(place, "hourly", text)
    place.write("hourly/b.txt", "two\nthree\n")
    until(
        lambda: (
            "b.txt" in place.call("plan", "hourly.yaml", "--out", "plan.json", "--home", place.home)
        ),
        lambda: "a listing of the last ten seconds is used as it is, and no longer",
    )
    assert api.dataset("hourly.count")["generation"] == 1
    assert api.dataset("hourly.lines")["state"] == "up_to_date"
    assert api.plan(dataflows=["hourly"])["items"] == []
    listed = "SELECT count(*) FROM events WHERE kind = 'listing.done' AND dataset = 'hourly.lines'"
    before = place.query(listed)
    place.ask("apply", "plan.json", "--wait")
    assert rows(api, "hourly.count") == [{"n": 3}]
    assert place.query(listed) == before


def test_plan_and_its_exit_codes(place: Workspace) -> None:
    assert place.ask("plan", "--detailed-exitcode")["state"] == "nothing"
    changed = LETTERS.replace("upper(value)", "lower(value)")
    place.write("changed.yaml", changed)
    plan = place.ask("plan", "changed.yaml", "--detailed-exitcode", code=2)
    assert [(c["component"], c["schema_from"], c["impact"]) for c in plan["changes"]] == [
        ("letters.upper", "spark", "neutral")
    ]
    assert [(i["dataset"], i["action"], i["cause"], i["certain"]) for i in plan["items"]] == [
        ("letters.upper", "compute", "logic", True),  # its driver has analysed it
        ("letters.copy", "sync", "sync", False),
        ("letters.count", "compute", "input", False),
    ]
    assert place.ask("plan", "changed.yaml")["state"] == "work"
    place.write("changed.yaml", LETTERS.replace("upper(value)", "upper(valeu)"))
    [broken] = place.ask("plan", "changed.yaml", code=1)["breaks"]
    assert (broken["code"], broken["component"], broken["line"]) == (
        "edit-breaks-itself",
        "letters.upper",
        6,
    )
    assert "UNRESOLVED_COLUMN" in broken["message"]


def test_status_why_history_and_preview(place: Workspace) -> None:
    assert place.ask("status", "--detailed-exitcode")["state"] == "up_to_date"
    (dataset,) = place.ask("status", "letters.upper")["dataflows"][0]["datasets"]
    assert (dataset["name"], dataset["rows"]) == ("letters.upper", 3)
    why = place.ask("why", "letters.upper/b.txt")
    assert [i["dataset"] for i in why["because"]] == ["letters.upper", "letters.lines"]
    assert why["sources"][0]["objects"] == [(place.folder / "letters" / "b.txt").as_uri()]
    history = place.ask("history", "letters.upper")["items"]
    assert [(i["generation"], i["cause"], i["partitions"]) for i in history] == [
        (2, "input", 2),
        (1, "missing", 1),
    ]
    assert place.ask("preview", "letters.upper", "--limit", 2) == [
        {"value": "ONE"},
        {"value": "TWO"},
    ]
    old = place.ask("preview", "letters.count", "--generation", 1)
    assert old == [{"n": 2}]


def test_committed_rows_that_tests_are_made_of(place: Workspace, api: Headgate) -> None:
    committed = OverApi(api, "main")
    assert list(committed.rows("letters.upper", "a.txt")) == [{"value": "ONE"}, {"value": "TWO"}]
    assert len(list(committed.rows("letters.upper", None))) >= 2
    assert [
        committed.has(name, "a.txt") for name in ("letters.upper", "letters.count", "letters.new")
    ] == [
        True,
        False,
        False,
    ]
    assert committed.some("letters.upper")[0] == "a.txt"
    assert [committed.before("letters.upper", key) for key in ("a.txt", "a.txu")] == [None, "a.txt"]
    assert committed.schema("letters.new") is None
    counted = committed.schema("letters.count")
    assert counted is not None
    assert [f["name"] for f in counted["fields"]] == ["n"]
    with place.start("test", "--like", "c.txt", "letters.upper", "--home", place.home) as process:
        _, err = process.communicate()
    assert process.returncode == 1
    assert (
        "not-found: 'c.txt' is no partition of letters.upper, and none of what it reads; there is a.txt"
        in err.decode()
    )


def test_an_earlier_generation_is_shown_with_its_own_columns(
    place: Workspace, api: Headgate
) -> None:
    flow = "dataflow: named\ncomponents:\n  one:\n    transform: {sql: SELECT count(*) AS %s FROM letters.lines}\n"
    applied(place, "named", flow % "older")
    applied(place, "named", flow % "newer")
    with place.start("preview", "named.one", "--generation", "1", "--home", place.home) as process:
        out, err = process.communicate()
    assert out.decode().split() == ["older", "3"], err


def test_the_worst_of_what_was_applied_together_is_told(place: Workspace, api: Headgate) -> None:
    flow = "dataflow: %s\ncomponents:\n  one:\n    transform: {sql: SELECT %s AS n FROM letters.count}\n"
    place.write("fine.yaml", flow % ("fine", "n"))
    place.write("wrong.yaml", flow % ("wrong", "n / 0"))
    found = place.ask("apply", "fine.yaml", "wrong.yaml", "--wait", code=1)
    assert (found["state"], [e["dataset"] for e in found["errors"]]) == ("failed", ["wrong.one"])
    assert {d["name"]: d["state"] for d in found["datasets"]}["fine.one"] == "up_to_date"
    assert place.ask("status", code=1)["leader"]


def test_records_in_three_forms(place: Workspace, service: Service) -> None:
    def body(form: str) -> bytes:
        with place.start(
            "records", "letters.upper", "--format", form, "--home", place.home
        ) as process:
            out, err = process.communicate()
        assert process.returncode == 0, err
        return out

    words = ["ONE", "TWO", "THREE"]
    assert [r["value"] for r in json.loads(body("json"))] == words
    assert [r["value"] for r in csv.DictReader(io.StringIO(body("csv").decode()))] == words
    assert pa.ipc.open_stream(body("arrow")).read_all().column("value").to_pylist() == words


def test_tokens(place: Workspace, service: Service) -> None:
    made = place.ask("token", "create", "robot")
    assert made["token"].startswith("hg_")
    elsewhere = {
        "HEADGATE_URL": service.url,
        "HEADGATE_TOKEN": made["token"],
        "HEADGATE_HOME": "/nowhere",
    }
    assert (
        json.loads(place.call("status", "--output", "json", **elsewhere))["state"] == "up_to_date"
    )
    (found,) = [t for t in place.ask("token", "list") if t["name"] == "robot"]
    assert "token" not in found
    place.ask("token", "revoke", found["id"])
    refused = json.loads(place.call("status", "--output", "json", code=1, **elsewhere))
    assert [e["code"] for e in refused["errors"]] == ["unauthenticated"]
    assert (place.home / "token").stat().st_mode & 0o777 == 0o600


def test_an_api_without_a_loop_shares_the_database_with_one_that_has_it(
    place: Workspace, api: Headgate
) -> None:
    token = place.write("chosen", "hg_" + "c" * 40)
    shared = {
        "HEADGATE_DATABASE_URL": f"sqlite:///{place.home}/metadata.db",
        "HEADGATE_LAKE": place.lake.as_uri(),
    }
    command = ("serve", "--no-loop", "--home", place.folder / "other", "--port", 0)
    with ended(place.start(*command, **shared, HEADGATE_ADMIN_TOKEN_FILE=str(token))) as process:
        assert process.stderr is not None
        url = re.search(r"http://\S+(?=;)", process.stderr.readline().decode())
        assert url is not None
        with Headgate(url[0], token.read_text()) as other:
            assert other.is_ready()
            assert _without_clocks(other.status("letters")) == _without_clocks(
                api.status("letters")
            )
            place.write("letters/d.txt", "five\n")
            other.refresh("letters")
            until(
                lambda: "FIVE" in {row["value"] for row in rows(other, "letters.upper")},
                lambda: "it goes on",
            )
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=HANGS_S) == 0
    (place.folder / "letters" / "d.txt").unlink()
    place.ask("refresh", "letters")
    assert place.ask("wait", "letters")["state"] == "up_to_date"


def test_pause_resume_refresh_and_retry(place: Workspace, api: Headgate) -> None:
    place.ask("pause", "letters.upper")
    place.write("letters/c.txt", "four\n")
    assert place.ask("refresh", "letters")["sources"] == ["letters.lines"]
    until(lambda: len(rows(api, "letters.lines")) == 4, lambda: "lines go on")
    assert place.ask("wait", "letters.upper")["state"] == "paused"
    assert len(rows(api, "letters.upper")) == 3
    place.ask("resume", "letters.upper")
    assert place.ask("wait", "letters")["state"] == "up_to_date"
    assert len(rows(api, "letters.upper")) == 4
    assert place.ask("retry", "letters")["retried"] == 0


def test_deleting_a_dataflow_leaves_files_that_others_adopt(
    place: Workspace, api: Headgate
) -> None:
    twin = LETTERS.replace("dataflow: letters", "dataflow: twin").replace("path: out", "path: twin")
    found = applied(place, "twin", twin)
    executed = place.counted()["task.executed"]
    place.ask("delete", "twin")
    assert [f["name"] for f in api.dataflows()] == ["letters"]
    again = applied(place, "twin", twin)
    assert place.counted()["task.executed"] == executed
    assert {n: d.get("root") for n, d in again.items()} == {
        n: d.get("root") for n, d in found.items()
    }
    assert again["upper"]["generation"] >= found["upper"]["generation"]
    place.ask("delete", "twin")
    assert place.call("delete", "twin", "--home", place.home, code=1) == ""


def test_database_version_and_wrong_arguments(place: Workspace) -> None:
    assert place.ask("db", "version")["version"]
    for arguments in (
        ("frobnicate",),
        ("run",),
        ("status", "--frob"),
        ("preview", "letters.upper", "--limit", "x"),
    ):
        place.call(*arguments, code=64)
    assert json.loads(place.call("status", "--frob", "--output", "json", code=64))["errors"][0][
        "code"
    ]


def test_a_great_loss_of_files_waits_for_confirmation(place: Workspace, api: Headgate) -> None:
    for number in range(24):
        place.write(f"many/{number:02}.txt", f"{number}\n")
    text = "dataflow: many\ncomponents:\n  all:\n    read: {connector: files, path: many/*.txt, format: text}\n"
    assert applied(place, "many", text)["all"]["partitions"] == 24
    for number in range(15):
        (place.folder / "many" / f"{number:02}.txt").unlink()
    place.ask("refresh", "many")
    until(lambda: api.status("many")["state"] == "waiting", lambda: "held")
    assert len(rows(api, "many.all")) == 24
    assert "--accept-deletes" in place.call("why", "many.all", "--home", place.home)
    place.ask("refresh", "many", "--accept-deletes")
    until(lambda: api.status("many")["state"] == "up_to_date", lambda: "confirmed")
    assert len(rows(api, "many.all")) == 9
    shutil.move(place.folder / "many", place.folder / "gone")
    place.ask("refresh", "many")
    until(
        lambda: api.status("many")["state"] == "failed",
        lambda: "a folder that is gone is no deletion",
    )
    assert len(rows(api, "many.all")) == 9
    assert place.ask("why", "many.all")["error"]["condition"] == "path-not-found"


# --- formats --------------------------------------------------------------------------------------

FORMATS = """\
dataflow: formats
components:
  comma: {read: {connector: files, path: formats/*.csv, format: csv, options: {header: true, nullValue: NA}}}
  objects: {read: {connector: files, path: formats/*.json, format: json}}
  columns: {read: {connector: files, path: formats/*.parquet, format: parquet}}
  stripes: {read: {connector: files, path: formats/*.orc, format: orc}}
  blocks: {read: {connector: files, path: formats/*.avro, format: avro}}
  text: {read: {connector: files, path: formats/*.txt, format: text, metadata: [name]}}
  bytes: {read: {connector: files, path: formats/*.bin, format: binary}}
  together:
    transform:
      sql: |
        SELECT c.id, c.name, o.name AS o, p.name AS p, s.name AS s
        FROM comma c JOIN objects o USING (id) JOIN columns p USING (id) JOIN stripes s USING (id)
"""


def test_every_format_is_read(place: Workspace, api: Headgate) -> None:
    table = pa.table({"id": pa.array([1, 2], pa.int32()), "name": ["ä", None]})
    place.write("formats/a.csv", "id,name\n1,ä\n2,NA\n")
    place.write("formats/a.json", '{"id": 1, "name": "ä"}\n{"id": 2, "name": null}\n')
    pq.write_table(table, place.folder / "formats" / "a.parquet")
    orc.write_table(table, place.folder / "formats" / "a.orc")
    place.write("formats/a.avro", avro_file(table))
    place.write("formats/a b.txt", "one\n\ntwo")
    place.write("formats/a.bin", bytes(range(4)))
    assert {d["state"] for d in applied(place, "formats", FORMATS).values()} == {"up_to_date"}
    expected = [{"id": 1, "name": "ä"}, {"id": 2, "name": None}]
    for name in ("comma", "objects", "columns", "stripes", "blocks"):
        assert rows(api, f"formats.{name}") == expected, name
    assert rows(api, "formats.text") == [
        {"value": v, "_source_name": "a b.txt"} for v in ("one", "", "two")
    ]
    assert rows(api, "formats.bytes") == [{"content": "AAECAw==", "length": 4}]
    together = sorted(rows(api, "formats.together"), key=lambda r: r["id"])
    assert together == [
        {"id": 1, "name": "ä", "o": "ä", "p": "ä", "s": "ä"},
        {"id": 2, "name": None, "o": None, "p": None, "s": None},
    ]


STAGED = """\
dataflow: staged
components:
  sheets: {read: {connector: files, path: staged/*.xlsx, format: xlsx, options: {header: true}}}
  fixed: {read: {connector: files, path: staged/*.dat, format: fixed, options: {columns: "id:1-2, v:3-5"}}}
  elements: {read: {connector: files, path: staged/*.xml, format: xml, options: {rowTag: r}}}
"""


def staged_files(id: int, v: object, **more: object) -> dict[str, bytes | str]:
    """A row, and in formats that name their columns some columns more."""
    cells = "".join(f"<{n}>{value}</{n}>" for n, value in {"id": id, "v": v, **more}.items())
    return {
        "xlsx": workbook({"S": sheet([["id", "v", *more], [id, v, *more.values()]])}),
        "dat": f"{id:>2}{v:>3}\n",
        "xml": f"<x><r>{cells}</r></x>",
    }


def test_sheets_lines_and_elements_follow_their_files(place: Workspace, api: Headgate) -> None:
    def put(name: str, files: dict[str, bytes | str]) -> None:
        for suffix, content in files.items():
            place.write(f"staged/{name}.{suffix}", content)

    def read_again() -> dict[str, list[dict[str, Any]]]:
        place.ask("refresh", "staged")
        assert place.ask("wait", "staged")["state"] == "up_to_date"
        names = ("sheets", "fixed", "elements")
        return {n: sorted(rows(api, f"staged.{n}"), key=lambda r: r["id"]) for n in names}

    put("a", staged_files(1, 10))
    assert {d["state"] for d in applied(place, "staged", STAGED).values()} == {"up_to_date"}
    put("b", staged_files(2, 20))  # late
    both = [{"id": 1, "v": 10}, {"id": 2, "v": 20}]
    assert read_again() == {"sheets": both, "fixed": both, "elements": both}
    put("a", staged_files(1, 1.5))  # corrected, and of a wider type
    wide = [{"id": 1, "v": 1.5}, {"id": 2, "v": 20.0}]
    assert read_again() == {"sheets": wide, "fixed": wide, "elements": wide}
    put("b", staged_files(2, 20, note="new"))  # a new column
    noted = [{**wide[0], "note": None}, {**wide[1], "note": "new"}]
    assert read_again() == {"sheets": noted, "fixed": wide, "elements": noted}
    for suffix in ("xlsx", "dat", "xml"):
        (place.folder / f"staged/a.{suffix}").unlink()  # withdrawn
    assert read_again() == {"sheets": noted[1:], "fixed": wide[1:], "elements": noted[1:]}

    def failure(name: str) -> Any:
        return place.ask("why", f"staged.{name}")["error"]

    put("c", {"xlsx": b"PK", "dat": "3\n", "xml": "<x><r>"})  # damaged
    place.ask("refresh", "staged")
    place.call("wait", "staged", "--home", place.home, code=1)
    for name, suffix in (("sheets", "xlsx"), ("fixed", "dat"), ("elements", "xml")):
        error = until(partial(failure, name), lambda: "failed")
        assert f"c.{suffix}" in error["message"]
        assert len(rows(api, f"staged.{name}")) == 1


PLACES = """\
dataflow: places
components:
  packed:
    read: {{connector: files, path: packed/*.zip, members: "**/*.csv", format: csv, options: {{header: true}}}}
  served:
    read: {{connector: files, path: "{url}/{{a,b}}.csv", format: csv, options: {{header: true}}, refresh: manual}}
"""


def test_members_of_archives_and_files_of_web_servers_follow_their_places(
    place: Workspace, api: Headgate
) -> None:
    files: dict[str, bytes] = {}

    def put(**contents: str) -> None:
        files.update({f"x/{name}.csv": text.encode() for name, text in contents.items()})
        place.write("packed/all.zip", zipped(files))
        web.files.update({f"/{name}.csv": text.encode() for name, text in contents.items()})

    def read_again() -> dict[str, list[dict[str, Any]]]:
        place.ask("refresh", "places")
        assert place.ask("wait", "places")["state"] == "up_to_date"
        names = ("packed", "served")
        return {n: sorted(rows(api, f"places.{n}"), key=lambda r: r["id"]) for n in names}

    with web_server() as web:
        put(a="id,v\n1,10\n")
        text = PLACES.format(url=web.url)
        assert {d["state"] for d in applied(place, "places", text).values()} == {"up_to_date"}
        put(b="id,v\n2,20\n")  # late
        both = [{"id": 1, "v": 10}, {"id": 2, "v": 20}]
        assert read_again() == {"packed": both, "served": both}
        put(a="id,v\n1,1.5\n")  # corrected, and of a wider type
        wide = [{"id": 1, "v": 1.5}, {"id": 2, "v": 20.0}]
        assert read_again() == {"packed": wide, "served": wide}
        put(b="id,v,note\n2,20,new\n")  # a new column
        noted = [{**wide[0], "note": None}, {**wide[1], "note": "new"}]
        assert read_again() == {"packed": noted, "served": noted}
        del files["x/a.csv"], web.files["/a.csv"]
        put()
        assert read_again() == {"packed": noted[1:], "served": noted[1:]}


# --- bad input ------------------------------------------------------------------------------------

BAD = """\
dataflow: bad
components:
  ragged:
    read: {connector: files, path: bad/ragged.csv, format: csv, options: {header: true}, schema: "a INT, b INT"}
  truncated:
    read: {connector: files, path: bad/truncated.parquet, format: parquet, schema: "id INT, name STRING"}
  other:
    read: {connector: files, path: bad/other.parquet, format: parquet, schema: "id INT, name INT"}
  absent:
    read: {connector: files, path: bad/other.parquet, format: parquet, schema: "nothing INT"}
  unknown:
    transform:
      sql: |
        SELECT value,
               valeu AS twice
        FROM good
  good:
    read: {connector: files, path: letters/a.txt, format: text}
  wrong:
    transform:
      file: wrong.py
      modules: [below.py]
      entrypoint: transform
      inputs: {good: each}
  wrapped:
    transform: {sql: SELECT upper(value) AS value FROM good}
"""
WRONG = """\
import below


def transform(good):
    return below.columns(good)
"""
BELOW = """\
def columns(good):
    return good.select("value", missing(good))


def missing(good):
    return good["valeu"]
"""


def test_all_that_is_wrong_with_data_and_code_is_shown_and_the_rest_is_made(
    place: Workspace, api: Headgate
) -> None:
    table = pa.table({"id": pa.array([1, 2], pa.int32()), "name": ["a", "b"]})
    place.write("bad/ragged.csv", "a,b\n1,2\n3,4,5\n")
    pq.write_table(table, place.folder / "bad" / "other.parquet")
    whole = (place.folder / "bad" / "other.parquet").read_bytes()
    place.write("bad/truncated.parquet", whole[:-20])
    place.write("wrong.py", WRONG)
    place.write("below.py", BELOW)
    found = applied(place, "bad", BAD, code=1)
    assert {n for n, d in found.items() if d["state"] == "up_to_date"} == {"good", "wrapped"}
    assert {n for n, d in found.items() if d["state"] == "failed"} == set(found) - {
        "good",
        "wrapped",
    }
    errors = {n: d["error"] for n, d in found.items() if d["error"]}
    assert errors["ragged"]["condition"].startswith("MALFORMED_RECORD_IN_PARSING")
    assert "ragged.csv" in errors["ragged"]["message"]
    assert "truncated.parquet" in errors["truncated"]["message"]
    assert "other.parquet" in errors["other"]["message"]
    assert errors["absent"]["condition"] == "schema-mismatch"
    blueprint, line = (
        str(place.folder / "bad.yaml"),
        BAD.splitlines().index("               valeu AS twice") + 1,
    )
    unknown = errors["unknown"]
    assert unknown["condition"].startswith("UNRESOLVED_COLUMN")
    assert unknown["sqlstate"] == "42703"
    assert (unknown["file"], unknown["line"], unknown["column"]) == (blueprint, line, 16)
    wrong = errors["wrong"]
    assert (wrong["file"], wrong["line"]) == ("below.py", 6)  # the innermost frame of the user's
    for frame in ("wrong.py", "below.py"):
        assert f'File "{frame}"' in wrong["log"]
    assert "valeu" in wrong["message"]
    text = place.call("status", "bad", "--home", place.home, code=1)
    assert f"error: {blueprint}:{line}:16: bad.unknown: UNRESOLVED_COLUMN" in text
    assert api.status("letters")["state"] == "up_to_date"


def test_a_body_of_100_megabytes(service: Service) -> None:
    megabyte = b" " * 1_000_000

    def body() -> Iterator[bytes]:
        for _ in range(100):
            yield megabyte

    headers = {"Authorization": f"Bearer {service.token}", "Content-Type": "application/yaml"}
    with httpx2.Client(base_url=service.url, headers=headers, trust_env=False, timeout=120) as http:
        answer = http.post("/v1/blueprints", content=body())
        assert (answer.status_code, answer.json()["type"]) == (413, "urn:headgate:too-large")
        told = http.post("/v1/blueprints", content=b"{}", headers={"Content-Type": "text/plain"})
        assert told.status_code == 422
    status = Path(f"/proc/{service.process.pid}/status").read_text()
    peak_kb = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM"))
    assert peak_kb < 300_000  # the body was not held


NASTY = {
    "brackets": (b"a: " + b"[" * 100_000 + b"]" * 100_000, "too-deep"),
    "bomb": (b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n", "yaml-anchor"),
    "duplicate": (b"dataflow: x\ndataflow: y\ncomponents: {}\n", "duplicate-key"),
    "integer": (
        b"dataflow: x\ncomponents: {a: {priority: " + b"9" * 5000 + b"}}\n",
        "invalid-number",
    ),
    "nul": (b"dataflow: x\0y\n", "invalid-character"),
    "late-bom": (b"dataflow: x\ncomponents: \xef\xbb\xbf{}\n", "invalid-character"),
    "latin": (b"dataflow: caf\xe9\n", "invalid-encoding"),
    "large": (b"#" * 5_000_001, "too-large"),
    "tag": (b"dataflow: !!python/object:os.system x\n", "yaml-tag"),
}


def test_every_nasty_document_is_refused_with_its_place_and_none_is_stored(
    place: Workspace, api: Headgate
) -> None:
    for name, (text, _) in NASTY.items():
        place.write(f"nasty/{name}.yaml", text)
    place.write(
        "nasty/bom.yaml",
        b"\xef\xbb\xbf" + LETTERS.replace("dataflow: letters", "dataflow: bom").encode(),
    )
    names = [f"nasty/{name}.yaml" for name in NASTY]
    said = place.call("validate", *names, code=1)
    for name, (_, code) in NASTY.items():
        lines = [line for line in said.splitlines() if line.startswith(f"nasty/{name}.yaml:")]
        assert any(f" {code}: " in line for line in lines), (name, lines)
    assert place.call("validate", "nasty/bom.yaml") == "1 blueprint: no problems\n"
    for name in NASTY:
        refused = place.ask("apply", f"nasty/{name}.yaml", code=1)
        assert refused["errors"], name
    both = place.ask("apply", "letters.yaml", "nasty/duplicate.yaml", code=1)
    assert {e["code"] for e in both["errors"]} >= {"duplicate-key"}
    assert [f["name"] for f in api.dataflows()] == ["letters"]
    assert api.status()["state"] == "up_to_date"


def test_a_run_is_made_by_the_service(place: Workspace, service: Service, api: Headgate) -> None:
    made = Run(place.ask("run", "letters.yaml"))
    made.assert_idle()
    place.write("letters/z.txt", "last\n")
    later = Run(place.ask("run", "letters.yaml"))
    later.assert_up_to_date()
    assert (later.executed, later.tasks["written"], later.value["spark_started"]) == (3, 1, False)
    assert later.datasets["count"]["generation"] == api.dataset("letters.count")["generation"]
    (place.folder / "letters" / "z.txt").unlink()
    Run(place.ask("run", "letters.yaml")).assert_up_to_date()
