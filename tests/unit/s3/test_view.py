"""What the S3 view finds, and shows to whom."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.core.model.branches import Branch
from controlplane.core.model.retention import Expired
from controlplane.core.s3 import delta_snapshot
from controlplane.services.s3.key_scope import OutOfScope
from controlplane.services.s3.view import ObjectPageRequest
from tests.unit.s3.world import World, fragment, reader, shown

ROWS = [{"k": 1, "v": "a"}]
MORE = [{"k": 1, "v": "a"}, {"k": 2, "v": "b"}]
ODD = [
    *"aA09%-._=/",
    "a.",
    "a./b",
    "a=b",
    "a/b",
    "a/b=c/d",
    "",
    "a!",
    "a b",
    "ü",
    "date=2013-02",
    "_delta_log",
    "`",
    "{",
]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def _odd(world: World) -> list[str]:
    """Keys of a dataset whose partitions have strange keys, one of them with more files than
    ten."""
    world.commit_fragments(
        "shop.orders", {key: fragment(key, 12 if key == "a" else 1) for key in ODD}
    )
    world.commit_fragments("shop.daily", {"": fragment("daily")})
    world.commit_fragments("shop.z", {"": fragment("z")})
    return world.names("main/shop/orders/")


def test_a_listing_has_each_file_once_in_the_order_of_its_bytes(world: World) -> None:
    found = _odd(world)
    assert len(found) == len(set(found)) == len(ODD) + 11
    assert found == sorted(found)


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
def test_pages_of_any_size_make_the_whole(world: World, size: int) -> None:
    whole = _odd(world)
    assert world.names("main/shop/orders/", size=size) == whole
    assert [name for name in world.names("", size=size) if name in whole] == whole


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None
)
@given(st.data())
def test_prefixes_and_starts_take_what_they_say(world: World, data: st.DataObject) -> None:
    whole = world.names("main/shop/orders/") or _odd(world)
    folder = "main/shop/orders/"
    key = data.draw(st.sampled_from(whole))
    prefix = key[: data.draw(st.integers(len(folder), len(key)))]
    assert world.names(prefix) == [name for name in whole if name.startswith(prefix)]
    start = key[: data.draw(st.integers(len(folder), len(key)))] + data.draw(
        st.sampled_from(["", "~", "!"])
    )
    found = world.view.page(reader("*"), ObjectPageRequest(folder, after=start, limit=3))
    assert shown(found) == [name for name in whole if name > start][:3]


def test_levels_are_folders(world: World) -> None:
    _odd(world)
    world.branch("dev")
    assert world.names("", delimiter="/") == ["dev/", "main/"]
    assert world.names("main", delimiter="/") == ["main/"]
    assert world.names("main/", delimiter="/") == ["main/shop/"]
    assert world.names("main/shop/", delimiter="/") == [
        f"main/shop/{name}/" for name in ("daily", "orders", "z")
    ]
    assert world.names("main/shop/", size=1, delimiter="/") == world.names(
        "main/shop/", delimiter="/"
    )
    assert world.names("dev/shop/o", delimiter="/") == ["dev/shop/orders/"]


def test_another_delimiter_makes_common_prefixes(world: World) -> None:
    whole = _odd(world)
    cut = {name[: name.index("!") + 1] for name in whole}
    for size in (1, 3, 1000):
        assert world.names("main/shop/orders/", size=size, delimiter="!") == sorted(cut)


def test_a_listing_is_of_the_time_of_its_first_page(world: World) -> None:
    """Also where a commit comes in the same millisecond; and what was listed stays readable."""
    for dataset in ("shop.a", "shop.b"):
        world.commit(dataset, {"x": ROWS, "y": ROWS, "z": ROWS})
    before = world.names("main/")
    pages = world.pages(ObjectPageRequest("main/", limit=1))
    first = shown(next(pages))
    world.commit("shop.a", {"x": MORE, "y": MORE})
    world.now[0] += 0.001
    world.commit("shop.b", {"x": MORE, "y": MORE, "w": MORE})
    assert first + [name for page in pages for name in shown(page)] == before
    after = world.names("main/")
    assert not set(before) & set(after)
    assert all(world.view.find(reader("*"), name) for name in (*before, *after))


def test_a_generation_and_a_time_are_tables_of_their_own(world: World) -> None:
    state, _ = world.commit("shop.a", {"month=1": ROWS})
    world.now[0] += 10
    world.commit("shop.a", {"month=1": MORE, "month=2": ROWS})
    (log, part) = world.names("main/shop/a@1/")
    assert log == f"main/shop/a@1/{delta_snapshot.FILE}"
    found = world.view.find(reader("*"), log)
    assert found is not None
    assert isinstance(found.source, bytes)
    actions = [json.loads(line) for line in found.source.splitlines()]
    adds = [action["add"] for action in actions if "add" in action]
    assert [add["path"] for add in adds] == [
        part.removeprefix("main/shop/a@1/").replace("@", "%40").replace("!", "%21")
    ]
    assert json.loads(adds[0]["stats"])["numRecords"] == 1
    at = "main@20251125T120005Z"
    assert [
        name.replace(at, "main").replace("/a/", "/a@1/") for name in world.names(f"{at}/shop/a/")
    ] == [log, part]
    assert found.at == state.at
    for path in (
        part.replace("@1/", "/"),
        part.replace("@1/", "@2/"),
        part.replace("main/", f"{at}/").replace("@1/", "/"),
    ):
        assert (world.view.find(reader("*"), path) is None) == ("@2/" in path), path


@pytest.mark.parametrize(
    "ref", ["main@20251125T115959Z", "main@20301125T120000Z", "main@20251399T000000Z", "no", "Main"]
)
def test_what_is_not_there_is_none(world: World, ref: str) -> None:
    """Also a time that has not come: what it means would move."""
    world.commit("shop.a", {"x": ROWS})
    (key,) = world.names("main/shop/a/")
    assert world.names(f"{ref}/shop/a/") == []
    assert world.view.find(reader("*"), key.replace("main/", f"{ref}/")) is None
    assert world.view.find(reader("*"), f"{ref}/shop/a/{delta_snapshot.FILE}") is None


def test_a_branch_shows_its_own_states_over_those_of_main(world: World) -> None:
    world.commit("shop.a", {"x": ROWS})
    world.commit("shop.b", {"x": ROWS})
    world.branch("dev")
    shared = [
        name.replace("dev/", "main/") for name in world.names("dev/") if "/_delta_log/" not in name
    ]
    assert shared == world.names("main/")
    world.seqs["dev", "shop.b"] = 1
    world.commit("shop.b", {"x": MORE}, branch="dev")
    a, b = (name for name in world.names("dev/") if "/_delta_log/" not in name)
    assert a.replace("dev/", "main/") in world.names("main/")
    assert b.replace("dev/", "main/") not in world.names("main/")
    assert world.view.find(reader("*"), b.replace("dev/", "main/")) is None


@pytest.mark.parametrize(
    ("scope", "is_seen"),
    [
        ("main/shop", lambda name: name.startswith("main/shop/")),
        ("*/*/a", lambda name: "/a/" in name),
        ("dev", lambda name: name.startswith("dev/")),
        ("main/air/a", lambda name: name.startswith("main/air/a/")),
        ("main/sho", lambda name: False),
    ],
)
def test_each_key_sees_what_its_scopes_cover(
    world: World, scope: str, is_seen: Callable[[str], bool]
) -> None:
    for dataset in ("shop.a", "shop.b", "air.a"):
        world.commit(dataset, {"x": ROWS})
    world.branch("dev")
    every = world.names()
    seen = [name for name in every if is_seen(name)]
    assert world.names(read=scope) == seen
    for name in every:
        folder = name.rpartition("/")[0] + "/"
        if name in seen:
            assert world.view.find(reader(scope), name) is not None
            continue
        for unseen in (name, folder + "none", name.replace("/x!", "@1/x!")):
            with pytest.raises(OutOfScope):
                world.view.find(reader(scope), unseen)
        for delimiter in ("", "/"):
            with pytest.raises(OutOfScope):
                world.view.page(reader(scope), ObjectPageRequest(folder, delimiter))
    for level in ("main/", "dev/"):
        below = {name[: name.index("/", len(level)) + 1] for name in seen if name.startswith(level)}
        assert set(_level(world, level, scope)) == below


def _level(world: World, prefix: str, scope: str) -> list[str]:
    try:
        return world.names(prefix, read=scope, delimiter="/")
    except OutOfScope:
        return []


def test_the_published_log_and_the_files_of_kept_states_are_passed_through(world: World) -> None:
    _, [old] = world.commit("shop.a", {"x": ROWS})
    world.commit("shop.a", {"x": MORE})
    world.lake.put_if_absent("default/shop/a/_delta_log/00000000000000000000.json", b"{}")
    (log, _) = world.names("main/shop/a/")
    assert log == "main/shop/a/_delta_log/00000000000000000000.json"
    path = old.files[0]["path"].removeprefix("default/shop/a/")
    link = f"_frags/links/{old.id.hex()[:2]}/{old.id.hex()[:32]}-1/{path.rpartition('/')[2]}"
    for name in (path, link):
        found = world.view.find(reader("main"), f"main/shop/a/{name}")
        assert found is not None
        assert found.source == f"default/shop/a/{name}"
        assert found.size == old.files[0]["size"]
        assert world.view.find(reader("*"), f"main/shop/a@1/{name}") is None


def test_files_that_are_none_of_the_datasets_are_not_passed_through(world: World) -> None:
    """A branch computes below the same folder, and attempts leave there what never counted."""
    world.commit("shop.a", {"x": ROWS})
    world.branch("dev")
    world.seqs["dev", "shop.a"] = 1
    _, [other] = world.commit("shop.a", {"x": MORE}, branch="dev")
    world.lake.put_if_absent("default/shop/a/_frags/00/lost/part.parquet", b"x")
    world.lake.put_if_absent("default/shop/b/_delta_log/0.json", b"x")
    for name in (
        other.files[0]["path"].removeprefix("default/shop/a/"),
        "_frags/00/lost/part.parquet",
        "_frags/../../b/_delta_log/0.json",
        "_delta_log/../../b/_delta_log/0.json",
        "../b/_delta_log/0.json",
        "_branches/dev/_delta_log/0.json",
    ):
        assert world.view.find(reader("*"), f"main/shop/a/{name}") is None
        assert world.view.find(reader("*"), f"dev/shop/a/{name}") is None


def test_a_time_of_which_no_state_is_kept_shows_none(world: World) -> None:
    """A pinned branch has an old state of main kept; those that came right after it are gone."""
    world.commit("shop.a", {"x": ROWS})
    with world.store.begin() as tx:
        tx.branches.create(Branch(name="old", source="main", at=tx.now(), actor="ann", pinned=True))
    for _ in range(3):
        world.now[0] += 10
        world.commit("shop.a", {"x": MORE})
    with world.store.begin() as tx:
        assert tx.upkeep.drop_states([Expired("main", "shop.a", 3, 99, world.now[0])]) == 2
    world.now[0] += 10
    assert world.names("main@20251125T120015Z/shop/a/") == []
    assert world.names("main@20251125T120030Z/shop/a/")
    assert world.names("old@20251125T120015Z/shop/a/")
