"""Who may open a Spark session, who may end it, and what ends with a token.

Servers are stood in for here: real ones are in tests/spark/test_connect.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from controlplane.api.routes import spark_sessions
from controlplane.core.rights import TokenScope
from controlplane.operations.desired import tokens
from controlplane.services.sessions.sessions import MOST_VIEWS, SparkSessions
from tests.e2e.workspace import until
from tests.unit.records.conftest import order
from tests.unit.records.world import ORDERS, RecordWorld, Served, served
from tests.unit.sessions.servers import Servers

PATH = "/v1/branches/main/spark-sessions"


@pytest.fixture
def servers() -> Servers:
    return Servers()


@pytest.fixture
def place(tmp_path: Path, servers: Servers) -> Iterator[Served]:
    world = RecordWorld(tmp_path)
    world.commit({"a.csv": [order(1)]})
    world.commit({"a.csv": [order(1)], "b.csv": [order(2)]})
    with served(world, spark_sessions=SparkSessions(servers)) as place:
        yield place


def token(place: Served, name: str, *roles: Any, **more: Any) -> str:
    secret, _ = tokens.create(place.world.ctx, name, roles, **more)
    return secret


def opened(place: Served, secret: str | None = None, **body: Any) -> dict[str, Any]:
    with place.http(secret) as http:
        answer = http.post(PATH, json=body)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def code(answer: httpx2.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["type"].removeprefix("urn:headgate:")


def test_datasets_are_views_by_name_pattern_and_point(place: Served, servers: Servers) -> None:
    found = opened(place, datasets=["shop.*", f"{ORDERS}@1"])
    assert found["views"] == [
        {"name": ORDERS, "generation": 2},
        {"name": f"{ORDERS}@1", "generation": 1},
    ]
    assert [(table["view"], len(table["files"])) for table in servers.tables[0]] == [
        (f"`{ORDERS}`", 2),
        (f"`{ORDERS}@1`", 1),
    ]
    assert found["url"] == "sc://localhost:15002/;token=secret-of-it;user_id=headgate;session_id=s"
    assert found["url"] in found["python"]
    assert opened(place)["views"] == [{"name": ORDERS, "generation": 2}]


def test_it_and_what_it_reads_are_audited_without_its_secret(place: Served) -> None:
    found = opened(place)
    with place.http() as http:
        assert http.delete(f"/v1/spark-sessions/{found['id']}").status_code == 204
        rows, reads = (http.get(path).json()["items"] for path in ("/v1/audit", "/v1/audit/reads"))
        listed = http.get("/v1/spark-sessions").json()["items"]
    told = sorted(
        (row["action"], row["target"]) for row in rows if row["action"].startswith("spark-session.")
    )
    assert told == [("spark-session.end", found["id"]), ("spark-session.open", found["id"])]
    assert [(read["how"], read["dataset"]) for read in reads] == [("spark-session", ORDERS)]
    assert "secret-of-it" not in f"{rows}{reads}{listed}"
    assert listed == []


@pytest.mark.parametrize("roles", [("view",), ("data",), ("operate",)])
def test_who_may_not_edit_opens_none(
    place: Served, servers: Servers, roles: tuple[str, ...]
) -> None:
    with place.http(token(place, "somebody", *roles)) as http:
        assert code(http.post(PATH, json={})) == (403, "forbidden")
    assert servers.tables == []


def test_who_is_narrowed_opens_none(place: Served, servers: Servers) -> None:
    with place.http(
        token(place, "narrow", "edit", "data", within=TokenScope(dataflows=("shop",)))
    ) as http:
        assert http.post(PATH, json={}).status_code == 403
    assert servers.tables == []


def test_one_s_own_are_seen_and_ended_by_oneself_and_who_administers(
    place: Served, servers: Servers
) -> None:
    ann, bob = (token(place, name, "edit", "data") for name in ("ann", "bob"))
    id = opened(place, ann)["id"]
    with place.http(bob) as http:
        assert http.get("/v1/spark-sessions").json()["items"] == []
        assert code(http.delete(f"/v1/spark-sessions/{id}")) == (404, "not-found")
    assert set(servers.live) == {id}
    with place.http() as http:
        assert [one["by"] for one in http.get("/v1/spark-sessions").json()["items"]] == ["ann"]
    with place.http(ann) as http:
        assert http.delete(f"/v1/spark-sessions/{id}").status_code == 204
    assert not servers.live


def test_it_ends_with_the_token_that_opened_it(place: Served, servers: Servers) -> None:
    secret, made = tokens.create(place.world.ctx, "leaves", ("edit", "data"))
    opened(place, secret)
    assert len(servers.live) == 1
    tokens.revoke(place.world.ctx, made.id)
    until(lambda: not servers.live, lambda: "the session ends")


def test_it_does_not_end_with_the_process_where_it_is_not_one_of_it(
    place: Served, servers: Servers
) -> None:
    opened(place, token(place, "ann", "edit", "data"))
    place.services.stopping.set()
    until(lambda: not spark_sessions._watching, lambda: "nobody looks any more")
    assert len(servers.live) == 1


def test_too_many_datasets_have_to_be_named(place: Served, servers: Servers) -> None:
    for number in range(MOST_VIEWS):
        place.world.commit({"": [{"k": number}]}, f"many.d{number}")
    with place.http() as http:
        refused = http.post(PATH, json={})
    assert code(refused)[1] == "query-limit"
    assert "shows 200 at most: name those" in refused.text
    assert len(opened(place, datasets=["many.*"])["views"]) == MOST_VIEWS


@pytest.mark.parametrize(
    "name", ["shop.none", "shop", "../x", f"{ORDERS}@9", "other/../shop.orders"]
)
def test_names_that_mean_nothing(place: Served, servers: Servers, name: str) -> None:
    with place.http() as http:
        assert code(http.post(PATH, json={"datasets": [name]}))[0] == 404
    assert servers.tables == []


def test_a_service_that_offers_none_says_so(tmp_path: Path) -> None:
    with served(RecordWorld(tmp_path)) as place, place.http() as http:
        assert code(http.post(PATH, json={})) == (503, "engine-unavailable")
