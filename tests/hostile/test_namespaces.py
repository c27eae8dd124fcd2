"""Two namespaces of one installation with dataflows of the same name: whoever has a token, a key or
a driver of one asks for all that the other one has, by every route there is. No answer has a byte
of it, and what is the other's is answered as what is not there."""

from __future__ import annotations

import json
import re
import threading
import time
from base64 import b32encode
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import httpx2
import pytest

from controlplane.api.app import create_app
from controlplane.api.auth import LINK, PUBLIC
from controlplane.api.services import Services
from controlplane.core.compile.nodes import Source
from controlplane.core.model import namespaces
from controlplane.core.model.drivers import Driver
from controlplane.core.model.namespaces import Namespace
from controlplane.operations.context import Context
from controlplane.operations.desired import blueprints, branches, browser_sessions, tokens
from controlplane.operations.feeds.follow import follow
from controlplane.operations.planning.snapshot import desired
from controlplane.services.queries.adapter.query_pool import QueryPool
from controlplane.services.queries.adapter.result_folder import ResultFolder
from controlplane.services.queries.queries import Queries
from controlplane.services.s3.http import presigned
from tests.hostile.routes import queries_of
from tests.unit.api.world import TellingWake, render, serving
from tests.unit.branches.world import BranchWorld
from tests.unit.expectations.world import HEAD

TEAM = "team-b"
SHARED = "  doubled: {{transform: {{sql: 'SELECT k, {factor} * v AS v FROM orders'}}}}\n"
OWN = """
dataflow: FLOW
components:
  ledger:
    read: {connector: files, path: HOME/orders/*.csv, format: csv, options: {header: true}, schema: "k INT, v INT"}
  salaries: {transform: {sql: 'SELECT k, 2 * v AS v FROM ledger'}}
"""


@dataclass(frozen=True)
class Side:
    """A namespace, with who administers it and a driver of it. `flow`, `branch` and `value` are its
    alone."""

    namespace: str
    world: BranchWorld
    flow: str
    branch: str
    value: str  # that its rows have
    token: str
    driver: str  # token
    driver_id: str

    @property
    def ctx(self) -> Context:
        return Context(self.world.store, "default", lake="memory:lake")

    @property
    def names(self) -> dict[str, str]:
        return {
            "branch": self.branch,
            "other": self.branch,
            "dataflow": self.flow,
            "dataset": f"{self.flow}.salaries",
            "run": f"{self.flow}.rev1",
        }

    @property
    def marks(self) -> re.Pattern[str]:
        """What only it has, in any answer."""
        return re.compile(rf"{self.flow}|{self.branch}|{self.value}|{self.driver_id}")


@dataclass(frozen=True)
class Place:
    services: Services
    url: str
    sides: tuple[Side, Side]

    def http(self, side: Side, token: str = "") -> httpx2.Client:
        headers = {"Authorization": f"Bearer {token or side.token}"}
        return httpx2.Client(base_url=self.url, headers=headers, trust_env=False, timeout=60)

    @property
    def pairs(self) -> list[tuple[Side, Side]]:
        """Who asks, and whose it is."""
        one, other = self.sides
        return [(one, other), (other, one)]


def side(world: BranchWorld, namespace: str, flow: str, branch: str, value: int) -> Side:
    world.put("a.csv", (1, value))
    for of, factor in (("main", 1), (branch, 3)):
        if of != "main":
            branches.create(world.ctx, of)
        texts = {
            "shop": HEAD.format(home=world.home) + SHARED.format(factor=factor),
            flow: OWN.replace("HOME", str(world.home)).replace("FLOW", flow),
        }
        sources = [
            blueprints.SentBlueprint(f"/{name}.yaml", text, {}) for name, text in texts.items()
        ]
        blueprints.apply(world.ctx, of, sources)
        world.settle() if of == "main" else world.ran()
    driver_id = namespaces.id_in(namespace, f"driver-{value:012x}")
    with world.store.begin() as tx:
        tx.drivers.put(Driver(driver_id, "local", "driver", tx.now(), tx.now()))
    real = replace(world.ctx, store=world.raw, namespace=namespace)
    token, _ = tokens.create(real, "ann", ("admin",))
    driver, _ = tokens.create(real, "a driver", ("driver",), subject=driver_id)
    return Side(namespace, world, flow, branch, str(value), token, driver, driver_id)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    home = tmp_path_factory.mktemp("two")
    url = f"sqlite:///{home}/metadata.db"
    (home / "a").mkdir()
    (home / "b").mkdir()
    one = BranchWorld(home / "a", url)
    other = BranchWorld(home / "b", url, namespace=TEAM, lake=one.lake)
    with one.raw.begin() as tx:
        tx.namespaces.put(Namespace(TEAM, "ann", tx.now()))
    sides = (
        side(one, "default", "payroll", "secretdev", 70000001),
        side(other, TEAM, "research", "hiddendev", 90000002),
    )
    pool = QueryPool(str(home))
    services = Services(
        one.raw,
        one.lake,
        TellingWake(),
        render,
        lambda driver, _: f"log of {driver}",
        stopping=threading.Event(),
        queries=Queries(pool, ResultFolder(home / "queries")),
    )
    with serving(services) as served:
        yield Place(services, served, sides)
    pool.close()
    one.store.close()
    other.store.close()


def gets(services: Services, names: dict[str, str], ids: list[str]) -> Iterator[str]:
    """Each GET route, filled with names and ids of somebody's."""
    for path, operations in create_app(services).openapi()["paths"].items():
        if (
            "get" not in operations
            or path == LINK
            or path in PUBLIC
            or path.startswith("/v1/namespaces")
        ):
            continue
        given = [p["name"] for p in operations["get"].get("parameters", ()) if p["in"] == "query"]
        queries = queries_of(given)
        queries += [
            {name: names[name]} for name in ("dataflow", "dataset", "branch") if name in given
        ]
        if "target" in given:
            queries += [{"target": names["dataflow"]}, {"target": names["dataset"]}]
        if path == "/v1/events":
            queries = [{"after": "0", "follow": "false", **query} for query in queries]
        filled = path.replace("{format}", "ndjson")
        branch_names = [names["branch"], "main"]
        for branch, id in product(branch_names, ids):
            part = filled.replace("{branch}", branch)
            for name, value in names.items():
                part = part.replace("{" + name + "}", value)
            part = re.sub(r"\{[a-z]+\}", id, part)
            yield from (
                f"{part}?" + "&".join(f"{k}={v}" for k, v in query.items()) for query in queries
            )
            if "{branch}" not in path and not re.search(
                r"\{(attempt|driver|query|share|wave)\}", path
            ):
                break


def ids_of(of: Side) -> list[str]:
    """Of attempts, drivers and runs that it has."""
    with of.world.store.read() as tx:
        past = tx.past_attempts.newest("main", ["shop.doubled"], limit=1)
        assert past
        return [past[0].id, of.driver_id, "1"]


def test_no_answer_tells_of_another_namespace(place: Place) -> None:
    asked = 0
    for who, whose in place.pairs:
        with place.http(who) as http:
            for path in gets(place.services, whose.names, ids_of(whose)):
                found = http.get(path)
                asked += 1
                told = found.text
                # An answer may say what was asked for
                if not found.is_success or path.startswith("/v1/audit"):
                    for sent in (*whose.names.values(), *ids_of(whose)):
                        told = told.replace(sent, "")
                assert not whose.marks.search(told), path
                if f"/{whose.branch}" in path or whose.flow in path.partition("?")[0]:
                    assert found.status_code in (404, 422), path
    assert asked > 300


def page_paths(of: Side) -> list[str]:
    """Pages and their JSON, with names and ids of somebody's."""
    flow, (attempt, *_) = of.flow, ids_of(of)
    named = [
        f"/flows/{flow}",
        f"/flows/{flow}/blueprint",
        f"/flows/shop?on={flow}.salaries",
        f"/datasets/{flow}.salaries",
        f"/datasets/{flow}.salaries/partition?key=a.csv",
        f"/datasets/{flow}.salaries/compare",
        f"/datasets/shop.doubled?branch={of.branch}",
        f"/branches/main...{of.branch}",
        f"/activity?flow={flow}",
        f"/attempts/{attempt}",
        f"/datasets?q={flow}",
    ]
    plain = [
        "/",
        "/flows",
        "/flows/shop",
        "/datasets",
        "/activity",
        "/branches",
        "/checks",
        "/sources",
        "/plan",
    ]
    return [*named, *plain, "/datasets/shop.doubled", "/settings/tokens", "/settings/care"]


def test_no_page_tells_of_another_namespace(place: Place) -> None:
    for who, whose in place.pairs:
        own_marks = 0
        with place.http(who) as http:
            for path in page_paths(whose):
                found = http.get(path, headers={"Accept": "text/html"})
                told = found.text
                # A page may say what it was asked for
                for sent in (*whose.names.values(), *ids_of(whose)):
                    told = (
                        told.replace(sent, "")
                        if sent in path or path.startswith("/settings")
                        else told
                    )
                assert not whose.marks.search(told), path
                own_marks += bool(who.marks.search(told))
            assert f"namespace {TEAM}" in http.get("/").text or who.namespace == "default"
        assert own_marks >= 4


def test_the_same_name_is_ones_own(place: Place) -> None:
    for who, whose in place.pairs:
        with place.http(who) as http:
            rows = who.world.rows("shop.doubled")
            assert rows == [(1, int(who.value))]
            assert sorted(http.get("/v1/branches").json()["items"], key=str)
            names = {
                flow["name"] for flow in http.get("/v1/branches/main/dataflows").json()["items"]
            }
            assert names == {"shop", who.flow}
            events = http.get("/v1/events?after=0&follow=false").text
            assert who.flow in events
            assert whose.flow not in events


def test_a_tokens_text_opens_its_own_namespace_alone(place: Place) -> None:
    """Whatever stands before the point: the text is looked up whole."""
    one, other = place.sides
    secret = other.token.removeprefix("hg_").partition(".")[2]
    forged = [
        f"hg_{secret}",
        f"hg_default.{secret}",
        f"hg_{TEAM}.{one.token.removeprefix('hg_')}",
        f"hg_{TEAM}.",
        f"hg_team-c.{secret}",
        f"hg_../{TEAM}.{secret}",
        f"hg_{TEAM}.{TEAM}.{secret}",
    ]
    for text in forged:
        with place.http(one, text) as http:
            assert http.get("/v1/branches").status_code == 401, text


def test_namespaces_and_tokens_of_others_are_the_installations(place: Place) -> None:
    one, other = place.sides
    with place.http(other) as http:
        for method, path, body in (
            ("GET", "/v1/namespaces", None),
            ("POST", "/v1/namespaces", {"name": "team-c"}),
            ("GET", "/v1/namespaces/default", None),
            ("DELETE", f"/v1/namespaces/{TEAM}", None),
            ("POST", "/v1/tokens", {"name": "x", "namespace": "default"}),
            ("POST", "/v1/tokens", {"name": "x", "namespace": "team-c"}),
        ):
            found = http.request(method, path, json=body)
            assert (found.status_code, found.json()["type"]) == (403, "urn:headgate:forbidden"), (
                path
            )
        assert "headgate_http_answers" not in http.get("/metrics").text
    with place.http(one) as http:
        assert 'headgate_namespace_tasks{namespace="team-b"}' in http.get("/metrics").text
        assert (
            http.delete(f"/v1/namespaces/{TEAM}").json()["type"] == "urn:headgate:namespace-in-use"
        )
        assert (
            http.delete("/v1/namespaces/default").json()["type"] == "urn:headgate:namespace-in-use"
        )
        for name in ("../x", "Team", "a", "a--b", "a_b", "x" * 41, "main", "-a-", "a.b"):
            assert (
                http.post("/v1/namespaces", json={"name": name}).json()["type"]
                == "urn:headgate:bad-namespace"
            )


def test_answers_to_repeated_requests_are_kept_apart(place: Place) -> None:
    """The same key and body: each namespace does its own work."""
    found = []
    for who in place.sides:
        with place.http(who) as http:
            answers = [
                http.post(
                    "/v1/branches/main/pause",
                    json={"target": "shop"},
                    headers={"Idempotency-Key": "same"},
                )
                for _ in range(2)
            ]
            assert answers[0].json() == answers[1].json()
            found.append(answers[0].json())
            assert http.post("/v1/branches/main/resume", json={"target": "shop"}).is_success
    with place.sides[1].world.store.read() as tx:
        assert len([c for c in tx.audit.changes("main") if c.action == "pause"]) == 1
    assert len(found) == 2


def test_sql_reads_and_ends_nothing_of_others(place: Place) -> None:
    for who, whose in place.pairs:
        with place.http(who) as http, place.http(whose) as theirs:
            for table in (f"{whose.flow}.salaries", f"{whose.branch}.shop.doubled"):
                found = http.post("/v1/branches/main/query", json={"sql": f"SELECT * FROM {table}"})
                assert found.status_code == 422
                assert whose.value not in found.text
            for place_in_path in (
                f"{whose.namespace}.main.shop.doubled",
                f"'{whose.namespace}/shop/doubled'",
            ):
                found = http.post(
                    "/v1/branches/main/query", json={"sql": f"SELECT * FROM {place_in_path}"}
                )
                assert found.status_code == 422
            result = theirs.post(
                "/v1/branches/main/query", json={"sql": f"SELECT '{whose.value}' AS v"}
            ).json()
            assert theirs.get(f"/v1/branches/main/query/{result['result']}").json()["rows"] == [
                [whose.value]
            ]
            assert http.get(f"/v1/branches/main/query/{result['result']}").status_code == 404


def keys(place: Place) -> list[dict[str, Any]]:
    """An S3 key of each side that reads all of main."""
    made = []
    for who in place.sides:
        with place.http(who) as http:
            made.append(
                http.post(
                    "/v1/s3/keys", json={"name": f"k{time.monotonic()}", "read": ["main"]}
                ).json()
            )
    return made


def signed(place: Place, path: str, access_key: str, secret: str) -> httpx2.Response:
    url = presigned.url(place.url, path, access_key, secret, now=time.time(), expires_s=600)
    return httpx2.get(url, trust_env=False)


def test_a_bucket_is_a_namespace_and_a_key_has_one(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = keys(place)
    for (who, whose), own, other in zip(place.pairs, made, reversed(made), strict=True):
        assert namespaces.of_id(own["access_key"]) == who.namespace
        listed = signed(place, "", own["access_key"], own["secret_key"]).text
        assert f"<Name>{who.namespace}</Name>" in listed
        assert f"<Name>{whose.namespace}</Name>" not in listed
        mine = signed(place, f"{who.namespace}", own["access_key"], own["secret_key"])
        assert mine.status_code == 200
        for path in (
            whose.namespace,
            f"{whose.namespace}/main/shop/doubled/x",
            f"{whose.namespace}/main",
        ):
            found = signed(place, path, own["access_key"], own["secret_key"])
            assert (found.status_code, "NoSuchBucket" in found.text) == (404, True)
        for path in (
            f"{who.namespace}/../{whose.namespace}/main",
            f"{who.namespace}/main/{whose.flow}/salaries/x",
        ):
            found = signed(place, path, own["access_key"], own["secret_key"])
            assert found.status_code in (400, 403, 404)
            assert not whose.marks.search(found.text.replace(path, ""))
        digits = own["access_key"].partition("n")[0]
        for forged in (
            digits,
            digits + "n" + b32encode(whose.namespace.encode()).decode().rstrip("=").lower(),
        ):
            if forged != own["access_key"]:
                assert signed(place, whose.namespace, forged, own["secret_key"]).status_code == 403
        assert (
            signed(place, whose.namespace, other["access_key"], own["secret_key"]).status_code
            == 403
        )


def test_a_recipient_reads_shares_of_its_namespace(place: Place) -> None:
    profiles = []
    for who in place.sides:
        with place.http(who) as http:
            assert http.post("/v1/shares", json={"name": "sales"}).is_success
            added = http.post(
                "/v1/shares/sales/tables",
                json={"dataset": f"{who.flow}.salaries", "as": f"{who.flow}.t"},
            )
            assert added.is_success
            made = http.post("/v1/recipients", json={"name": "bob", "shares": ["sales"]}).json()
            profiles.append(made["profile"])
    for (who, whose), profile in zip(place.pairs, profiles, strict=True):
        headers = {"Authorization": f"Bearer {profile['bearerToken']}"}
        with httpx2.Client(headers=headers, trust_env=False) as http:
            base = profile["endpoint"]
            tables = http.get(f"{base}/shares/sales/all-tables").json()["items"]
            assert [one["schema"] for one in tables] == [who.flow]
            assert (
                http.get(f"{base}/shares/sales/schemas/{whose.flow}/tables/t/metadata").status_code
                == 404
            )
            answer = http.post(f"{base}/shares/sales/schemas/{who.flow}/tables/t/query", json={})
            assert answer.is_success
            assert f"/{who.namespace}/main/" in answer.text
            assert f"/{whose.namespace}/main/" not in answer.text
            (file,) = [line for line in map(_json, answer.text.splitlines()) if "file" in line]
            forged = file["file"]["url"].replace(
                f"/{who.namespace}/main/", f"/{whose.namespace}/main/"
            )
            assert httpx2.get(forged, trust_env=False).status_code == 403


def _json(line: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(line)
    return found


def test_a_link_opens_in_its_own_namespace(place: Place) -> None:
    for who, whose in place.pairs:
        with place.http(who) as http, place.http(whose) as theirs:
            made = http.post(
                "/v1/links", json={"dataset": "shop.doubled", "format": "ndjson"}
            ).json()
            url = made["url"]
            assert httpx2.get(url, trust_env=False).status_code == 200
            secret = url.partition("signature=")[2].rpartition(".")[2]
            for prefix in (f"{whose.namespace}.", "" if who.namespace != "default" else f"{TEAM}."):
                forged = url.partition("signature=")[0] + f"signature={prefix}{secret}"
                assert httpx2.get(forged, trust_env=False).status_code == 403
            assert theirs.delete(f"/v1/links/{made['id']}").status_code == 404
            assert all(one["id"] != made["id"] for one in theirs.get("/v1/links").json()["items"])


def test_a_session_is_of_its_tokens_namespace(place: Place) -> None:
    store = place.services.store
    for who, whose in place.pairs:
        token = tokens.authenticate(store, who.token)
        assert token is not None
        text = browser_sessions.begin(store, token)
        opened = browser_sessions.authenticate(store, text)
        assert opened is not None
        assert opened.namespace == who.namespace
        secret = text.rpartition(".")[2]
        for forged in (
            f"{whose.namespace}.{secret}",
            secret if who.namespace != "default" else f"{TEAM}.{secret}",
        ):
            assert browser_sessions.authenticate(store, forged) is None


def test_a_driver_gets_and_reports_work_of_its_namespace(place: Place) -> None:
    latest = max(one.world.now for one in place.sides)
    attempts = {}
    for who, whose in place.pairs:
        who.world.now = latest + 100.0  # they have one database, and clocks of their own
        who.world.put("new.csv", (2, int(who.value)))
        who.world.refresh()
        who.world.once()
        with place.http(who, who.driver) as http:
            claim = {"contract": 1, "kinds": ["list", "parse", "transform"], "wait_s": 0}
            given = http.post("/v1/driver/claim", json=claim)
            assert str(who.world.home) in given.text
            assert str(whose.world.home) not in given.text
            assert given.json()["prefix"].startswith(f"{who.namespace}/")
            attempts[who.namespace] = given.json()["attempt"]
    for who, whose in place.pairs:
        theirs, own = attempts[whose.namespace], attempts[who.namespace]
        with place.http(who, who.driver) as http:
            report = http.post("/v1/driver/report", json={"attempt": theirs, "results": []})
            assert report.json()["type"] == "urn:headgate:fenced"
            assert http.post("/v1/driver/heartbeat", json={"attempts": [theirs, own]}).json()[
                "fenced"
            ] == [theirs]
        with place.http(who) as http:
            assert http.get(f"/v1/drivers/{whose.driver_id}/log").status_code == 404
            assert http.get(f"/v1/drivers/{who.driver_id}/log").status_code == 200
            assert http.get(f"/v1/attempts/{theirs}/log").status_code == 404


def test_a_feed_that_is_not_granted_is_not_there(place: Place) -> None:
    for who, _ in place.pairs:
        with place.http(who) as http:
            made = http.post(
                "/v1/feeds", json={"name": f"of_{who.flow}", "dataset": f"{who.flow}.salaries"}
            )
            assert made.is_success, made.text
            assert http.post(
                f"/v1/feeds/of_{who.flow}/grants", json={"namespace": "team-x"}
            ).is_success
    for who, whose in place.pairs:
        feed = f"of_{whose.flow}"
        with place.http(who) as http:
            for method, path, body in (
                ("GET", "/v1/feeds", None),
                ("GET", "/v1/offers", None),
                ("GET", f"/v1/feeds/{feed}", None),
                ("DELETE", f"/v1/feeds/{feed}", None),
                ("POST", f"/v1/feeds/{feed}/grants", {"namespace": who.namespace}),
                ("DELETE", f"/v1/feeds/{feed}/grants/team-x", None),
            ):
                found = http.request(method, path, json=body)
                assert (
                    found.is_success
                    if path in ("/v1/feeds", "/v1/offers")
                    else found.status_code == 404
                )
                assert not whose.marks.search(found.text.replace(feed, "")), path
        assert followed(who, whose.namespace, feed) == followed(
            who, whose.namespace, "of_nobody"
        ).replace("of_nobody", feed)
        with place.http(whose) as http:
            assert http.get(f"/v1/feeds/{feed}").json()["readers"] == []
    for who, _ in place.pairs:
        with place.http(who) as http:
            assert http.delete(f"/v1/feeds/of_{who.flow}").is_success


def followed(who: Side, namespace: str, feed: str) -> str:
    """What a read component of this feed is told, which gets nothing."""
    text = f"dataflow: spy\ncomponents: {{got: {{read: {{connector: feed, feed: {feed}, namespace: {namespace}}}}}}}"
    ctx = replace(who.ctx, store=who.world.raw, namespace=who.namespace)
    blueprints.apply(ctx, "main", [blueprints.SentBlueprint("/spy.yaml", text, {})])
    with who.world.raw.read(who.namespace) as tx:
        node = desired(tx, "main", namespace=who.namespace).nodes["spy.got"]
    assert isinstance(node, Source)
    assert follow(who.world.raw, who.world.lake, who.namespace, "main", node) == 1
    assert follow(who.world.raw, who.world.lake, who.namespace, "main", node) == 0
    with who.world.raw.read(who.namespace) as tx:
        known = tx.listings.get([node.listing])[node.listing]
    blueprints.delete(ctx, "main", "spy")
    assert known.root is None
    assert known.error is not None
    return known.error["message"]
