"""A dataset of a live branch is a Delta table: each generation is a version, for readers that come
and that go on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from deltalake import DeltaTable

from controlplane.core.model.retention import Expired
from controlplane.core.s3 import live_log
from controlplane.core.s3.live_log import HINT, STEPS, checkpoint_file, commit_file
from controlplane.store.sql.listings import SqlNodes
from dataplane.contract.identity import Content, fragment_id
from dataplane.contract.schemas import Schema
from tests.unit.lake.tables import READERS, Rows, struct
from tests.unit.s3.world import SCHEMA, World, fragment, reader

FOLDER = "dev/shop/a/"
STEP = STEPS[0][1]


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Main has two generations, and dev was made from it."""
    made = World(tmp_path / "lake")
    commit(made, 0, branch="main")
    commit(made, 1, branch="main")
    made.branch("dev")
    made.seqs["dev", "shop.a"] = 2
    return made


def rows(number: int) -> Rows:
    """Those of generation `number` + 1: a partition that stays, some that come and go, one that
    always changes."""
    return [row for some in partitions(number).values() for row in some]


def partitions(number: int) -> Mapping[str, Rows]:
    found = {"day=1": [{"k": 0, "v": "stays"}], "x/é": [{"k": number, "v": "changes"}]}
    return found | {f"p{n % 3}": [{"k": n, "v": "goes"}] for n in range(number - 1, number + 1)}


def commit(world: World, number: int, branch: str = "dev", schema: Schema = SCHEMA) -> None:
    world.now[0] += 1
    world.commit("shop.a", partitions(number), branch, schema)


def go_on(world: World, last: int) -> None:
    """Commit to dev until a generation."""
    for number in range(world.seqs["dev", "shop.a"], last):
        commit(world, number)


def log(world: World, folder: str = FOLDER) -> list[str]:
    return [name.removeprefix(folder) for name in world.names(f"{folder}_delta_log/")]


def body(world: World, name: str, folder: str = FOLDER) -> bytes:
    return world.body(folder + name)


def actions(world: World, version: int, kind: str) -> list[Any]:
    found = map(json.loads, body(world, commit_file(version)).splitlines())
    return [action[kind] for action in found if kind in action]


def assert_read(folder: Path, expected: Rows) -> None:
    for read in READERS:
        assert read(str(folder)) == sorted(expected, key=repr), read.__name__


def assert_version(world: World, folder: Path, version: int) -> None:
    """Files of earlier generations are not listed, and are there."""
    table = DeltaTable(folder, version=version)
    for name in (unquote(uri).rpartition("/")[2] for uri in table.file_uris()):
        (folder / name).write_bytes(body(world, name))
    found = table.to_pyarrow_table().to_pylist()
    assert sorted(found, key=repr) == sorted(rows(version - 1), key=repr)


def test_each_generation_is_a_version(world: World, tmp_path: Path) -> None:
    assert log(world) == [commit_file(version) for version in range(3)]
    go_on(world, 4)
    assert log(world) == [commit_file(version) for version in range(5)]
    assert world.checkpoints == 0
    folder = world.mirrored(FOLDER, tmp_path / "mirror")
    assert_read(folder, rows(3))
    for version in range(1, 5):
        assert_version(world, folder, version)


def test_a_commit_has_what_differs(world: World) -> None:
    go_on(world, 3)
    assert len(actions(world, 3, "add")) == len(actions(world, 3, "remove")) == 2
    assert [actions(world, version, "metaData") != [] for version in range(4)] == [
        True,
        False,
        False,
        False,
    ]
    listed = {
        name.removeprefix(FOLDER) for name in world.names(FOLDER) if name.endswith(".parquet")
    }
    active: set[str] = set()
    for version in range(4):
        active -= {unquote(one["path"]) for one in actions(world, version, "remove")}
        active |= {unquote(one["path"]) for one in actions(world, version, "add")}
    assert active == listed


def test_what_main_commits_is_seen_where_it_is_shared(world: World) -> None:
    commit(world, 2, branch="main")
    assert log(world)[-1] == commit_file(3)
    world.seqs["dev", "shop.a"] = 3
    go_on(world, 4)  # its own from here on: dev goes on from what main had
    assert log(world) == [commit_file(version) for version in range(5)]
    commit(world, 3, branch="main")
    commit(world, 4, branch="main")
    assert log(world)[-1] == commit_file(4)


def test_a_column_that_comes_is_in_its_commit(world: World, tmp_path: Path) -> None:
    commit(world, 2, schema=struct(k="long", v="string", more="double"))
    assert [one["schemaString"] for one in actions(world, 3, "metaData")] != []
    assert actions(world, 0, "metaData")[0]["id"] == actions(world, 3, "metaData")[0]["id"]
    assert_read(
        world.mirrored(FOLDER, tmp_path / "mirror"), [{**row, "more": None} for row in rows(2)]
    )


def test_a_long_log_begins_with_a_checkpoint(world: World, tmp_path: Path) -> None:
    go_on(world, 2 * STEP + 5)
    versions = [commit_file(version) for version in range(STEP + 1, 2 * STEP + 6)]
    assert log(world) == [checkpoint_file(STEP), *versions, HINT]
    assert json.loads(body(world, HINT)) == {"version": STEP, "size": 2 + 4}
    folder = world.mirrored(FOLDER, tmp_path / "mirror")
    assert_read(folder, rows(2 * STEP + 4))
    assert_version(world, folder, STEP)


def test_few_checkpoints_are_made_and_those_of_before_stay(world: World) -> None:
    go_on(world, 2 * STEP)
    first = body(world, checkpoint_file(STEP))
    for last in range(2 * STEP, 3 * STEP):
        go_on(world, last)
        assert log(world)[0] == checkpoint_file(STEP)
    assert world.checkpoints == 1
    go_on(world, 3 * STEP)
    assert log(world)[0] == checkpoint_file(2 * STEP)
    assert world.checkpoints == 2
    assert body(world, checkpoint_file(STEP)) == first
    assert actions(world, 5, "remove") != []  # not listed any more, and there for who has version 4
    for name in (
        commit_file(3 * STEP + 1),
        checkpoint_file(4 * STEP),
        checkpoint_file(1),
        commit_file(10**19),
    ):
        assert world.view.find(reader("*"), FOLDER + name) is None, name


def test_a_log_begins_with_the_oldest_generation_that_is_kept(world: World, tmp_path: Path) -> None:
    go_on(world, 6)
    with world.store.begin() as tx:
        tx.upkeep.drop_states(
            [Expired("main", "shop.a", 2, 99, 2e9), Expired("dev", "shop.a", 4, 99, 2e9)]
        )
    assert log(world) == [checkpoint_file(5), commit_file(6), HINT]
    assert_read(world.mirrored(FOLDER, tmp_path / "mirror"), rows(5))
    assert [
        world.view.find(reader("*"), FOLDER + commit_file(version)) for version in (0, 1, 4, 5)
    ] == [None] * 4


def test_a_state_that_changes_nothing_for_readers_changes_no_file(world: World) -> None:
    go_on(world, 3)
    before = {name: body(world, name) for name in log(world)}
    world.now[0] += 60
    with world.store.begin() as tx:
        newest = tx.states.newest("dev", ["shop.a"])["shop.a"]
        tx.states.commit(replace(newest, seq=newest.seq + 1, at=tx.now()), newest.seq)
    assert {name: body(world, name) for name in log(world)} == before


def test_a_listing_goes_on_with_the_log_that_it_began_with(world: World) -> None:
    go_on(world, 3)
    expected = world.names(FOLDER)
    found: list[str] = []
    for page in world.pages_of(FOLDER, size=2):
        found += page
        commit(world, world.seqs["dev", "shop.a"])
    assert found == expected


def test_a_branch_of_the_same_name_is_another_table(world: World) -> None:
    (before,) = actions(world, 0, "metaData")
    with world.store.begin() as tx:
        tx.branches.drop("dev")
    assert world.view.find(reader("*"), FOLDER + commit_file(0)) is None
    world.now[0] += 1
    world.branch("dev")
    (after,) = actions(world, 0, "metaData")
    assert before["id"] != after["id"]


def test_a_commit_costs_a_walk_to_what_differs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nodes that are read of a dataset with many partitions, once those of the version before
    were."""
    parts = {f"{n:05}": fragment(f"{n}") for n in range(5_000)}
    world.commit_fragments("shop.b", parts)
    folder = FOLDER.replace("/a/", "/b/")
    assert len(log(world, folder)) == 2
    read: list[bytes] = []
    get = SqlNodes.get_nodes

    def counted(self: SqlNodes, digests: Sequence[bytes]) -> Mapping[bytes, bytes]:
        read.extend(digests)
        return get(self, digests)

    monkeypatch.setattr(SqlNodes, "get_nodes", counted)
    log(world, folder)
    assert read == []
    for n in (17, 4_000):
        parts = {**parts, f"{n:05}": fragment(f"{n} edited")}
        world.commit_fragments("shop.b", parts)
        read.clear()
        assert len(actions_of(world, folder)) == 3
        assert 0 < len(read) <= 4  # from the root to the leaf, of the new tree alone
        read.clear()
        log(world, folder)
        assert read == []


def actions_of(world: World, folder: str) -> list[Any]:
    """Of the newest version."""
    return list(map(json.loads, body(world, log(world, folder)[-1], folder).splitlines()))


def test_a_log_of_many_partitions_is_shorter() -> None:
    assert [
        live_log.begin(99, partitions) for partitions in (1, 10_000, 10_001, 50_000, 10**6)
    ] == [60, 60, 80, 96, 98]
    assert [live_log.begin(newest, 1) for newest in (1, 39, 40, 59, 60)] == [0, 0, 20, 20, 40]


def test_a_log_that_cannot_be_made_hides_no_rows(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: bytes) -> bytes:
        raise OSError("no room for another process")

    go_on(world, 2 * STEP)
    monkeypatch.setattr("tests.unit.s3.world.make_checkpoint", refused)
    shown = world.names("dev/")
    assert len(shown) == len(partitions(2 * STEP - 1))
    assert [name for name in shown if "_delta_log" in name] == []
    with pytest.raises(OSError, match="no room"):
        world.view.find(reader("*"), FOLDER + HINT)


def test_names_of_files_tell_versions() -> None:
    assert live_log.commit_of(commit_file(7)) == live_log.checkpoint_of(checkpoint_file(7)) == 7
    for name in (
        "_delta_log/7.json",
        "_delta_log/٠" + "0" * 19 + ".json",
        checkpoint_file(7) + "x",
        HINT,
    ):
        assert (live_log.commit_of(name), live_log.checkpoint_of(name)) == (None, None)


def test_a_roll_up_is_a_change_of_layout(world: World) -> None:
    """Slices and the span of them have the same rows; the slice after them is new."""
    world.commit("shop.a", {f"{n:012}": [{"k": n, "v": "a"}] for n in (1, 2)}, "dev")
    _, fragments = world.commit("shop.a", {f"{n:012}": [{"k": n, "v": "b"}] for n in (1, 2)}, "dev")
    content = reduce(Content.plus, (part.content for part in fragments))
    files = tuple(file for part in fragments for file in part.files)
    span = replace(fragments[0], id=fragment_id(SCHEMA, content), content=content, files=files)
    new = replace(fragments[1], id=b"3" * 32)
    slices = {f"{1:012}-{2:012}": span, f"{3:012}": new}
    state = world.commit_fragments("shop.a", slices, "dev")
    removed = actions(world, state.generation, "remove")
    added = actions(world, state.generation, "add")
    assert [action["dataChange"] for action in removed] == [False, False]
    assert [action["dataChange"] for action in added] == [True, False, False]
