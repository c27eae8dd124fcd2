"""A token of one dataflow asks for everything there is of another one: no answer has a byte of its
names, and what must not be seen is answered as what is not there. The requests are made from the
OpenAPI document."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import httpx2
import pytest

from controlplane.api.app import create_app
from controlplane.api.auth import LINK
from controlplane.api.services import Services
from controlplane.core.rights import TokenScope
from controlplane.operations.desired import blueprints, branches, tokens
from controlplane.operations.inspect import overview
from tests.hostile.routes import queries_of
from tests.unit.api.world import TellingWake, render, serving
from tests.unit.branches.world import BranchWorld
from tests.unit.expectations.world import HEAD

SHOP = """
  doubled: {transform: {sql: 'SELECT k, 2 * v AS v FROM orders'}}
  mixed: {transform: {sql: 'SELECT k, v FROM payroll.salaries'}}
  stuck: {transform: {sql: 'SELECT k FROM payroll.wrong'}}
"""
PAYROLL = """
dataflow: payroll
components:
  ledger:
    read: {connector: files, path: HOME/orders/*.csv, format: csv, options: {header: true}, schema: "k INT, v INT"}
  salaries: {transform: {sql: 'SELECT k, 2 * v AS v FROM ledger'}}
  wrong: {transform: {sql: 'SELECT no_such(k) AS k FROM ledger'}}
  bonus: {transform: {sql: 'SELECT k, v FROM shop.doubled'}}
"""
FORBIDDEN = re.compile(r"payroll|ledger|salaries|wrong|bonus|secretdev")
WITHIN = TokenScope(("shop",), (), ("main", "pr-*"))
NAMES = {  # of a parameter: what is seen, what is hidden, and what is not there
    "branch": ("main", "secretdev", "nobranch"),
    "other": ("pr-1", "secretdev", "noother"),
    "dataflow": ("shop", "payroll", "noflow"),
    "dataset": ("shop.mixed", "payroll.salaries", "noset.salaries"),
    "run": ("shop.rev1", "payroll.rev1", "norun.rev1"),
}
TARGETS = ("shop", "payroll", "noflow"), ("shop.stuck", "payroll.salaries", "noset.salaries")


@dataclass(frozen=True)
class Place:
    world: BranchWorld
    services: Services
    url: str

    def http(self, within: TokenScope = WITHIN, *roles: str) -> httpx2.Client:
        text, _ = tokens.create(self.world.ctx, f"t{len(roles)}", roles or ("data",), within=within)
        headers = {"Authorization": f"Bearer {text}"}
        return httpx2.Client(base_url=self.url, headers=headers, trust_env=False, timeout=60)


def apply(world: BranchWorld, branch: str, factor: int) -> None:
    texts = {
        "shop": HEAD.format(home=world.home) + SHOP,
        "payroll": PAYROLL.replace("HOME", str(world.home)),
    }
    found = [(flow, text.replace("2 * v", f"{factor} * v")) for flow, text in texts.items()]
    sources = [blueprints.SentBlueprint(f"/{flow}.yaml", text, {}) for flow, text in found]
    blueprints.apply(world.ctx, branch, sources)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    world = BranchWorld(tmp_path)
    world.put("a.csv", (1, 10))
    apply(world, "main", 2)
    world.settle()
    for name in ("secretdev", "pr-1"):
        branches.create(world.ctx, name)
        apply(world, name, 3)
    world.ran()
    services = Services(
        world.store, world.lake, TellingWake(), render, lambda *_: "", stopping=threading.Event()
    )
    with serving(services) as served:
        yield Place(world, services, served)
    world.store.close()


def requests(services: Services) -> Iterator[tuple[str, list[str]]]:
    """Of each GET route: a path, and all that is put in for its names."""
    for path, operations in create_app(services).openapi()["paths"].items():
        if "get" not in operations or path == LINK:  # which no token opens
            continue
        given = [p["name"] for p in operations["get"].get("parameters", ()) if p["in"] == "query"]
        queries = queries_of(given)
        for triple in TARGETS if "target" in given else ():
            queries += [{"target": name} for name in triple]
        for name in ("dataflow", "dataset", "branch"):
            queries += [{name: value} for value in NAMES[name]] if name in given else []
        if "events" in path:
            queries = [{"after": "0", "follow": "false", **query} for query in queries]
        inside = [name for name in NAMES if "{" + name + "}" in path]
        for values in product(*(NAMES[name] for name in inside)):
            filled = path
            for name, value in zip(inside, values, strict=True):
                filled = filled.replace("{" + name + "}", value)
            filled = filled.replace("{format}", "ndjson")
            filled = re.sub(r"\{[a-z]+\}", "a" * 32, filled)
            yield filled, ["&".join(f"{k}={v}" for k, v in query.items()) for query in queries]


def told(answer: httpx2.Response) -> Any:
    """Without what differs by request, and without the text of a dataflow that is seen."""
    of_rows = answer.is_success and ("/records" in answer.url.path or "/changes" in answer.url.path)
    if of_rows or "json" not in answer.headers["content-type"]:
        return answer.text
    body = answer.json()
    if isinstance(body, dict):
        body.pop("request_id", None)
        if "components" in body and "text" in body:
            del body["text"]
    return body


def test_no_answer_to_a_get_has_a_hidden_name_and_hidden_is_as_not_there(place: Place) -> None:
    answers: dict[str, tuple[int, str]] = {}
    pairs = {(hidden, absent) for _, hidden, absent in (*NAMES.values(), *TARGETS)}
    compared = 0
    with place.http() as http:
        for path, queries in requests(place.services):
            for query in queries:
                answer = http.get(f"{path}?{query}" if query else path)
                answers[f"{path}?{query}"] = answer.status_code, json.dumps(told(answer))
                assert not FORBIDDEN.search(json.dumps(dict(answer.headers))), path
    assert {code for code, _ in answers.values()} <= {200, 403, 404, 422, 409, 410}
    for asked, (code, body) in answers.items():
        sent = [hidden for hidden, _ in pairs if hidden in asked] if code >= 400 else []
        said = body
        for name in sorted(sent, key=len, reverse=True):
            said = said.replace(name, "")
        assert not FORBIDDEN.search(said), (asked, body)
        for hidden, absent in pairs:
            if hidden in asked and (other := answers.get(asked.replace(hidden, absent))):
                assert (code, body) == (other[0], other[1].replace(absent, hidden)), asked
                compared += 1
    seen = [asked for asked, (code, _) in answers.items() if code == 200]
    assert (len(seen) > 30, compared > 100) == (True, True)
    assert any("shop.mixed/why" in asked for asked in seen)


def test_lists_have_what_is_seen(place: Place) -> None:
    with place.http() as http:
        flows = http.get("/v1/branches/main/dataflows").json()["items"]
        status = http.get("/v1/branches/main/status").json()
        there = http.get("/v1/branches").json()["items"]
        runs = http.get("/v1/branches/main/runs").json()["items"]
        plan = http.get("/v1/branches/main/plan")
        events = http.get("/v1/events?after=0&follow=false").text
    assert [flow["name"] for flow in flows] == ["shop"]
    assert [flow["name"] for flow in status["dataflows"]] == ["shop"]
    assert {item["dataset"].partition(".")[0] for item in plan.json()["items"]} <= {"shop"}
    assert {d["name"] for d in status["dataflows"][0]["datasets"]} == {
        "shop.orders",
        "shop.doubled",
        "shop.mixed",
        "shop.stuck",
    }
    assert [branch["name"] for branch in there] == ["pr-1"]
    assert runs
    assert {run["id"].partition(".")[0] for run in runs} == {"shop"}
    assert plan.status_code == 200
    assert "shop.doubled" in events


def pages(http: httpx2.Client, path: str, parameter: str) -> list[list[dict[str, Any]]]:
    """The items of each page, of one item at most."""
    answer = http.get(path).json()
    items = [answer["items"]]
    while (following := answer["next"]) is not None:
        answer = http.get(f"{path}&{parameter}={following}").json()
        items.append(answer["items"])
    return items


def test_pages_and_totals_count_what_is_seen(place: Place) -> None:
    path = "/v1/branches/main"
    with place.http() as http, place.http(TokenScope(), "data") as wide:
        every_wave = http.get(f"{path}/waves").json()["items"]
        waves = pages(http, f"{path}/waves?limit=1", "before")
        plan = http.get(f"{path}/plan?dataflow=shop").json()
        wide_plan = wide.get(f"{path}/plan?dataflow=shop").json()
        planned = pages(http, f"{path}/plan?dataflow=shop&limit=1", "after")
        run = http.get(f"{path}/run?dataflow=shop&since=0").json()
        wide_run = wide.get(f"{path}/run?dataflow=shop&since=0").json()
        part = http.get(f"{path}/datasets/shop.mixed/lineage?limit=1").json()
        whole_part = http.get(f"{path}/datasets/shop.mixed/lineage").json()
    assert [[wave] for wave in every_wave] == waves
    assert "payroll.wrong" in [failed["dataset"] for failed in wide_plan["failed"]]
    assert "payroll" not in str(plan)
    assert plan["certain"] + plan["possible"] == sum(item["tasks"] for item in plan["items"])
    assert [[item] for item in plan["items"]] == planned or planned == [plan["items"]] == [[]]
    assert run["tasks"]["failed"] == sum(
        dataset["state"] == "failed" for dataset in run["datasets"]
    )
    assert run["state"] != wide_run["state"] == "failed", "a hidden dataset failed"
    assert 0 < run["tasks"]["executed"] < wide_run["tasks"]["executed"]
    assert len(whole_part["links"]) == len(part["links"]) + part["more"]
    assert [note for note in part["notes"] if "more components" in note] == []


def test_a_plan_over_hidden_inputs_is_carried_out(place: Place) -> None:
    """What it rests on is compared as far as it was shown."""
    with place.http(WITHIN, "edit") as http:
        plan = http.get("/v1/branches/main/plan?dataflow=shop").json()
        carried = http.post(
            "/v1/branches/main/plan", json={"blueprints": [], "basis": plan["basis"]}
        )
    assert carried.status_code == 200, carried.text


def test_only_texts_have_gaps(place: Place) -> None:
    """Lists leave out what is hidden; a gap stands in a sentence."""
    gaps = re.compile(r'"([a-z_]+)": ?"([^"]*\(hidden\)[^"]*)"')
    with place.http() as http:
        paths = [
            f"{path}?{query}" for path, queries in requests(place.services) for query in queries
        ]
        texts = [answer.text for path in paths if (answer := http.get(path)).is_success]
    assert not any('"(hidden)"' in text for text in texts)
    fields = {field for text in texts for field, _ in gaps.findall(text)}
    assert {"reason"} <= fields <= {"reason", "sentence", "path", "message"}


def test_a_stream_knows_names_that_came_after_it_began(place: Place) -> None:
    with (
        place.http(TokenScope(branches=("main", "pr-*"))) as http,
        http.stream("GET", "/v1/events") as stream,
    ):
        lines = stream.iter_lines()
        assert next(lines) == ": events"
        for name in ("secretdev2", "pr-2"):
            branches.create(place.world.ctx, name)
        place.services.wake.notify()
        told = next(line for line in lines if line.startswith("data: "))
    assert json.loads(told.removeprefix("data: "))["dataset"] == "pr-2"


def test_what_is_told_of_a_branch_is_hidden_when_it_has_ended(place: Place) -> None:
    """Events and the list of branches name branches that are no more."""
    branches.create(place.world.ctx, "pr-2", source="secretdev")
    branches.create(place.world.ctx, "pr1")
    for name in ("secretdev", "pr1"):
        branches.delete(place.world.ctx, name)
    everything = overview.events(place.world.ctx, None, 0)
    assert {"branch.create", "branch.delete"} <= {
        event["kind"] for event in everything if event["dataset"] == "secretdev"
    }
    with place.http(TokenScope(("shop",), (), ("main", "pr*"))) as http:
        told = http.get("/v1/events?after=0&follow=false").text
        listed = http.get("/v1/branches").json()["items"]
    assert not FORBIDDEN.search(told)
    assert told.count('"dataset": "pr1"') == 2, "a branch is no dataflow"
    assert {branch["name"]: branch["source"] for branch in listed} == {
        "pr-1": "main",
        "pr-2": "(hidden)",
    }


def test_datasets_one_by_one(place: Place) -> None:
    with place.http(TokenScope(datasets=("shop.doubled",))) as http:
        assert http.get("/v1/branches/main/datasets/shop.doubled").status_code == 200
        assert http.get("/v1/branches/main/datasets/shop.orders").status_code == 404
        assert http.get("/v1/branches/main/dataflows/shop").status_code == 404, (
            "its text names all of it"
        )
        (flow,) = http.get("/v1/branches/main/status").json()["dataflows"]
        assert [dataset["name"] for dataset in flow["datasets"]] == ["shop.doubled"]
        assert "orders" not in http.get("/v1/branches/main/datasets/shop.doubled/why").text


def test_operators_act_on_what_they_see(place: Place) -> None:
    with place.http(WITHIN, "operate") as http:
        for verb in ("refresh", "retry", "pause", "resume"):
            path = f"/v1/branches/main/{verb}"
            assert http.post(path, json={"target": "shop.doubled"}).status_code == 200
            hidden, absent = (
                http.post(path, json={"target": name}) for name in ("payroll", "nosuch")
            )
            assert (hidden.status_code, told(hidden)) == (404, told(absent))
        wish, key = {"target": "shop.mixed"}, {"Idempotency-Key": "once"}
        first, again = (
            http.post("/v1/branches/main/refresh", json=wish, headers=key) for _ in range(2)
        )
        assert (first.status_code, first.json()) == (again.status_code, again.json())
        assert first.json()["listings"] == 1, "of its upstream"
        assert not FORBIDDEN.search(first.text)
        assert http.post("/v1/branches/main/refresh").status_code == 403
        assert http.post("/v1/branches/main/pause").json()["targets"] == ["shop"]
        rollback = {"target": "payroll.salaries", "generation": 1}
        assert http.post("/v1/branches/main/rollback", json=rollback).status_code == 404
        assert http.post("/v1/branches/secretdev/retry").status_code == 404


def test_editors_edit_and_read_what_they_see(place: Place) -> None:
    def sent(name: str, text: str) -> dict[str, Any]:
        return {"blueprints": [{"name": f"/{name}.yaml", "text": text}]}

    mine = "dataflow: shop\ncomponents:\n  one: {transform: {sql: 'SELECT k FROM NAME'}}\n"
    with place.http(WITHIN, "edit") as http:
        for path in ("/v1/blueprints", "/v1/blueprints?dry_run=true", "/v1/branches/main/run"):
            theirs = sent("payroll", "dataflow: payroll\ncomponents: {}\n")
            absent = sent("nosuch", "dataflow: nosuch\ncomponents: {}\n")
            refused, unknown = http.post(path, json=theirs), http.post(path, json=absent)
            assert refused.status_code == unknown.status_code == 404, refused.text
            assert json.dumps(told(refused)).replace("payroll", "nosuch") == json.dumps(
                told(unknown)
            )
            reads, lacks = (
                http.post(path, json=sent("shop", mine.replace("NAME", n)))
                for n in ("payroll.salaries", "nosuch.salaries")
            )
            assert reads.status_code == lacks.status_code == 422
            assert json.dumps(told(reads)).replace("payroll", "nosuch") == json.dumps(told(lacks))
        assert http.delete("/v1/branches/main/dataflows/payroll").status_code == 404
        assert http.post("/v1/branches", json={"name": "pr-2"}).status_code == 403, (
            "it has all dataflows"
        )
    with place.http(TokenScope(branches=("pr-*",)), "edit", "edit") as http:
        assert http.post("/v1/branches", json={"name": "other"}).status_code == 403
        assert (
            http.post("/v1/branches", json={"name": "pr-2", "source": "secretdev"}).status_code
            == 404
        )
        assert http.post("/v1/branches", json={"name": "pr-2", "source": "pr-1"}).status_code == 201
        assert http.post("/v1/branches/pr-1/merge", json={"into": "main"}).status_code == 404
        assert http.post("/v1/branches/secretdev/merge", json={"into": "pr-1"}).status_code == 404
        assert http.get("/v1/branches/main/status").status_code == 404
        assert http.get("/v1/branches/pr-1/status").status_code == 200
