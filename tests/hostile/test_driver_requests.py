"""Requests of drivers that no driver would send: refused in words, and nothing breaks."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx2
import pytest

from dataplane.contract.schemas import Json
from tests.hostile.attacked import attacked

CLAIM: Json = {"contract": 1, "kinds": ["list"], "wait_s": 0}
REPORT: Json = {"attempt": "a" * 32, "results": []}
RESULT: Json = {"task": "0" * 64, "epoch": 1, "state": "done"}
ODD: tuple[Json, ...] = (
    "\ud800",
    "\0",
    "",
    "x" * 100_000,
    -1,
    10**400,
    1.5,
    1e308,
    True,
    None,
    [],
    [[]],
    [{}],
    [None],
    ["\ud800"],
    ["\0"],
    ["x"] * 100_000,
    ["list"] * 100_000,
    {},
    {"\ud800": "\0"},
)
NOT_JSON = (
    b"",
    b"{",
    b"[]",
    b"1",
    b'"x"',
    b"null",
    b"\xff",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"a":' + b"9" * 5_000,
)
FIELDS = [
    *(("claim", name, CLAIM) for name in ("contract", "kinds", "wait_s", "sizes")),
    ("heartbeat", "attempts", {"attempts": []}),
    *(("report", name, REPORT) for name in ("attempt", "results")),
]
GOOD: Json = {
    ("heartbeat", "attempts"): ([],),
    ("report", "results"): ([],),
    ("claim", "wait_s"): (1.5,),
}


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    with attacked(tmp_path_factory.mktemp("home")) as world, world.http(world.driver) as http:
        yield http


def refused(answer: httpx2.Response) -> bool:
    if not 400 <= answer.status_code < 500:
        return False
    assert answer.headers["content-type"] == "application/problem+json"
    return set(answer.json()) == {"type", "title", "status", "detail", "request_id", "errors"}


@pytest.mark.parametrize(("route", "field", "body"), FIELDS)
def test_a_field_of_another_shape_is_refused(
    driver: httpx2.Client, route: str, field: str, body: Json
) -> None:
    for value in ODD:
        if value in GOOD.get((route, field), ()):
            continue
        sent = json.dumps({**body, field: value}).encode()
        answer = driver.post(f"/v1/driver/{route}", content=sent)
        assert refused(answer), (value if len(sent) < 1_000 else len(sent), answer.text)


@pytest.mark.parametrize("field", [*RESULT, None])
def test_a_report_with_odd_results_is_refused(driver: httpx2.Client, field: str | None) -> None:
    for value in ODD:
        result = value if field is None else {**RESULT, field: value}
        answer = driver.post(
            "/v1/driver/report", content=json.dumps({**REPORT, "results": [result]}).encode()
        )
        assert refused(answer), answer.text


@pytest.mark.parametrize(
    "route", ["claim", "heartbeat", "report", "\ud800".encode(errors="surrogatepass").hex(), "%00"]
)
def test_what_is_no_json_object_is_refused(driver: httpx2.Client, route: str) -> None:
    for sent in NOT_JSON:
        assert refused(driver.post(f"/v1/driver/{route}", content=sent)), sent[:20]


def test_heartbeats_for_more_than_a_driver_can_have_are_refused(driver: httpx2.Client) -> None:
    many = [f"{n:032x}" for n in range(1_000)]
    answer = driver.post("/v1/driver/heartbeat", json={"attempts": many})
    assert answer.json() == {"fenced": many, "drain": False}
    assert refused(driver.post("/v1/driver/heartbeat", json={"attempts": [*many, "a"]}))
