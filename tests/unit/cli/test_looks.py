"""`plan`, `status` and `refresh` look at sources first: a real worker lists, on a home whose data
SQLite computed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from controlplane.__main__ import Bootstrap
from controlplane.cli.main import run
from controlplane.home import Home
from controlplane.operations.desired import blueprints
from controlplane.operations.work.listing_requests import demand_of
from tests.unit.expectations.world import BRANCH, World

READ = "connector: files, format: csv, options: {header: true}"
ABC = """
dataflow: abc
components:
  a: {{read: {{{read}, path: {data}/a/*.csv, schema: "k BIGINT, place BIGINT"}}}}
  b: {{read: {{{read}, path: {data}/b/*.csv, schema: "k BIGINT, n BIGINT"}}}}
  c: {{read: {{{read}, path: {data}/c/*.csv, schema: "k BIGINT, m BIGINT"}}}}
  j: {{transform: {{sql: "SELECT place, n, m FROM a JOIN b USING (k) JOIN c USING (k)"}}}}
"""
COLUMNS = {"a": "k,place", "b": "k,n", "c": "k,m"}


class Abc(World):
    """The dataflow of the trial, in a home folder that the command line then uses."""

    def __init__(self, folder: Path) -> None:
        (home := folder / "home").mkdir()
        super().__init__(home, url=f"sqlite:///{home}/metadata.db")
        self.data = folder / "data"
        self.text = ABC.format(data=self.data, read=READ)
        (folder / "abc.yaml").write_text(self.text)
        for name in COLUMNS:
            self.write(name, "1.csv", 7)

    def write(self, source: str, file: str, value: int) -> None:
        folder = self.data / source
        folder.mkdir(exist_ok=True, parents=True)
        (folder / file).write_text(f"{COLUMNS[source]}\n1,{value}\n")

    def build(self) -> None:
        blueprints.apply(self.ctx, BRANCH, [blueprints.SentBlueprint("/abc.yaml", self.text, {})])
        self.settle()

    @contextmanager
    def counted(self) -> Iterator[list[str]]:
        """The kinds of events that come meanwhile."""
        names: list[str] = []
        with self.store.read() as tx:
            last = tx.events.last()
        yield names
        with self.store.read() as tx:
            names += [event.kind for event in tx.events.newer(None, last)]


@pytest.fixture
def abc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Abc:
    for name in ("URL", "TOKEN", "HOME", "POOL", "DATABASE_URL", "LAKE"):
        monkeypatch.delenv(f"HEADGATE_{name}", raising=False)
    monkeypatch.setenv("HEADGATE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return Abc(tmp_path)


def headgate(*arguments: str) -> int:
    return run(arguments, Bootstrap())


def told(capsys: pytest.CaptureFixture[str]) -> Any:
    return json.loads(capsys.readouterr().out)


def test_a_changed_file_fires_a_guard_that_looks_at_the_exit_code(
    abc: Abc, capsys: pytest.CaptureFixture[str]
) -> None:
    abc.build()
    with abc.counted() as events:
        assert headgate("plan", "--detailed-exitcode") == 0
    assert events == []  # looking at three sources that are as they were
    assert capsys.readouterr().out.splitlines()[0] == "nothing to do"
    abc.write("c", "1.csv", 8)
    assert headgate("plan", "--detailed-exitcode", "--no-refresh") == 0
    capsys.readouterr()
    with abc.counted() as events:
        assert headgate("plan", "--detailed-exitcode") == 2
    assert events == []  # what is found is this plan's alone
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if "csv changed" in line] == ["abc.c: 1.csv changed"]
    assert [line.split()[0] for line in out.splitlines() if "compute" in line] == ["abc.c", "abc.j"]
    with abc.counted() as events:
        assert headgate("plan", "--detailed-exitcode") == 2
    assert events == []


def test_a_comment_tells_when_each_changed_source_was_looked_at(
    abc: Abc, capsys: pytest.CaptureFixture[str]
) -> None:
    abc.build()
    abc.write("c", "1.csv", 8)
    abc.write("c", "2.csv", 8)
    assert headgate("plan", "-o", "md") == 0
    lines = capsys.readouterr().out.splitlines()
    [source_line] = lines[lines.index("**Sources**") + 2 : lines.index("**Sources**") + 3]
    assert source_line.startswith("- abc.c: 1 added, 1 changed; looked at ")
    assert not [line for line in lines if line.startswith("- abc.a")]


def test_a_listing_tells_of_its_source(abc: Abc) -> None:
    abc.build()
    with abc.store.read() as tx:
        listed = {e.dataset: e.body for e in tx.events.newer(None, 0) if e.kind == "listing.done"}
    assert set(listed) == {"abc.a", "abc.b", "abc.c"}
    assert listed["abc.c"] == {"location": f"{abc.data}/c/*.csv", "changed": 1}


def test_the_plan_of_a_new_dataflow_knows_its_files(
    abc: Abc, capsys: pytest.CaptureFixture[str]
) -> None:
    assert headgate("plan", "abc.yaml", "--no-spark", "-o", "json") == 0
    value = told(capsys)
    assert {
        i["dataset"]: (i["partitions"], i["certain"])
        for i in value["items"]
        if i["dataset"] != "abc.j"
    } == {f"abc.{name}": (["1.csv"], True) for name in COLUMNS}
    assert [s["objects"] for s in value["sources"]] == [[{"name": "1.csv", "change": "added"}]] * 3
    assert all(s["as_of"] and not s["problem"] for s in value["sources"])
    with abc.store.read() as tx:
        # Nothing but what was found for the plan is stored
        assert tx.blueprints.revisions(BRANCH) == {}
        assert len(tx.listings.of_plans()) == 3  # each once
        assert not [e for e in tx.events.newer(None, 0) if e.kind == "listing.done"]
        assert not any(tx.queue.demands(BRANCH, demand_of(f"abc.{name}")) for name in COLUMNS)


def test_without_a_look_nothing_is_known_of_a_new_dataflow(
    abc: Abc, capsys: pytest.CaptureFixture[str]
) -> None:
    assert headgate("plan", "abc.yaml", "--no-spark", "--no-refresh", "-o", "json") == 0
    value = told(capsys)
    assert {s["as_of"] for s in value["sources"]} == {None}
    assert all(not i["certain"] for i in value["items"])


def test_refresh_tells_what_changed_since_the_last_listing(
    abc: Abc, capsys: pytest.CaptureFixture[str]
) -> None:
    abc.build()
    abc.write("b", "1.csv", 8)
    abc.write("b", "2.csv", 9)
    assert headgate("refresh") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["abc.b: 1.csv changed", "abc.b: 2.csv added"]
    (abc.data / "b" / "2.csv").unlink()
    assert headgate("refresh", "abc.b", "-o", "json") == 0
    [change] = told(capsys)["changes"]
    assert change["objects"] == [{"name": "2.csv", "change": "removed"}]
    assert change["changed"] == {"added": 0, "changed": 0, "removed": 1}
    assert headgate("refresh") == 0
    assert capsys.readouterr().out.splitlines()[0] == "nothing changed since the last listing"
    assert headgate("plan", "--no-refresh", "-o", "json") == 0
    assert {item["dataset"] for item in told(capsys)["items"]} == {
        "abc.b",
        "abc.j",
    }  # what is as it was is not "possibly"


def test_status_looks_if_it_is_told_to(abc: Abc, capsys: pytest.CaptureFixture[str]) -> None:
    abc.build()
    abc.write("c", "1.csv", 8)
    assert headgate("status", "-o", "json") == 0
    before = {d["name"]: d.get("as_of") for d in told(capsys)["dataflows"][0]["datasets"]}
    assert headgate("status", "--refresh", "-o", "json") == 0
    [flow] = told(capsys)["dataflows"]
    assert "abc.c" in [d["name"] for d in flow["datasets"] if d["state"] == "stale"]
    after = {d["name"]: d.get("as_of") for d in flow["datasets"]}
    assert before["abc.j"] is after["abc.j"] is None
    assert all(str(after[f"abc.{name}"]) > str(before[f"abc.{name}"]) for name in COLUMNS)


def test_a_source_that_cannot_be_listed_is_no_source_without_changes(
    abc: Abc, capsys: pytest.CaptureFixture[str]
) -> None:
    abc.build()
    (abc.data / "c").rename(abc.data / "d")
    (abc.data / "c").symlink_to(abc.data / "c")  # a link to itself
    assert headgate("plan", "--detailed-exitcode", "-o", "json") == 1
    [source] = [s for s in told(capsys)["sources"] if s["problem"]]
    assert (source["dataset"], source["as_of"]) == ("abc.c", None)
    assert source["problem"].startswith("the listing failed: ")
    headgate("refresh", "abc.c")
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("abc.c: the listing failed: "), "it is not said that nothing changed"


def test_a_source_that_is_paused_is_left_alone_and_fails_no_guard(
    abc: Abc, capsys: pytest.CaptureFixture[str]
) -> None:
    abc.build()
    assert headgate("pause", "abc.c") == 0
    abc.write("c", "1.csv", 8)
    capsys.readouterr()
    assert headgate("plan", "--detailed-exitcode", "-o", "json") == 0
    [source] = [s for s in told(capsys)["sources"] if s["problem"]]
    assert (source["dataset"], source["is_left_alone"]) == ("abc.c", True)


def test_with_no_worker_here_sources_are_told_as_they_were(
    abc: Abc, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    abc.build()
    monkeypatch.setenv("HEADGATE_POOL", "none")
    assert headgate("plan") == 0
    out, err = capsys.readouterr()
    assert out.startswith("nothing to do\nsources as of 1970")
    assert (
        err
        == "headgate: sources are told as they were last listed: HEADGATE_POOL leaves no worker here\n"
    )


def test_a_plan_waits_for_its_turn_on_a_home(abc: Abc) -> None:
    """A process that holds the home and serves nobody, such as another plan, is waited for."""
    abc.build()
    lock = Home(abc.home).lock()
    assert headgate("plan", "--timeout", "0") == 1
    lock.release()
    assert headgate("plan") == 0


def test_a_partition_is_named_as_commands_show_it(
    abc: Abc, capsys: pytest.CaptureFixture[str]
) -> None:
    """The typed key goes first: a file may be named like the encoded key of another one."""
    abc.write("c", "North America.csv", 8)
    abc.write("c", "South%20America.csv", 9)
    abc.build()
    stored = {"North America": "North%20America.csv", "North%20America": "North%20America.csv"}
    stored |= {"South%20America": "South%2520America.csv"}
    for typed, key in stored.items():
        for command in ("why", "partition"):
            assert headgate(command, f"abc.c/{typed}.csv", "-o", "json") == 0, (command, typed)
            assert told(capsys)["partition"] == key
    for command in ("lineage", "retry"):
        assert headgate(command, "abc.c/North America.csv") == 0, command
    capsys.readouterr()
    for command in ("why", "retry", "lineage", "partition"):
        assert headgate(command, "abc.c/No where.csv", "-o", "json") == 1
        error = told(capsys)
        assert (error["type"], "'No where.csv'" in error["detail"]) == (
            "urn:headgate:not-found",
            True,
        )


def test_a_checkout_elsewhere_has_the_paths_of_the_service(
    tmp_path: Path, abc: Abc, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What the workflow of a new project does: its blueprint reads the data that lies where the
    service is."""
    shop, checkout = tmp_path / "srv" / "shop", tmp_path / "runner" / "shop"
    for folder in (shop, checkout):
        assert headgate("init", str(folder)) == 0
    (checkout / "data" / "orders" / "2026-11-01.csv").unlink()
    capsys.readouterr()
    monkeypatch.chdir(checkout)
    plan = ("plan", "blueprints/shop.yaml", "--no-spark", "-o", "json")
    assert headgate(*plan) == 0
    assert [s["objects"] for s in told(capsys)["sources"]] == [[]], "the runner has no data"
    monkeypatch.setenv("HEADGATE_BASE", str(shop))
    assert headgate(*plan) == 0
    [source] = told(capsys)["sources"]
    assert ([o["name"] for o in source["objects"]], source["problem"]) == (["2026-11-01.csv"], None)
    assert headgate("apply", "blueprints/shop.yaml") == 0
    monkeypatch.chdir(shop)
    assert headgate("apply", "blueprints/shop.yaml") == 0
    with abc.store.read() as tx:
        revision = tx.blueprints.revisions(BRANCH)["shop"]
    assert (revision.file, revision.number) == (str(shop / "blueprints" / "shop.yaml"), 1)
    capsys.readouterr()
    blueprint = shop / "blueprints" / "shop.yaml"
    blueprint.write_text(blueprint.read_text().replace("FROM orders", "FROM order"))
    assert headgate("apply", "blueprints/shop.yaml") == 1
    assert "blueprints/shop.yaml:" in capsys.readouterr().err.splitlines()[0]
    monkeypatch.setenv("HEADGATE_BASE", "srv/shop")
    assert headgate(*plan) == 1
    assert told(capsys)["type"] == "urn:headgate:bad-setting"
