"""The page of an attempt: its own lines of a log that several attempts share, and its error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NoReturn

import httpx2
import pytest

from controlplane.core.rights import TokenScope
from controlplane.operations.context import Context
from controlplane.operations.desired import tokens
from controlplane.operations.inspect import attempt_log
from tests.property import engine
from tests.unit.api.world import serving
from tests.unit.ui.test_budget import HTML_BYTES, cost
from tests.unit.ui.world import Pages, pages

A, B = "a" * 32, "b" * 32
OURS = "time=2026-11-28 18:00:00,000 level="
LOG = f"""\
{OURS}INFO event=spark-started seconds=4.00
26/11/28 18:00:01 WARN Utils: of the start
{OURS}INFO event=begin attempt={B} dataset=shop.b
{OURS}INFO event=begin attempt={A} dataset=shop.a
26/11/28 18:00:02 ERROR TaskSetManager: of Spark
\tat org.apache.spark.Stack
{OURS}ERROR event=refused attempt={B}
Traceback (most recent call last):
  of the other one
printed by a transform
{OURS}INFO event=attempt attempt={A} dataset=shop.a
26/11/28 18:00:09 WARN Utils: after it
{OURS}INFO event=attempt attempt={B} dataset=shop.b
"""
OWN = [4, 5, 6, 10, 11]  # lines of A, from 1


@pytest.fixture(scope="module")
def world() -> Iterator[Pages]:
    with pages() as filled:
        yield filled


def test_an_attempt_has_its_lines_and_those_that_nobody_claims_while_it_ran() -> None:
    lines = LOG.splitlines()
    own = attempt_log.of_attempt(LOG, A, 100)
    assert own.text.splitlines() == [lines[number - 1] for number in OWN]
    assert own.is_own
    assert [(line.number, line.level) for line in attempt_log.levelled(own)] == [
        (1, "info"),
        (2, "error"),
        (3, "error"),
        (4, "info"),
        (5, "info"),
    ]
    other = attempt_log.of_attempt(LOG, B, 100).text
    assert "of the other one" in other
    assert A not in other


def test_the_last_lines_keep_their_numbers() -> None:
    last = attempt_log.of_attempt(LOG, A, 2)
    assert last.first == 4
    assert [line.number for line in attempt_log.levelled(last)] == [4, 5]


def test_an_attempt_whose_begin_is_cut_off_has_the_lines_before_its_end() -> None:
    rest = "".join(LOG.splitlines(keepends=True)[4:])
    text = attempt_log.of_attempt(rest, A, 100).text
    assert "of Spark" in text
    assert "after it" not in text


def test_an_attempt_of_the_users_own_is_no_name_in_a_log() -> None:
    log = f"{OURS}INFO event=begin attempt={A}\nWARN retry attempt=3 failed\n"
    assert attempt_log.of_attempt(log, A, 100).text == log


def test_a_line_after_the_end_does_not_begin_the_attempt_again() -> None:
    refused = f"{OURS}ERROR event=refused attempt={A}\n"
    log = f"{LOG}{refused}printed for another attempt\n"
    own = attempt_log.of_attempt(log, A, 100).text
    assert own.endswith(refused)
    assert attempt_log.of_attempt(f"before it\n{refused}", A, 100).text.startswith("before it")


def test_a_driver_that_ended_without_a_word_leaves_its_last_lines_to_the_attempt() -> None:
    log = f"{OURS}INFO event=begin attempt={A}\nOutOfMemoryError\n"
    assert attempt_log.of_attempt(log, A, 100).text == log


def test_a_log_that_does_not_name_the_attempt_is_shown_as_it_is() -> None:
    whole = attempt_log.of_attempt(LOG, "c" * 32, 100)
    assert whole.text == LOG
    assert not whole.is_own


def first_attempt(world: Pages) -> str:
    with world.http() as http:
        run = http.get("/activity.json").json()["runs"][-1]["id"]
        return str(http.get(f"/activity/{run}.json").json()["attempts"][0]["attempt"])


def test_the_page_and_the_command_show_the_lines_of_the_attempt(world: Pages) -> None:
    attempt = first_attempt(world)
    log = LOG.replace(A, attempt)
    services = replace(world.services, log=lambda *_: log)
    headers = {"Authorization": f"Bearer {world.token}", "Accept": "text/html"}
    with (
        serving(services) as url,
        httpx2.Client(base_url=url, headers=headers, trust_env=False) as http,
    ):
        text = http.get(f"/v1/attempts/{attempt}/log").text
        page = http.get(f"/attempts/{attempt}").text
        twin = http.get(f"/attempts/{attempt}.json").json()
    assert text == twin["log"]
    assert len(text.splitlines()) == len(OWN)
    assert 'id="L2" class="line error"' in page
    assert "of the start" not in page
    assert "does not name this attempt" not in page


@pytest.mark.parametrize(
    ("within", "status"),
    [
        (TokenScope(dataflows=("shop",)), 200),
        (TokenScope(dataflows=("other",)), 404),
        (TokenScope(branches=("fix",)), 404),
    ],
)
def test_an_attempt_is_shown_to_those_who_see_its_dataset(
    world: Pages, within: TokenScope, status: int
) -> None:
    ctx = Context(world.services.store)
    token, _ = tokens.create(ctx, f"narrow{within}", ("view", "data"), within=within)
    with world.http(signed_in=False) as http:
        http.headers["Authorization"] = f"Bearer {token}"
        assert http.get(f"/attempts/{first_attempt(world)}.json").status_code == status


def test_a_log_of_long_lines_is_a_bounded_page(
    world: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempt = first_attempt(world)
    lines = [
        f"{OURS}INFO attempt={attempt} {n * 7919 % 10_007} " + "x" * 50_000 for n in range(2_000)
    ]
    monkeypatch.setattr(
        attempt_log,
        "of_attempt",
        lambda *_: attempt_log.AttemptLog("\n".join(lines[:400]), 1, True),
    )
    assert cost(world, f"/attempts/{attempt}")[1] <= HTML_BYTES


def test_an_error_comes_first_with_its_input_and_its_partition(
    world: Pages, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> NoReturn:
        raise ValueError("a stack of <b>lines</b>")

    monkeypatch.setattr(engine, "parse", broken)
    world.world.put("2025-07-01.csv", (1, 2))
    world.world.settle()
    with world.http() as http:
        ended = http.get("/v1/branches/main/datasets/shop.orders/tasks?state=ended").json()
        attempt = next(one["attempt"] for one in ended["items"] if one["failed"])
        (fault,) = http.get(f"/attempts/{attempt}.json").json()["faults"]
        page = http.get(f"/attempts/{attempt}").text
        run = http.get("/activity.json").json()["runs"][0]["id"]
        timeline = http.get(f"/activity/{run}").text
    assert (fault["inputs"], fault["partition"]) == (["2025-07-01.csv"], "2025-07-01.csv")
    assert page.index("faultsh") < page.index("factsh")
    assert "partition?key=2025-07-01.csv" in page
    assert "a stack of &lt;b&gt;" in page
    assert 'class="work failed"' in timeline
