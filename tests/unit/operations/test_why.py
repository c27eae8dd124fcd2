"""Why a dataset is as it is, also long after it came to be so; and why it is not otherwise."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from controlplane.core.model.answers import WhyAnswer, WhyNode
from controlplane.core.model.retention import Expired
from controlplane.operations.desired import controls
from controlplane.operations.inspect import causes
from controlplane.operations.upkeep import collect
from dataplane.contract.schemas import Json
from tests.unit.expectations.world import BRANCH, World

MANY = """\
  many:
    transform: {{sql: 'SELECT sum(v) AS s FROM orders WHERE v > {least}'}}
"""
# Changes of which nobody sees anything: more states than are looked at in one go by a plan
FOREVER = 20


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A transform that has been edited; since then nothing has come that it looks at."""
    world = World(tmp_path)
    world.put("a.csv", (1, 60), (2, 200))
    world.apply(MANY.format(least=100))
    world.settle()
    world.apply(MANY.format(least=50))
    world.settle()
    return world


def why(world: World, target: str = "shop.many") -> Json:
    """With the causes that are told of the dataset itself."""
    found = causes.why(world.ctx, BRANCH, target)
    return {**found, "because": [b for b in found["because"] if b["dataset"] == target]}


def nothing_new(world: World, times: int) -> None:
    for number in range(times):
        world.put(f"{number}.csv", (number, 3))
        world.settle()


@pytest.mark.parametrize("times", [1, FOREVER])
def test_it_is_told_what_led_to_the_generation_and_not_to_a_state_after_it(
    world: World, times: int
) -> None:
    before = why(world)
    nothing_new(world, times)
    after = why(world)
    assert (
        (after["generation"], after["cause"])
        == (before["generation"], before["cause"])
        == (2, "logic")
    )
    assert after["because"] == before["because"]


def test_what_was_before_all_that_is_kept_is_not_made_up(world: World) -> None:
    nothing_new(world, FOREVER)
    with world.store.begin() as tx:
        newest = tx.states.newest(BRANCH)["shop.many"].seq
        tx.upkeep.drop_states([Expired(BRANCH, "shop.many", newest - 5, 3, world.now)])
    assert not why(world)["because"]


# --- what changed, and where ----------------------------------------------------------------------

READ = """\
  {name}:
    read:
      connector: files
      path: {home}/{name}/*.csv
      format: csv
      options: {{header: true}}
      schema: "k BIGINT, v BIGINT"
"""
JOIN = """\
  joined:
    transform: {sql: 'SELECT a.k, a.v + b.v + c.v AS v FROM a JOIN b USING (k) JOIN c USING (k)'}
  total:
    transform: {sql: 'SELECT sum(v) AS s FROM joined'}
"""
GOLDEN = Path(__file__).with_name("why.golden.json")


@pytest.fixture
def join(tmp_path: Path) -> World:
    """`a JOIN b JOIN c`, and a sum over it."""
    world = World(tmp_path)
    for name in "abc":
        (tmp_path / name).mkdir()
        put(world, f"{name}/1.csv", (1, 10))
        put(world, f"{name}/2.csv", (2, 20))
    world.apply(join_text(world))
    world.settle()
    return world


def join_text(world: World) -> str:
    return "".join(READ.format(name=name, home=world.home) for name in "abc") + JOIN


def put(world: World, name: str, *rows: tuple[int, int]) -> None:
    lines = ["k,v", *(f"{k},{v}" for k, v in rows)]
    (world.home / name).write_text("\n".join(lines) + "\n")


def ask(
    world: World, target: str, partition: str | None = None, *, shows_all: bool = False
) -> WhyAnswer:
    return causes.why(world.ctx, BRANCH, target, partition, shows_all=shows_all)


def shape(node: WhyNode | None) -> Json:
    """Names of a tree."""
    assert node is not None
    return {node["dataset"]: [shape(above) for above in node["inputs"]]}


def test_of_three_inputs_only_the_one_that_changed_is_told(join: World) -> None:
    put(join, "c/1.csv", (1, 11))
    join.settle()
    why = ask(join, "shop.joined")
    assert why["sentence"] == "c/1.csv changed"
    assert shape(why["tree"]) == {"shop.joined": [{"shop.c": []}]}
    assert [item["dataset"] for item in why["because"]] == ["shop.joined", "shop.c"]
    everything = ask(join, "shop.joined", shows_all=True)
    assert shape(everything["tree"]) == {
        "shop.joined": [{"shop.a": []}, {"shop.b": []}, {"shop.c": []}]
    }
    assert everything["because"] == why["because"]


def test_work_that_is_left_has_the_same_cause_as_when_it_is_done(join: World) -> None:
    put(join, "c/1.csv", (1, 11))
    join.refresh()
    join.work()
    before = ask(join, "shop.total")
    join.settle()
    after = ask(join, "shop.total")
    assert before["sentence"] == after["sentence"] == "c/1.csv changed"
    assert (
        shape(before["tree"])
        == shape(after["tree"])
        == {"shop.total": [{"shop.joined": [{"shop.c": []}]}]}
    )


def test_files_are_new_changed_and_gone(join: World) -> None:
    put(join, "c/1.csv", (1, 11))
    (join.home / "c" / "2.csv").unlink()
    for name in ("3", "4", "5", "6"):
        put(join, f"c/{name}.csv", (int(name), 1))
    join.settle()
    new = "4 files are new: c/3.csv, c/4.csv, c/5.csv, ..."
    assert ask(join, "shop.c")["sentence"] == f"{new}, c/1.csv changed and c/2.csv is gone"


def test_a_partition_is_explained_by_what_it_reads(join: World) -> None:
    put(join, "a/1.csv", (1, 11))
    join.settle()
    put(join, "a/2.csv", (2, 21))
    join.settle()
    assert ask(join, "shop.joined", "1.csv")["sentence"] == "a/1.csv changed"
    assert ask(join, "shop.joined", "2.csv")["sentence"] == "a/2.csv changed"
    put(join, "c/9.csv", (2, 1))
    join.settle()
    whole = ask(join, "shop.joined", "2.csv")
    assert whole["sentence"] == "c/9.csv is new", "every partition reads all of c"
    assert ask(join, "shop.joined", "1.csv")["sentence"] == "a/1.csv changed"


def test_a_file_that_an_edit_leaves_out_is_not_said_to_be_gone(join: World) -> None:
    join.apply(join_text(join).replace("/c/*.csv", "/c/1*.csv"))
    join.settle()
    assert "c/2.csv is not read any more" in ask(join, "shop.c")["sentence"]
    (join.home / "c" / "1.csv").unlink()
    put(join, "c/11.csv", (1, 10))
    join.settle()
    assert "c/1.csv is gone" in ask(join, "shop.c")["sentence"]


def test_a_partition_by_key_is_explained_by_the_files_that_have_its_rows(world: World) -> None:
    daily = """\
  daily:
    transform:
      sql: SELECT k, sum(v) AS s FROM orders GROUP BY k
      partition_by: [k]
"""
    world.apply(daily)
    world.settle()
    world.put("a.csv", (1, 61))
    world.put("b.csv", (2, 201))
    world.settle()
    for key, file in (("k=1", "a.csv"), ("k=2", "b.csv")):
        found = ask(world, "shop.daily", key)
        assert found["modes"]["orders"]["mode"] == "by"
        assert file in found["sentence"]
        assert ("a.csv" in found["sentence"]) != ("b.csv" in found["sentence"]), found["sentence"]


def test_an_edit_is_told_with_its_revision_and_who_made_it(join: World) -> None:
    join.ctx = replace(join.ctx, actor="ana")
    join.apply(join_text(join).replace("sum(v)", "sum(v) + 1"))
    join.settle()
    why = ask(join, "shop.total")
    assert why["sentence"] == "the SQL of shop.total changed (revision 2, by ana)"
    assert shape(why["tree"]) == {"shop.total": []}
    assert why["cause"] == "logic"


def test_a_dataset_that_is_read_on_two_ways_is_told_once(join: World) -> None:
    twice = "  twice:\n    transform: {sql: 'SELECT sum(joined.v) AS s FROM joined CROSS JOIN c'}\n"
    join.apply(join_text(join) + twice)
    join.settle()
    put(join, "c/1.csv", (1, 11))
    join.settle()
    tree = ask(join, "shop.twice")["tree"]
    assert tree is not None
    assert shape(tree) == {"shop.twice": [{"shop.joined": [{"shop.c": []}]}, {"shop.c": []}]}
    assert [above["repeated"] for above in tree["inputs"]] == [False, True]


# --- why it did not change ------------------------------------------------------------------------


def test_a_forced_refresh_leaves_a_trace_where_rows_came_out_equal(join: World) -> None:
    join.now += 10.0
    join.ctx = replace(join.ctx, actor="ana")
    controls.refresh(join.ctx, BRANCH, "shop.joined", force=True)
    join.settle()
    for dataset in ("shop.joined", "shop.total"):
        (stop,) = ask(join, dataset)["stopped"]
        assert stop["dataset"] == "shop.joined"
        assert stop["sentence"].startswith("ana forced shop.joined at 1970-01-12 ")
        assert "the rows of shop.joined came out equal at 1970-01-12 " in stop["sentence"]


def test_a_change_that_came_to_equal_rows_is_told_where_it_stopped(join: World) -> None:
    put(join, "c/1.csv", (1, 10), (99, 1))
    join.settle()
    (stop,) = ask(join, "shop.total")["stopped"]
    assert stop["dataset"] == "shop.joined"
    assert stop["sentence"].startswith("c/1.csv changed; the rows of shop.joined came out equal")
    put(join, "c/1.csv", (1, 12))
    join.settle()
    assert ask(join, "shop.total")["stopped"] == [], "a later change went all the way"


def test_who_paused_it_is_told_and_what_ends_that(join: World) -> None:
    controls.pause(replace(join.ctx, actor="ana"), BRANCH, "shop")
    for dataset in ("shop.joined", "shop.total"):
        held = ask(join, dataset)["held_up"]
        assert held is not None
        assert held["sentence"] == "shop was paused by ana"
        assert (held["at"] or "").startswith("1970-01-12T")
        assert held["fix"] == "headgate resume shop"
    controls.resume(join.ctx, BRANCH, "shop")
    controls.pause(join.ctx, BRANCH, "shop.joined")
    below = ask(join, "shop.total")["held_up"]
    assert below is not None
    assert (below["dataset"], below["fix"]) == ("shop.joined", "headgate resume shop.joined")
    assert ask(join, "shop.a")["held_up"] is None


def test_a_loss_of_files_names_the_command_that_accepts_it(join: World) -> None:
    for number in range(3, 31):
        put(join, f"c/{number}.csv", (number, 1))
    join.settle()
    for number in range(1, 26):
        (join.home / "c" / f"{number}.csv").unlink()
    join.settle()
    held = ask(join, "shop.total")["held_up"]
    assert held is not None
    assert (held["dataset"], held["state"]) == ("shop.c", "waiting")
    assert held["fix"] == "headgate refresh shop.c --accept-deletes"
    assert "lost 25 of 30" in held["sentence"]


# --- for programs ---------------------------------------------------------------------------------


def test_causes_are_told_after_old_trees_were_collected(join: World) -> None:
    put(join, "c/1.csv", (1, 11))
    join.settle()
    put(join, "c/1.csv", (1, 11), (99, 1))
    join.settle()
    before = ask(join, "shop.joined")
    join.now += 10 * 86_400.0
    collect.collect(join.store, "default", generations=1, days=1.0)
    after = ask(join, "shop.joined")
    assert after["tree"] == before["tree"]
    assert [stop["dataset"] for stop in after["stopped"]] == ["shop.joined"]


def test_the_answer_is_what_programs_know(join: World) -> None:
    """A key that changes its meaning, or goes, breaks them: add one instead."""
    put(join, "c/1.csv", (1, 11))
    join.settle()
    answer = {**ask(join, "shop.joined"), "logic": "LOGIC", "work": "WORK"}
    text = json.dumps(answer, indent=2).replace(str(join.home), "HOME")
    for item in ask(join, "shop.joined")["because"]:
        roots = item["because"]
        assert roots is not None
        text = text.replace(str(roots["from"]), "BEFORE").replace(str(roots["to"]), "AFTER")
    assert text + "\n" == GOLDEN.read_text()
