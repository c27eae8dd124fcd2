"""What the driver of an attempt said, over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import httpx2
import pytest

from controlplane.api.problem_json import MEDIA_TYPE
from controlplane.client import ApiError, Headgate
from controlplane.core.errors import PoolUnavailable
from controlplane.core.model.events import Event
from controlplane.operations.context import Context
from controlplane.operations.work import claims, reports
from controlplane.ports.pool import LOG_BYTES
from dataplane.contract.claims import CONTRACT
from dataplane.contract.results import TaskError
from tests.store.examples import d, error, stored_job, task
from tests.there import there
from tests.unit.api.world import BLUEPRINT, World

DRIVER = "driver-0123456789ab"


@pytest.fixture
def client(world: World) -> Iterator[Headgate]:
    with world.client() as client:
        client.apply([{"name": "/data/shop.yaml", "text": BLUEPRINT}])
        yield client


def attempt(world: World, driver: str = DRIVER, of: TaskError | None = None) -> str:
    """The attempt of a driver, reported as failed with an error."""
    ctx = Context(world.services.store)
    with ctx.store.begin() as tx:
        tx.queue.put_job(d(0), stored_job(shared={}))
        tx.queue.enqueue("main", "shop.dear", [task(1, dataset="shop.dear", spec={"slots": {}})])
    claim = claims.claim(ctx, driver, CONTRACT, ["transform"])
    assert claim is not None
    failed = {
        "task": d(1).hex(),
        "epoch": claim["tasks"][0]["epoch"],
        "state": "failed",
        "error": of or error("no"),
    }
    reports.report(ctx, driver, claim["attempt"], [failed], lake=world.services.lake)  # as JSON
    return claim["attempt"]


def say(world: World, text: str | bytes, driver: str = DRIVER) -> None:
    (world.home / "logs").mkdir(exist_ok=True)
    (world.home / "logs" / f"{driver}.log").write_bytes(
        text.encode() if isinstance(text, str) else text
    )


def got(world: World, path: str) -> httpx2.Response:
    with world.http() as http:
        return http.get(path)


def refused(client: Headgate, attempt: str) -> tuple[int, str, str]:
    with pytest.raises(ApiError) as told:
        client.log(attempt)
    return told.value.status, told.value.code, str(told.value)


def test_the_last_lines_of_the_driver_that_had_it(world: World, client: Headgate) -> None:
    id = attempt(world)
    say(world, "".join(f"line {n}\n" for n in range(1, 1001)) + "and ö")
    answer = got(world, f"/v1/attempts/{id}/log?tail=3")
    assert (answer.status_code, answer.headers["content-type"]) == (
        200,
        "text/plain; charset=utf-8",
    )
    assert answer.text == "line 999\nline 1000\nand ö"
    assert client.log(id).splitlines()[0] == "line 802", "200 lines by default"
    say(world, "line 1\nline 2\n")
    assert client.log(id, tail=1) == "line 2\n"
    assert client.log(id) == "line 1\nline 2\n"


def test_no_more_than_a_part_of_a_long_log_is_read(world: World, client: Headgate) -> None:
    id = attempt(world)
    say(world, b"x" * 700_000 + b"\n" + b"y" * 700_000 + b"\nlast\n")
    assert client.log(id) == "y" * 700_000 + "\nlast\n"
    say(world, b"x" * 3 * LOG_BYTES + b"\xff\n")
    assert client.log(id) == "x" * (LOG_BYTES - 2) + "\ufffd\n"


@pytest.mark.parametrize("tail", ["0", "-1", "10001", "x"])
def test_how_many_lines_is_bounded(world: World, client: Headgate, tail: str) -> None:
    answer = got(world, f"/v1/attempts/{attempt(world)}/log?tail={tail}")
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:headgate:invalid-request")


@pytest.mark.parametrize("kind", ["user", "infrastructure"])
def test_an_error_names_its_attempt(
    world: World, client: Headgate, kind: Literal["user", "infrastructure"]
) -> None:
    of = error("no")
    of["kind"] = kind
    id = attempt(world, of=of)
    (told,) = client.tasks("shop.dear")["items"]
    assert told["state"] == ("failed" if kind == "user" else "queued")
    assert there(told["error"])["attempt"] == id


def test_an_attempt_that_nobody_knows(world: World, client: Headgate) -> None:
    say(world, "not of it\n")
    assert refused(client, "0" * 32)[:2] == (404, "not-found")
    for odd in ("x", "%25", "0" * 31, "..%2Fhome"):
        assert got(world, f"/v1/attempts/{odd}/log").json()["type"] == "urn:headgate:not-found"


def test_a_log_that_is_not_there_any_more(world: World, client: Headgate) -> None:
    id = attempt(world)
    status, code, words = refused(client, id)
    assert (status, code) == (404, "log-gone")
    assert words.startswith(f"there is no log of {DRIVER} in the home of this server")
    assert got(world, f"/v1/attempts/{id}/log").headers["content-type"] == MEDIA_TYPE


def test_a_drivers_name_leads_to_no_other_file(world: World, client: Headgate) -> None:
    (world.home / "secret.log").write_text("ours\n")
    (world.home / "logs").mkdir()
    assert refused(client, attempt(world, "../secret"))[:2] == (404, "log-gone")


def test_attempts_of_before_drivers_were_noted(world: World, client: Headgate) -> None:
    with world.services.store.begin() as tx:
        tx.events.put([Event("task.claimed", "shop.dear", 1, {"attempt": "a" * 32}, branch="main")])
    assert refused(client, "a" * 32)[1:] == (
        "log-gone",
        f"it was not noted which driver had attempt {'a' * 32}",
    )


def test_who_may_not_see_tasks_does_not_see_it(world: World, client: Headgate) -> None:
    id = attempt(world)
    say(world, "of somebody\n")
    for token, status in ((world.driver, 403), ("hg_of_somebody_else", 401)):
        with world.http(token) as http:
            assert http.get(f"/v1/attempts/{id}/log").status_code == status
            assert http.get("/v1/branches/main/datasets/shop.dear/tasks").status_code == status


def test_credentials_are_not_told(world: World, client: Headgate) -> None:
    id = attempt(world)
    say(
        world,
        f"jdbc:postgresql://u:s3cr@h/d?password=s3cr&x=1 s3://a/b?sig=s3cr {world.admin} 12:30@home\n",
    )
    told = client.log(id)
    assert (
        told == "jdbc:postgresql://u:***@h/d?password=***&x=1 s3://a/b?sig=*** hg_*** 12:30@home\n"
    )


def test_a_pool_that_cannot_be_asked(world: World, client: Headgate) -> None:
    world.faults.append(PoolUnavailable("the API server does not answer"))
    assert refused(client, attempt(world)) == (
        503,
        "pool-unavailable",
        "the API server does not answer",
    )


# --- of a dataset, and of a driver


def test_a_dataset_has_the_log_of_its_newest_attempt(world: World, client: Headgate) -> None:
    attempt(world)
    say(world, "it divides by zero\n")
    assert client.dataset_log("shop.dear") == "it divides by zero\n"
    assert client.dataset_log("shop.dear", tail=1) == "it divides by zero\n"


def test_a_dataset_without_attempts_has_none(client: Headgate) -> None:
    with pytest.raises(ApiError, match=r"no attempt at shop\.dear is known"):
        client.dataset_log("shop.dear")
    with pytest.raises(ApiError, match=r"there is no dataset shop\.none"):
        client.dataset_log("shop.none")


def test_a_driver_is_asked_by_its_name(world: World, client: Headgate) -> None:
    say(world, "one\ntwo\n")
    assert client.driver_log(DRIVER, tail=1) == "two\n"
    with pytest.raises(ApiError, match="there is no log of"):
        client.driver_log("driver-000000000000")
    assert got(world, "/v1/drivers/..%2F..%2Ftoken/log").status_code in (404, 422)
