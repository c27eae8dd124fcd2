"""Queries over HTTP, as any client asks them."""

from __future__ import annotations

import io
import json
import threading
from collections.abc import Iterator

import httpx2
import pyarrow as pa
import pytest

from controlplane.api.services import Services
from controlplane.client import ApiError, Headgate
from controlplane.lake.lake_objects import open_lake
from controlplane.operations.context import Context
from controlplane.operations.desired import tokens
from tests.unit.api.world import TellingWake, render, serving
from tests.unit.diffs.world import rows
from tests.unit.queries.test_processes import ENDLESS, LARGE
from tests.unit.queries.world import World, process_of, world_in

ID = "0123456789abcdef"


class Served:
    def __init__(self, world: World, services: Services, url: str, token: str) -> None:
        self.world, self.services, self.url, self.token = world, services, url, token

    def client(self) -> Headgate:
        return Headgate(self.url, self.token)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("api")
    with world_in(folder) as world:
        services = Services(
            world.store,
            open_lake(str(folder)),
            TellingWake(),
            render,
            lambda *_: "",
            stopping=threading.Event(),
            queries=world.queries,
        )
        token, _ = tokens.create(Context(world.store), "test", ("admin",))
        world.commit({"": rows((1, "a"), (2, "b"))})
        world.commit({"": rows((3, "c"))})
        with serving(services) as url:
            yield Served(world, services, url, token)


def test_rows(served: Served) -> None:
    with served.client() as client:
        found = client.query(
            "SELECT k, v FROM shop.totals@1 WHERE k > $least ORDER BY k", parameters={"least": 0}
        )
    assert found["columns"] == [{"name": "k", "type": "BIGINT"}, {"name": "v", "type": "VARCHAR"}]
    assert found["rows"] == [[1, "a"], [2, "b"]]
    assert found["generations"] == {"shop.totals@1": 1}


def test_all_pages_are_put_together(served: Served) -> None:
    with served.client() as client:
        found = client.query("FROM range(25000)", limit=21_000)
    assert [row[0] for row in found["rows"]] == list(range(21_000))
    assert (found["more"], found["next"]) == (True, None)


def test_a_problem_has_its_place(served: Served) -> None:
    with served.client() as client, pytest.raises(ApiError) as refused:
        client.query("SELECT *\nFROM shop.total")
    assert (refused.value.status, refused.value.code) == (422, "query-refused")
    (problem,) = refused.value.problem["errors"]
    assert (problem["line"], problem["column"], problem["code"]) == (2, 6, "unknown-table")
    assert problem["hint"] == "did you mean shop.totals?"


def test_a_stream_of_arrow(served: Served) -> None:
    with served.client() as client:
        stream = b"".join(client.query_arrow("SELECT k FROM shop.totals@1 ORDER BY k"))
    assert pa.ipc.open_stream(io.BytesIO(stream)).read_all().to_pylist() == [{"k": 1}, {"k": 2}]


def test_an_error_of_a_stream_is_a_problem(served: Served) -> None:
    with served.client() as client, pytest.raises(ApiError, match=r"shop\.total "):
        list(client.query_arrow("FROM shop.total"))


def test_who_leaves_a_stream_ends_its_query(served: Served) -> None:
    with served.client() as client:
        stream = client.query_arrow(LARGE, timeout_s=500)
        next(stream)
        (child,) = served.world.pool._busy
        stream.close()
    process_of(child).wait()
    with served.client() as client:
        assert client.query("SELECT 1")["rows"] == [[1]]


def test_who_leaves_before_the_answer_ends_the_query(served: Served) -> None:
    headers = {"Authorization": f"Bearer {served.token}"}
    path, body = "/v1/branches/main/query", {"sql": ENDLESS, "timeout_s": 500}
    with (
        httpx2.Client(base_url=served.url, headers=headers, timeout=httpx2.Timeout(1.0)) as http,
        pytest.raises(httpx2.ReadTimeout),
    ):
        http.post(path, json=body)
    while served.world.pool._busy:
        pass
    with served.client() as client:
        assert client.query("SELECT 1")["rows"] == [[1]]


def test_a_query_that_runs_is_cancelled(served: Served) -> None:
    ended = list[str]()
    with served.client() as client, served.client() as other:

        def ask() -> None:
            try:
                client.query(ENDLESS, timeout_s=500, id=ID)
            except ApiError as error:
                ended.append(error.code)

        asking = threading.Thread(target=ask)
        asking.start()
        while not _is_cancelled(other):  # it may not have begun
            pass
        asking.join()
        assert ended == ["query-cancelled"]
        assert other.query("SELECT 1")["rows"] == [[1]]


def _is_cancelled(client: Headgate) -> bool:
    try:
        client.cancel_query(ID)
    except ApiError as error:
        if error.code != "not-found":
            raise
        return False
    return True


def test_bodies_of_other_shapes_are_refused(served: Served) -> None:
    with httpx2.Client(
        base_url=served.url, headers={"Authorization": f"Bearer {served.token}"}
    ) as http:
        path = "/v1/branches/main/query"
        for body in (
            {},
            {"sql": ""},
            {"sql": "SELECT 1", "engine": "x"},
            {"sql": "SELECT 1", "limit": 10**7},
        ):
            assert http.post(path, json=body).status_code == 422, body
        assert http.post("/v1/branches/none/query", json={"sql": "SELECT 1"}).status_code == 404
        assert http.get(f"{path}/{'0' * 64}").status_code == 404
        assert (
            http.post(path, json={"sql": "SELECT 1"}, headers={"Authorization": ""}).status_code
            == 401
        )
        arrow = http.post(
            path,
            json={"sql": "FROM shop.totals"},
            headers={"Accept": "application/vnd.apache.arrow.stream"},
        )
        assert json.loads(arrow.headers["X-Generations"]) == {"shop.totals": 2}


def test_another_user_is_answered_while_one_reads_a_stream(served: Served) -> None:
    other, _ = tokens.create(Context(served.world.store), "other", ("data",))
    path = f"{served.url}/v1/branches/main/query"
    ours, theirs = ({"Authorization": f"Bearer {token}"} for token in (served.token, other))
    with httpx2.Client(trust_env=False, timeout=60) as http:
        arrow = {**ours, "Accept": "application/vnd.apache.arrow.stream"}
        with http.stream("POST", path, json={"sql": LARGE}, headers=arrow) as stream:
            assert stream.status_code == 200
            busy = http.post(path, json={"sql": "SELECT 1", "timeout_s": 0.01}, headers=ours)
            answered = http.post(path, json={"sql": "SELECT 1"}, headers=theirs)
    assert (busy.status_code, busy.json()["type"]) == (503, "urn:headgate:queries-busy")
    assert "of yours" in busy.json()["detail"]
    assert int(busy.headers["retry-after"]) > 0
    assert answered.json()["rows"] == [[1]]
