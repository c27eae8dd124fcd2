"""OpenAPI describes what each route answers, and real answers are as it says: types do not drift
from what is sent."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import jsonschema_rs  # which schemathesis brings
import pytest

from controlplane.api.description import EXAMPLES
from controlplane.api.services import Services
from controlplane.core.model.leases import LOOP
from controlplane.issuers.identity_tokens import JwtIssuers
from controlplane.operations.desired import feeds, tokens
from controlplane.operations.inspect import audit
from controlplane.operations.work import claims, reports
from controlplane.services.queries.adapter.query_pool import QueryPool
from controlplane.services.queries.adapter.result_folder import ResultFolder
from controlplane.services.queries.queries import Queries
from controlplane.services.queries.running_queries import Cancel
from controlplane.services.sessions.sessions import SparkSessions
from dataplane.contract.claims import CONTRACT
from dataplane.contract.example_protocol import Answer, Question
from dataplane.contract.schemas import Json
from tests.issuer import issuing
from tests.store.examples import driver
from tests.unit.api import recording
from tests.unit.api.world import TellingWake, render, serving
from tests.unit.expectations.world import World
from tests.unit.sessions.servers import Servers

BRANCH = "/v1/branches/{branch}"
DATASET = BRANCH + "/datasets/{dataset}"
WITHOUT_JSON = {
    ("get", "/metrics"): "a text for Prometheus",
    ("get", "/v1/events"): "a stream",
    ("get", DATASET + "/records"): "rows in one of five forms, with the columns of the dataset",
    ("get", DATASET + "/records.{format}"): "the same",
    ("get", DATASET + "/changes.{format}"): "rows",
    ("get", "/v1/links/{link}/{file}"): "rows",
    ("get", "/v1/attempts/{attempt}/log"): "a text",
    ("get", "/v1/drivers/{driver}/log"): "a text",
    ("get", DATASET + "/log"): "a text",
    ("delete", "/v1/tokens/{id}"): "nothing",
    ("delete", "/v1/s3/keys/{key}"): "nothing",
    ("delete", "/v1/trust/{rule}"): "nothing",
    ("delete", "/v1/roles/{role}"): "nothing",
    ("delete", "/v1/links/{link}"): "nothing",
    ("delete", "/v1/namespaces/{namespace}"): "nothing",
    ("delete", "/v1/shares/{share}"): "nothing",
    ("delete", "/v1/recipients/{recipient}"): "nothing",
    ("delete", "/v1/feeds/{feed}"): "nothing",
    ("delete", "/v1/spark-sessions/{session}"): "nothing",
}
WITHOUT_EXAMPLE = {
    ("get", "/schema/blueprint-v1.json"): "a long schema, which has examples of its own"
}
BEGAN = datetime(2024, 11, 24, 7, tzinfo=UTC).timestamp()  # before any file of a test was written
EXPECT = """\
    expect:
      - {check: v > -5, on_fail: warn}
      - {check: v > 0, on_fail: drop}
      - {name: few, rows: {max: 100}}
"""
REST = """\
  drawn: {transform: {sql: 'SELECT k, random() * 0 AS v FROM orders'}}
  wrong: {transform: {sql: 'SELECT no_such_function(v) AS v FROM orders'}}
  counts: {transform: {sql: 'SELECT count(*) AS n FROM orders'}}
  copied: {write: {connector: files, from: counts, path: '%s/out', format: json}}
  off: {paused: true, transform: {sql: 'SELECT v + 2 AS v FROM orders'}}
"""
ID = "0123456789abcdef"  # of a query


class Answering:
    """In place of Spark."""

    def ask(self, question: Question) -> Answer:
        return {"schema": None}


BLUEPRINT = (
    "dataflow: other\ncomponents:\n"
    "  x: {read: {connector: files, path: /data/*.csv, format: csv, schema: 'k INT'}}\n"
)
SENT = {"blueprints": [{"name": "/other.yaml", "text": BLUEPRINT}]}
EDITED = {"blueprints": [{"name": "/other.yaml", "text": BLUEPRINT.replace("k INT", "k BIGINT")}]}
BAD = {"blueprints": [{"name": "/bad.yaml", "text": "dataflow: bad\ncomponents: {x: {reed: 1}}\n"}]}


@dataclass(frozen=True)
class Place:
    """A control plane with a dataflow in it that has come to rest, and what OpenAPI says of its
    answers."""

    world: World
    services: Services
    wake: TellingWake
    http: httpx2.Client
    document: Json
    started: float = field(default_factory=time.time)
    answers: dict[tuple[str, str], Json] = field(default_factory=dict)  # the first of each route

    def answer(self, method: str, path: str, body: Json = None, **query: str) -> Json:
        """The answer of a route. Raises ValidationError if it is not as it is described."""
        value = (
            self.http.request(method, _filled(path, query), json=body, params=query)
            .raise_for_status()
            .json()
        )
        self.schema(method.lower(), path).validate(value)
        self.answers.setdefault((method.lower(), path), value)
        return value

    def schema(self, method: str, path: str) -> jsonschema_rs.Validator:
        (schema,) = (
            response["content"]["application/json"]["schema"]
            for status, response in self.document["paths"][path][method]["responses"].items()
            if status < "300"
        )
        return jsonschema_rs.validator_for({**schema, "components": self.document["components"]})

    def examples(self) -> str:
        """The file of examples, of the first answers."""
        recorded = {
            route: self.answers[route] for route in self.answers.keys() - WITHOUT_EXAMPLE.keys()
        }
        return recording.examples(recorded, str(self.world.home), self.started, BEGAN)

    def connect(self) -> None:
        """Answer, as a worker does, whoever waits for a connection."""
        assert self.wake.waiting.acquire(timeout=60)
        claim = claims.claim(self.world.ctx, "w", CONTRACT, ["connect"], lake=self.world.lake.uri)
        assert claim is not None
        for task in claim["tasks"]:
            found = {"connector": "files", "place": "/data/*.csv", "error": None}
            result: Any = {
                "task": task["task"],
                "epoch": task["epoch"],
                "state": "done",
                "result": found,
            }
            reports.report(self.world.ctx, "w", claim["attempt"], [result], lake=self.world.lake)
        self.wake.notify()


def _filled(path: str, query: dict[str, str]) -> str:
    """The path, with its names taken out of the query."""
    names = {
        "branch": "main",
        "dataset": "shop.orders",
        "dataflow": "shop",
        "run": "shop.rev1",
        "wave": "shop.rev1",
        "other": "dev",
        "query": ID,
        "namespace": "team-a",
        "share": "sales",
        "feed": "orders",
        "role": "x",
        "table": "shop.orders",
    }
    for name, value in names.items():
        if "{" + name + "}" in path:
            path = path.replace("{" + name + "}", query.pop(name, value))
    return path


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    world = World(tmp_path)
    world.now = BEGAN
    world.put("a.csv", (1, 10), (2, -1))
    world.put("b.csv", (3, -30))
    world.apply(EXPECT + REST % tmp_path)
    world.settle()
    with world.store.begin() as tx:
        tx.leases.take(LOOP, "pod-1/ab12", 3600.0)
        tx.drivers.put(driver("waits", seen=BEGAN, reason="waits for room in a quota"))
        tx.drivers.put(driver("ended", seen=BEGAN, ended=True, reason="ran out of memory"))
    wake = TellingWake()
    pool = QueryPool(str(tmp_path))
    queries = Queries(pool, ResultFolder(tmp_path / "queries"))
    services = Services(
        world.store,
        world.lake,
        wake,
        render,
        lambda *_: "",
        stopping=threading.Event(),
        queries=queries,
        spark_sessions=SparkSessions(Servers()),
        examples=Answering(),
        issuers=JwtIssuers(),
    )
    admin, _ = tokens.create(world.ctx, "test", ("admin",))
    headers = {"Authorization": f"Bearer {admin}"}
    with (
        serving(services) as url,
        httpx2.Client(base_url=url, headers=headers, trust_env=False, timeout=90) as http,
    ):
        yield Place(world, services, wake, http, http.get("/openapi.json").json())
    pool.close()
    world.store.close()


def operations(document: Json) -> set[tuple[str, str]]:
    return {(method, path) for path, found in document["paths"].items() for method in found}


def test_every_route_describes_its_answer(place: Place) -> None:
    assert WITHOUT_JSON.keys() < operations(place.document)
    for method, path in operations(place.document) - WITHOUT_JSON.keys():
        assert not place.schema(method, path).is_valid(None), (method, path)


def test_answers_are_as_described(place: Place, pytestconfig: pytest.Config) -> None:
    called = place.answer
    for path in ("/livez", "/readyz", "/schema/blueprint-v1.json"):
        called("GET", path)
    assert called("POST", "/v1/validate", BAD)["errors"]
    assert called("POST", "/v1/tests", {"question": {"ask": "analyse", "job": {}}})["answer"] == {
        "schema": None
    }
    assert called("POST", "/v1/validate", SENT)["valid"]
    assert (
        called("POST", "/v1/blueprints", SENT, dry_run="true", modes="true")["plan"]["state"]
        == "work"
    )
    with ThreadPoolExecutor(1) as worker:
        done = worker.submit(place.connect)
        assert called("POST", "/v1/connections", SENT)["connected"]
        done.result()
    assert called("POST", BRANCH + "/notify") == {"sent": True, "items": []}
    assert called("GET", BRANCH + "/dataflows")["items"]
    assert called("GET", BRANCH + "/checks")["items"]
    called("GET", BRANCH + "/dataflows/{dataflow}")
    assert called("GET", BRANCH + "/dataflows/{dataflow}/generations")["items"]

    assert called("GET", DATASET)["schema"]["fields"]
    assert called("GET", DATASET, dataset="shop.drawn")["volatile"]
    called("GET", DATASET, dataset="shop.copied")
    assert called("GET", DATASET + "/diff", one="1")["state"] == "equal"
    for part in ("/partitions", "/history", "/checks"):
        assert called("GET", DATASET + part)["items"]
    assert called("GET", DATASET + "/tasks", dataset="shop.wrong")["items"][0]["error"]
    assert called("GET", DATASET + "/why", dataset="shop.wrong")["error"]
    assert called("GET", DATASET + "/why", dataset="shop.counts")["because"]
    assert called("GET", DATASET + "/why", partition="a.csv")["sources"]
    assert called("GET", DATASET + "/why", generation="1")["at"]
    assert called("GET", DATASET + "/lineage", partition="a.csv")["partitions"]
    assert called("GET", DATASET + "/lineage", dataset="shop.counts")["components"]
    called("GET", DATASET + "/lineage", dataset="shop.copied", direction="downstream")

    assert called("GET", BRANCH + "/graph", dataflow="shop")["edges"]
    assert called("GET", BRANCH + "/graph", collapse="tag")["groups"]
    assert called("GET", "/v1/search", q="orders")["items"]
    assert called("GET", BRANCH + "/waves")["items"][0]["datasets"]
    assert called("GET", BRANCH + "/waves/{wave}")["steps"][0]["changes"]
    assert called("GET", DATASET + "/ranges", against="1")["items"]
    assert called("GET", DATASET + "/partition", key="a.csv")["readers"]
    assert called("GET", DATASET + "/profile", partition="a.csv")["columns"][0]["values"]
    assert called("GET", DATASET + "/profile/history", column="v")["columns"]
    assert called("GET", DATASET + "/partition", dataset="shop.counts", key="")["inputs"]
    assert (
        called("GET", DATASET + "/partitions", changed_in="1", prefix="a")["items"][0]["change"]
        == "added"
    )
    assert called("GET", DATASET + "/partitions", dataset="shop.wrong", state="failed")["items"][0][
        "work"
    ]

    assert called("GET", DATASET + "/tasks", state="ended")["items"][0]["done"]
    assert called("GET", BRANCH + "/cost")["total"]["attempts"]
    assert called("GET", BRANCH + "/runs")["items"][0]["datasets"]
    assert called("GET", BRANCH + "/runs/{run}")["attempts"]
    long = called("GET", BRANCH + "/status", long="true")
    assert long["dataflows"][0]["datasets"][0]["times"]["last"]

    status = called("GET", BRANCH + "/status")
    assert status["leader"]
    assert [d["state"] for d in status["drivers"]] == ["waiting", "ended"]
    place.world.put("c.csv", (4, 40))
    assert called("POST", BRANCH + "/refresh", {"force": True})["forced"]
    kept = called("GET", BRANCH + "/plan", modes="true")
    assert (
        called("POST", BRANCH + "/plan", {"basis": kept["basis"]})["plan"]["items"]
        == kept["items"]
        != []
    )
    assert called("POST", BRANCH + "/run", SENT)["revisions"] == {"other": 1}
    assert not called("GET", BRANCH + "/run")["settled"]
    assert called("POST", BRANCH + "/retry")["retried"]
    assert called("POST", BRANCH + "/pause")["targets"]
    assert called("POST", BRANCH + "/resume", {"target": "shop.off"})["by"]
    assert called("POST", BRANCH + "/resume")["still_paused"]
    rolled = called(
        "POST", BRANCH + "/rollback", {"target": "shop.orders", "generation": 1, "reason": "bad"}
    )
    assert rolled["held"]
    assert called("GET", BRANCH + "/plan")["held"][0]["reason"] == "bad"
    assert called("GET", DATASET)["hold"]["generation"] == 1
    assert called("POST", BRANCH + "/resume")["released"] == ["shop.orders"]
    bringing = {"target": "shop.drawn", "from": "delta:/nowhere"}
    assert called("POST", BRANCH + "/import", bringing)["state"] == "copying"
    reverting = BRANCH + "/dataflows/{dataflow}/revert"
    assert called("POST", reverting, {"to": 1, "dry_run": True})["revisions"] == {"shop": 1}

    assert called("POST", "/v1/branches", {"name": "dev"})["expires_at"]
    assert called("GET", "/v1/branches")["items"]
    assert called("POST", "/v1/blueprints", EDITED, branch="dev")["revisions"] == {"other": 2}
    assert called("GET", BRANCH, branch="dev")["dataflows"] == ["other"]
    assert called("GET", BRANCH + "/diff/{other}", other="dev")["components"]
    assert called("POST", BRANCH + "/merge", {"dry_run": True}, branch="dev")["taken"] == [
        "other.x"
    ]
    assert (
        called("PUT", BRANCH + "/protection", {"protected": False}, branch="dev")["name"] == "dev"
    )
    assert called("DELETE", BRANCH, branch="dev")["deleted"] == "dev"
    assert called("GET", BRANCH)["expires_at"] is None
    made = called("POST", "/v1/branches", {"name": "dev", "pinned": True, "publish": True})
    assert (made["pinned"], made["publish"]) == (True, True)
    assert called("POST", BRANCH + "/update", branch="dev")["pinned"]
    assert called("DELETE", BRANCH, branch="dev")["deleted"] == "dev"

    found = called(
        "POST", BRANCH + "/query", {"sql": "SELECT 1 AS one, [{'a': 1.5}] AS list, NULL AS nothing"}
    )
    assert called("GET", BRANCH + "/query/{query}", query=found["result"])["rows"] == [
        [1, [{"a": "1.5"}], None]
    ]
    assert called(
        "POST",
        BRANCH + "/query/promote",
        {"sql": "SELECT k FROM shop.orders", "dataset": "shop.ks"},
    )["text"]
    assert called("GET", DATASET + "/query", dataset="shop.counts")["sql"]
    with place.services.queries.running.running("test", ID, Cancel()):
        assert called("DELETE", BRANCH + "/query/{query}")["cancelled"] == ID

    assert called("POST", "/v1/namespaces", {"name": "team-a"})["name"] == "team-a"
    assert [one["name"] for one in called("GET", "/v1/namespaces")["items"]] == [
        "default",
        "team-a",
    ]
    assert called("GET", "/v1/namespaces/{namespace}")["by"]
    place.world.now += 1.0
    assert called("POST", "/v1/tokens", {"name": "one"})["token"]
    assert called("GET", "/v1/tokens")["items"]
    role = {"permissions": ["data"], "within": {"dataflows": ["shop"]}}
    assert called("POST", "/v1/roles", {"name": "x", **role})["permissions"] == ["view", "data"]
    assert called("GET", "/v1/roles")["items"][-1]["by"]
    assert called("PUT", "/v1/roles/{role}", role)["within"]["dataflows"] == ["shop"]
    assert called("GET", "/v1/roles/{role}")["used_by"] == []
    with issuing() as issuer:
        rule = {
            "name": "ci",
            "use": "exchange",
            "issuer": issuer.url,
            "audience": "us",
            "claims": {"sub": ["u1"]},
        }
        assert called("POST", "/v1/trust", {**rule, "scopes": ["view"]})["open"] == 0
        assert called("POST", "/v1/tokens/exchange", {"token": issuer.token("us")})["rule"] == "ci"
    assert called("GET", "/v1/trust")["items"][0]["open"] == 1
    assert called("POST", "/v1/s3/keys", {"name": "one"})["secret_key"]
    assert called("GET", "/v1/s3/keys")["items"]
    assert called("POST", "/v1/links", {"dataset": "shop.orders"})["url"]
    assert called("GET", "/v1/links")["items"]
    assert called("POST", "/v1/session-links")["path"]
    assert called("POST", "/v1/branches/{branch}/spark-sessions", {"datasets": ["shop.orders"]})[
        "views"
    ]
    assert called("GET", "/v1/spark-sessions")["items"]
    assert called("POST", "/v1/shares", {"name": "sales"})["name"] == "sales"
    tables = "/v1/shares/{share}/tables"
    assert called("POST", tables, {"dataset": "shop.orders"})["tables"]
    assert called("POST", "/v1/recipients", {"name": "bob", "shares": ["sales"]})["profile"]
    assert called("GET", "/v1/recipients")["items"]
    assert called("GET", "/v1/shares")["items"]
    assert called("GET", "/v1/shares/{share}")["recipients"] == ["bob"]
    assert not called("DELETE", tables + "/{table}")["tables"]
    assert (
        called("POST", "/v1/feeds", {"name": "orders", "dataset": "shop.orders"})["generation"] == 1
    )
    for namespace in ("default", "team-a"):
        assert called("POST", "/v1/feeds/{feed}/grants", {"namespace": namespace})["grants"]
    assert called("PUT", "/v1/feeds/{feed}", {"columns": None})["breaches"] == []
    assert called("GET", "/v1/feeds")["items"][0]["columns"]
    assert called("GET", "/v1/offers")["items"][0]["dataflows"] == ["*"]
    assert len(called("DELETE", "/v1/feeds/{feed}/grants/{namespace}")["grants"]) == 1
    assert called("GET", "/v1/feeds/{feed}")["name"] == "orders"
    called("POST", "/v1/gc", {"packs": True})
    called("POST", "/v1/fsck")
    place.world.lake.objects.clear()
    assert called("POST", "/v1/fsck", {"files": True})["findings"]
    assert called("POST", "/v1/fsck", {"repair": True})["repaired"]["fragments"]
    assert called("GET", "/v1/audit")["items"]
    audit.note_read(place.world.ctx, "records", "main", "shop.orders", {"generation": 1})
    assert called("GET", "/v1/audit/reads")["items"]
    feeds.delete(place.world.ctx, "orders")
    called("DELETE", BRANCH + "/dataflows/{dataflow}")
    assert place.answers.keys() == operations(place.document) - WITHOUT_JSON.keys()

    if pytestconfig.getoption("--record-examples"):
        EXAMPLES.write_text(place.examples(), encoding="utf-8")
    assert EXAMPLES.read_text(encoding="utf-8") == place.examples(), (
        "run this file with --record-examples"
    )


def test_a_problem_is_as_described(place: Place) -> None:
    found = place.http.post("/v1/blueprints", json=BAD)
    schema = {"$ref": "#/components/schemas/Problem", "components": place.document["components"]}
    assert (found.status_code, len(found.json()["errors"])) == (422, 2)
    jsonschema_rs.validate(schema, found.json())


def test_an_answer_with_another_field_or_one_less_is_not_as_described(place: Place) -> None:
    status = place.answer("GET", BRANCH + "/status")
    schema = place.schema("get", BRANCH + "/status")
    more, less = copy.deepcopy(status), copy.deepcopy(status)
    more["dataflows"][0]["datasets"][0]["colour"] = "red"
    del less["dataflows"][0]["datasets"][0]["generation"]
    assert (schema.is_valid(status), schema.is_valid(more), schema.is_valid(less)) == (
        True,
        False,
        False,
    )


def test_examples_are_answers_of_their_routes(place: Place) -> None:
    """Also where lists are cut. All routes that answer with JSON have one."""
    with_example = set()
    for method, path in operations(place.document) - WITHOUT_JSON.keys():
        for status, response in place.document["paths"][path][method]["responses"].items():
            if status < "300" and "example" in response["content"]["application/json"]:
                place.schema(method, path).validate(
                    response["content"]["application/json"]["example"]
                )
                with_example.add((method, path))
    assert with_example == operations(place.document) - WITHOUT_JSON.keys() - WITHOUT_EXAMPLE.keys()
