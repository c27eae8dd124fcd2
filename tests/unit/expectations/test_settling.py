"""Datasets with expectations from files to generations: what runs, what is kept, what is told."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.core.errors import InvalidBlueprint
from tests.unit.expectations.world import World


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    made.put("a.csv", (1, 10), (2, -1))
    made.put("b.csv", (3, 30))
    yield made
    made.store.close()


def expecting(*items: str) -> str:
    return "    expect:\n" + "".join(f"      - {{{item}}}\n" for item in items)


DROP = "check: v > 0, on_fail: drop"
POSITIVE = "name: positive, check: v > 0"
COUNTS = "  counts: {transform: {sql: SELECT count(*) AS n FROM orders}}\n"


def test_rows_that_fail_are_dropped_and_counted(world: World) -> None:
    world.apply(expecting(DROP) + COUNTS)
    assert world.settle() == {"parse": 2, "analyse": 1, "transform": 1}
    assert (world.rows(), world.rows("shop.counts")) == ([(1, 10), (3, 30)], [(2,)])
    (found,) = world.checks()["items"]
    assert (found["name"], found["on_fail"], found["failing"], found["state"]) == (
        "v > 0",
        "drop",
        1,
        "ok",
    )


def test_drop_is_logic_and_other_expectations_are_not(world: World) -> None:
    world.apply("")
    world.settle()
    world.apply(expecting("check: v < 100, on_fail: warn"))
    assert world.settle() == {"check": 2}
    world.apply(expecting(DROP))
    assert world.settle() == {"parse": 2}
    world.apply(expecting("name: other, check: V > 0 -- now, on_fail: drop".replace(" -- now", "")))
    assert world.settle() == {"parse": 2}  # V is another name: identities of columns are as written
    world.apply(expecting("name: other, check: 'v  > 0 /* as before */', on_fail: drop"))
    assert world.settle() == {}


def test_a_failing_check_keeps_the_old_generation_and_says_why(world: World) -> None:
    world.apply(expecting(POSITIVE.replace("0", "-5")) + COUNTS)
    assert world.settle() == {"parse": 2, "check": 2, "analyse": 1, "transform": 1}
    assert world.dataset()["state"] == "up_to_date"
    world.put("c.csv", (4, -7), (5, None))
    assert world.settle() == {"parse": 1, "check": 1}
    found = world.dataset()
    assert (found["state"], found["generation"], found["checks"]) == (
        "failed",
        1,
        {"failed": ["positive"]},
    )
    error = found["error"]
    assert error["condition"] == "expectation-failed"
    assert error["message"] == "positive: 1 of 5 rows fail v > -5; for example in c.csv"
    assert (error["file"], error["line"], error["column"]) == ("/shop.yaml", 12, 33)
    assert found["reason"] == "an expectation fails; readers keep generation 1"
    assert world.rows() == [(1, 10), (2, -1), (3, 30)]
    assert world.decision("shop.counts").status == "blocked"
    assert world.rows("shop.counts") == [(3,)]


def test_corrected_data_passes_and_costs_one_check(world: World) -> None:
    world.apply(expecting(POSITIVE))
    assert world.settle() == {"parse": 2, "check": 2}
    assert world.dataset()["generation"] == 0
    world.put("a.csv", (1, 10), (2, 1))
    assert world.settle() == {"parse": 1, "check": 1}
    assert (world.dataset()["state"], world.dataset()["generation"]) == ("up_to_date", 1)
    assert world.settle() == {}
    assert [(c["rows"], c["failing"], c["state"]) for c in world.checks()["items"]] == [
        (3, 0, "ok")
    ]


def test_what_a_failure_leads_to_costs_nothing_to_change(world: World) -> None:
    world.apply(expecting(POSITIVE))
    world.settle()
    world.apply(expecting(f"{POSITIVE}, on_fail: warn"))
    assert world.settle() == {}
    found = world.dataset()
    assert (found["state"], found["generation"], found["checks"]) == (
        "up_to_date",
        1,
        {"warning": ["positive"]},
    )
    world.apply(expecting(f"{POSITIVE}, threshold: 0.5"))
    assert world.settle() == {}
    assert world.checks()["items"][0]["state"] == "ok"
    world.apply(expecting(POSITIVE))
    assert world.settle() == {}
    assert world.dataset()["state"] == "failed"
    assert world.dataset()["reason"] == "an expectation fails; readers keep generation 1"
    assert world.rows() == [(1, 10), (2, -1), (3, 30)]


@pytest.mark.parametrize(("failing", "state"), [(29, "ok"), (30, "failed")])
def test_no_more_than_the_threshold_may_fail(world: World, failing: int, state: str) -> None:
    """As it is written: in floating point, 0.29 of 100 are less than 29."""
    world.put("a.csv", *((n, -1) for n in range(failing)))
    world.put("b.csv", *((n, 1) for n in range(100 - failing)))
    world.apply(expecting(f"{POSITIVE}, on_fail: fail, threshold: 0.29"))
    world.settle()
    shown = world.checks()
    assert [(c["failing"], c["state"]) for c in shown["items"] or shown["rejected"]] == [
        (failing, state)
    ]


def test_who_adopts_rows_looks_at_them_himself(world: World) -> None:
    world.apply("")
    world.settle()
    world.apply("", flow="strict")
    world.settle()
    world.apply(expecting(POSITIVE), flow="strict")
    assert world.settle() == {"check": 2}
    world.put("c.csv", (4, 1))
    assert world.settle() == {"parse": 1, "check": 1}
    assert (world.dataset()["generation"], world.dataset("strict.orders")["generation"]) == (2, 1)
    assert len(world.rows("strict.orders")) == 3
    world.put("a.csv", (1, 10))
    world.settle()
    assert world.rows("strict.orders") == world.rows() == [(1, 10), (3, 30), (4, 1)]


def test_equal_questions_over_equal_rows_are_asked_once(world: World) -> None:
    world.apply(expecting(f"{POSITIVE}, on_fail: warn"))
    world.apply(expecting("name: mine, check: v > 0, on_fail: fail"), flow="other")
    assert world.settle()["check"] == 2
    assert world.dataset("other.orders")["state"] == "failed"


def test_unique_looks_at_the_whole_and_nulls_are_like_nothing(world: World) -> None:
    world.put("c.csv", (3, 1), (None, 1), (None, 2))
    world.apply(expecting("unique: [k]"))
    assert world.settle() == {"parse": 3, "check": 1}
    assert world.dataset()["error"]["message"] == "1 of 6 rows repeat others under unique k"
    world.put("c.csv", (4, 1))
    assert world.settle() == {"parse": 1, "check": 1}
    assert world.dataset()["generation"] == 1


@pytest.mark.parametrize(
    ("bound", "state"), [("min: 3", "up_to_date"), ("max: 2", "failed"), ("min: 4", "failed")]
)
def test_bounds_of_rows_take_no_task(world: World, bound: str, state: str) -> None:
    world.apply(expecting(f"rows: {{{bound}}}"))
    assert world.settle() == {"parse": 2}
    assert world.dataset()["state"] == state


def test_results_are_kept_by_generation(world: World) -> None:
    world.apply(expecting(f"{POSITIVE}, on_fail: warn", "check: k < 9, on_fail: drop"))
    world.settle()
    world.put("b.csv", (3, -30), (9, 1))
    world.settle()
    shown = [
        {c["name"]: (c["failing"], c["state"]) for c in world.checks(generation=g)["items"]}
        for g in (1, 2)
    ]
    assert shown == [
        {"positive": (1, "warning"), "k < 9": (0, "ok")},
        {"positive": (2, "warning"), "k < 9": (1, "ok")},
    ]


def test_a_check_of_a_transform_waits_for_its_rows(world: World) -> None:
    doubled = "  doubled:\n    transform: {sql: SELECT k * 2 AS k FROM orders}\n" + expecting(
        "check: k < 5"
    )
    world.apply(doubled)
    assert world.settle() == {"parse": 2, "analyse": 1, "transform": 2, "check": 2}
    assert world.dataset("shop.doubled")["state"] == "failed"
    assert world.checks("shop.doubled")["rejected"][0]["examples"] == [
        {"partition": "b.csv", "row": '{"k": 6}'}
    ]


def test_a_condition_that_cannot_be_evaluated_is_an_error_of_the_dataset(world: World) -> None:
    world.apply(expecting("check: k.nothing > 1"))
    world.settle()
    assert world.dataset()["state"] == "failed"
    assert "nothing" in world.dataset()["error"]["message"]


@pytest.mark.parametrize("seed", range(12))
def test_sums_are_those_of_all_rows_whatever_changed(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    world = World(tmp_path, exact=chance.choice([2, 1000]), window=3)
    files: dict[str, list[tuple[int | None, int | None]]] = {}
    for _ in range(8):
        for _ in range(chance.randrange(4)):
            name = f"{chance.randrange(7)}.csv"
            files[name] = [
                (chance.randrange(3), chance.choice([None, *range(-2, 3)]))
                for _ in range(chance.randrange(4))
            ]
            world.put(name, *files[name])
        checks = [
            f"check: v > {chance.randrange(-1, 2)}, on_fail: warn, name: c",
            "unique: [k, v], on_fail: warn",
        ]
        world.apply(expecting(*checks))
        world.settle()
        if not files:
            continue
        rows = [row for of in files.values() for row in of]
        bound = int(checks[0].split()[3].rstrip(","))
        whole = [row for row in rows if row[1] is not None]
        found = {c["name"]: (c["rows"], c["failing"]) for c in world.checks()["items"]}
        assert found == {
            "c": (len(rows), sum(v is not None and v <= bound for _, v in rows)),
            "unique k, v": (len(rows), len(whole) - len(set(whole))),
        }
        assert world.settle() == {}
    world.store.close()


def test_many_partitions_are_looked_at_from_left_to_right(tmp_path: Path) -> None:
    world = World(tmp_path, exact=3, window=4)
    for number in range(20):
        world.put(f"{number:02}.csv", (number, number - 5))
    world.apply(expecting(f"{POSITIVE}, on_fail: warn"))
    assert world.settle() == {"parse": 20, "check": 20}
    (found,) = world.checks()["items"]
    assert (found["rows"], found["failing"], len(found["examples"])) == (20, 6, 6)
    world.put("03.csv", (3, 1), (3, 2))
    assert world.settle() == {"parse": 1, "check": 1}
    (found,) = world.checks()["items"]
    assert (found["rows"], found["failing"]) == (21, 5)
    partitions = ["00.csv", "01.csv", "02.csv", "04.csv", "05.csv"]
    assert Counter(e["partition"] for e in found["examples"]) == dict.fromkeys(partitions, 1)
    world.store.close()


KEPT = "name: positive, check: v > 0, on_fail: quarantine"
ASIDE = "shop.orders__quarantine"


def test_quarantined_rows_are_a_dataset_of_their_own(world: World) -> None:
    world.apply(
        expecting(KEPT, "check: k < 9, on_fail: drop")
        + "  reasons: {transform: {sql: 'SELECT _reason, count(*) AS n FROM orders__quarantine GROUP BY _reason'}}\n"
    )
    assert world.settle() == {"parse": 2, "analyse": 1, "transform": 1}
    assert (world.rows(), world.rows(ASIDE)) == ([(1, 10), (3, 30)], [(2, -1, "positive")])
    assert world.rows("shop.reasons") == [("positive", 1)]
    assert [f["name"] for f in world.dataset(ASIDE)["schema"]["fields"]] == ["k", "v", "_reason"]
    world.put("b.csv", (3, -3), (9, 9), (4, None))
    assert world.settle() == {"parse": 1, "transform": 1}
    assert world.rows() == [(1, 10), (4, None)]
    assert world.rows(ASIDE) == [(2, -1, "positive"), (3, -3, "positive")]
    found = {c["name"]: (c["on_fail"], c["failing"]) for c in world.checks()["items"]}
    assert found == {"positive": ("quarantine", 1), "k < 9": ("drop", 1)}
    world.put("a.csv", (1, 10), (2, 1))
    world.settle()
    assert world.rows(ASIDE) == [(3, -3, "positive")]


def test_a_revert_of_a_quarantine_runs_nothing(world: World) -> None:
    world.apply(expecting(KEPT))
    assert world.settle() == {"parse": 2}
    world.apply("")
    assert world.settle() == {"parse": 2}
    world.apply(expecting(KEPT))
    assert world.settle() == {}
    assert world.rows(ASIDE) == [(2, -1, "positive")]


def test_rows_of_transforms_are_quarantined_under_the_reason_s_name(world: World) -> None:
    doubled = "  doubled:\n    transform: {sql: SELECT k * 2 AS k FROM orders}\n"
    world.apply(doubled + expecting("name: small, check: k < 5, on_fail: quarantine"))
    assert world.settle() == {"parse": 2, "analyse": 1, "transform": 2}
    assert world.rows("shop.doubled__quarantine") == [(6, "small")]
    world.apply(doubled + expecting("name: little, check: k < 5, on_fail: quarantine"))
    assert world.settle() == {"analyse": 1, "transform": 2}
    assert world.rows("shop.doubled__quarantine") == [(6, "little")]


def test_rows_are_taken_out_before_they_are_dealt_to_keys(world: World) -> None:
    dealt = "  more:\n    transform: {sql: 'SELECT k, v FROM orders', partition_by: [k], inputs: {orders: all}}\n"
    world.apply(f"{dealt}    expect: [{{name: positive, check: v > 0, on_fail: drop}}]\n")
    assert world.settle() == {"parse": 2, "analyse": 1, "transform": 1}
    assert world.rows("shop.more") == [(1, 10), (3, 30)]
    # Of the key whose rows all failed there is none
    assert world.dataset("shop.more")["partitions"] == 2
    [found] = world.checks("shop.more")["items"]
    assert (found["name"], found["on_fail"], found["failing"]) == ("positive", "drop", 1)
    world.put("c.csv", (2, 20), (2, -2))
    assert world.settle() == {"parse": 1, "transform": 1}
    assert world.rows("shop.more") == [(1, 10), (2, 20), (3, 30)]
    # The one task looked at all rows
    assert [c["failing"] for c in world.checks("shop.more")["items"]] == [2]


def test_a_dataset_cannot_read_what_it_takes_out(world: World) -> None:
    reading = "  more:\n    transform: {sql: SELECT * FROM more__quarantine}\n"
    with pytest.raises(InvalidBlueprint) as found:
        world.apply(reading + expecting(KEPT))
    assert [p.code for p in found.value.problems] == ["self-reference"]


def test_many_partitions_are_quarantined_in_windows(tmp_path: Path) -> None:
    world = World(tmp_path, exact=3, window=4)
    for number in range(10):
        world.put(f"{number:02}.csv", (number, number - 5))
    world.apply(expecting(KEPT))
    assert world.settle() == {"parse": 10}
    assert len(world.rows(ASIDE)) == 6
    world.store.close()


def test_the_errors_of_tasks_are_told_once(world: World) -> None:
    world.apply(expecting("check: k.nothing > 1, on_fail: quarantine"))
    world.settle()
    assert (world.decision().status, world.decision(ASIDE).status) == ("failed", "blocked")
    assert world.decision(ASIDE).error is None
