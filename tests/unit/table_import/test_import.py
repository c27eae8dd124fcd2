"""An imported table is a generation like any other: later changes run what they touch, and nothing
of it is shared.

The table is a dataset of another dataflow here. Its rows differ from those that the component would
compute, so that both can be told apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.core import tree
from controlplane.core.blueprint import text_forms
from controlplane.core.compile.nodes import Source
from controlplane.core.errors import ImportRefused, InvalidBlueprint, NotFound
from controlplane.core.model import addresses
from controlplane.core.model.answers import ImportAnswer
from controlplane.core.model.branches import Branch
from controlplane.core.plan import windows
from controlplane.core.tree import Entry
from controlplane.operations.desired import blueprints, controls, import_sample, table_import
from controlplane.operations.desired.table_import import ImportRequest
from controlplane.operations.inspect import causes, datasets, time_travel
from controlplane.operations.planning import edit_review
from controlplane.operations.planning.apply_plan import PlanExecutor
from controlplane.operations.planning.planner import Planner
from controlplane.operations.planning.snapshot import desired
from controlplane.operations.upkeep import collect
from controlplane.ports.store import Store, Tx
from dataplane.contract.identity import Content
from tests.there import there
from tests.trees import MemoryNodes
from tests.unit.branches.world import BranchWorld

LEGACY = """
dataflow: old
components:
  rows:
    read:
      connector: files
      path: {home}/legacy/*.csv
      format: csv
      options: {{header: true}}
      schema: "{schema}"
"""
EACH = "  doubled:\n    transform: {sql: 'SELECT k, 2 * v AS v FROM orders'}\n"
BY = (
    "  sums:\n    transform:\n      sql: SELECT k, sum(v) AS v FROM orders GROUP BY k\n"
    "      partition_by: [k]\n"
)
ALL = "  total:\n    transform: {sql: 'SELECT count(*) AS k, sum(v) AS v FROM orders'}\n"
FOLD = """  running:
    transform:
      sql: SELECT b.k, b.v + coalesce(s.v, 0) AS v FROM orders b LEFT JOIN before s ON TRUE
      inputs: {before: {from: self, mode: previous}, orders: each}
      schema: "k BIGINT, v BIGINT"
"""
SQL = {"doubled": EACH, "sums": BY, "total": ALL}


class Trial(BranchWorld):
    """Orders in files `1.csv`, `2.csv`, whose key is the value of `k`."""

    def __init__(self, home: Path) -> None:
        super().__init__(home)
        (home / "legacy").mkdir()
        for k in (1, 2, 3):
            self.put(f"{k}.csv", (k, 10 * k))

    def describe(self, rest: str) -> None:
        self.apply('      partition: "{k}.csv"\n' + rest)

    def legacy(self, *rows: tuple[int, int], schema: str = "k BIGINT, v BIGINT") -> None:
        lines = ["k,v", *(f"{k},{v}" for k, v in rows)]
        (self.home / "legacy" / "t.csv").write_text("\n".join(lines) + "\n")
        text = LEGACY.format(home=self.home, schema=schema)
        blueprints.apply(self.ctx, "main", [blueprints.SentBlueprint("/old.yaml", text, {})])
        self.refresh()
        self.ran()

    def bring(self, name: str, branch: str = "main", key: tuple[str, ...] = ()) -> str:
        """Import `old.rows`, as the command does; the number of tasks of it does not matter."""
        request = ImportRequest(branch, f"shop.{name}", "dataset:old.rows", key)
        while asked := table_import.questions(self.ctx, branch, request.target):
            edit_review.ask(self.ctx, branch, asked)
            self.work()
        for _ in range(10):
            answer = table_import.proceed(self.ctx, request)
            if answer["state"] == "imported":
                return answer["state"]
            self.ran()
        raise AssertionError("it copies for ever")

    def cause(self, dataset: str, branch: str = "main") -> str:
        with self.store.read() as tx:
            return tx.states.newest(branch, [dataset])[dataset].cause


@pytest.fixture
def world(tmp_path: Path) -> Trial:
    trial = Trial(tmp_path)
    trial.describe("".join(SQL.values()))
    trial.refresh()
    trial.ran()
    return trial


def test_an_import_of_each_partition_runs_nothing_more(world: Trial) -> None:
    world.legacy((1, 100), (2, 200), (3, 300))
    world.bring("doubled", key=("k",))
    assert not world.ran()
    assert world.values("main", "shop.doubled") == [(1, 100), (2, 200), (3, 300)]
    assert world.cause("shop.doubled") == "imported"
    world.put("4.csv", (4, 40))
    world.refresh()
    assert world.ran()["transform"] == 1 + 1 + 1  # itself, the sum of its key, the total
    assert world.values("main", "shop.doubled") == [(1, 100), (2, 200), (3, 300), (4, 80)]


def test_an_import_of_the_whole_is_kept_until_its_inputs_change(world: Trial) -> None:
    world.legacy((7, 700))
    world.bring("total")
    assert not world.ran()
    assert world.values("main", "shop.total") == [(7, 700)]
    world.put("4.csv", (4, 40))
    world.refresh()
    world.ran()
    assert world.values("main", "shop.total") == [(4, 100)]


def test_an_import_by_key_needs_the_index_alone(tmp_path: Path) -> None:
    world = Trial(tmp_path)
    world.describe(EACH + BY.replace("  sums:\n", "  sums:\n    paused: true\n"))
    world.refresh()
    world.ran()
    world.legacy((1, 100), (2, 200), (3, 300))
    world.bring("sums")
    world.describe(EACH + BY)
    with world.ctx.read_plan("main", ["shop"]) as (plan, _):
        assert there(plan.of("shop.sums")).items[0].tasks == 3
    ran = world.ran()
    assert (ran["transform"], ran["index"]) == (0, 3)
    assert world.cause("shop.sums") == "imported"
    world.put("2.csv", (2, 20), (2, 21))
    world.refresh()
    ran = world.ran()
    assert ran["index"] == 1
    assert world.values("main", "shop.sums") == [(1, 100), (2, 41), (3, 300)]


def test_partitions_that_the_table_lacks_are_computed(world: Trial) -> None:
    world.legacy((1, 100))
    world.bring("doubled", key=("k",))
    assert world.decided("main", "shop.doubled").items[0].cause == "imported"
    world.ran()
    assert world.values("main", "shop.doubled") == [(1, 100), (2, 40), (3, 60)]
    world.bring("sums")
    world.ran()
    assert world.values("main", "shop.sums") == [(1, 100), (2, 20), (3, 30)]


def test_partitions_that_no_input_has_are_refused(world: Trial) -> None:
    before = world.generations("main")["shop.doubled"]
    world.legacy((1, 100), (9, 900))
    with pytest.raises(ImportRefused, match="no input has: 9; name the columns"):
        world.bring("doubled", key=("k",))
    with pytest.raises(ImportRefused, match="1 partitions that no input has"):
        world.bring("doubled")
    assert not world.ran()
    assert world.generations("main")["shop.doubled"] == before


def test_keys_that_only_an_index_knows_fail_the_dataset(world: Trial) -> None:
    world.legacy((1, 100), (9, 900))
    world.bring("sums")
    world.ran()
    decision = world.decided("main", "shop.sums")
    assert decision.error is not None
    assert decision.error["condition"] == "import-keys"
    assert "k=9" in decision.error["message"]
    assert world.values("main", "shop.sums") == [(1, 10), (2, 20), (3, 30)]
    controls.refresh(world.ctx, "main", "shop.sums", force=True)
    world.ran()
    assert world.decided("main", "shop.sums").status == "up_to_date"


def test_other_columns_are_refused_before_anything_is_copied(world: Trial) -> None:
    world.legacy((1, 100), schema="k BIGINT, v STRING")
    with pytest.raises(ImportRefused, match="column v is STRING, the component's is BIGINT"):
        world.bring("doubled", key=("k",))
    with world.store.read() as tx:
        assert "import_shop_doubled" not in tx.blueprints.revisions("main")


def test_an_edit_computes_it_and_its_reversal_takes_the_import_back(world: Trial) -> None:
    world.legacy((1, 100), (2, 200), (3, 300))
    world.bring("doubled", key=("k",))
    world.ran()
    world.describe("".join(SQL.values()).replace("2 * v", "3 * v"))
    assert world.ran()["transform"] >= 3
    assert world.values("main", "shop.doubled") == [(1, 30), (2, 60), (3, 90)]
    world.describe("".join(SQL.values()))
    assert not world.ran()
    assert world.values("main", "shop.doubled") == [(1, 100), (2, 200), (3, 300)]


def test_a_withdrawn_file_takes_its_partition_away(world: Trial) -> None:
    world.legacy((1, 100), (2, 200), (3, 300))
    world.bring("doubled", key=("k",))
    world.ran()
    (world.home / "orders" / "2.csv").unlink()
    world.refresh()
    world.ran()
    assert world.values("main", "shop.doubled") == [(1, 100), (3, 300)]


def test_what_was_imported_is_shared_with_no_other_component(world: Trial) -> None:
    world.legacy((1, 100), (2, 200), (3, 300))
    world.bring("doubled", key=("k",))
    world.ran()
    world.describe("".join(SQL.values()) + EACH.replace("doubled", "again"))
    world.ran()
    assert world.values("main", "shop.again") == [(1, 20), (2, 40), (3, 60)]


def test_an_import_in_a_branch_is_its_own(world: Trial) -> None:
    with world.store.begin() as tx:
        tx.branches.create(Branch(name="dev", source="main", at=tx.now(), actor="ann"))
    world.legacy((1, 100), (2, 200), (3, 300))
    world.bring("doubled", "dev", key=("k",))
    world.ran()
    assert world.values("dev", "shop.doubled") == [(1, 100), (2, 200), (3, 300)]
    assert world.values("main", "shop.doubled") == [(1, 20), (2, 40), (3, 60)]


def test_a_file_that_comes_while_it_waits_is_taken_after_the_import(world: Trial) -> None:
    world.legacy((1, 100), (2, 200), (3, 300))
    world.bring("sums")
    world.put("4.csv", (4, 40))
    world.refresh()
    world.ran()
    assert world.values("main", "shop.sums") == [(1, 100), (2, 200), (3, 300), (4, 40)]


def test_an_import_begins_anew_after_a_crash(world: Trial) -> None:
    world.legacy((1, 100), (2, 200), (3, 300))
    before = world.generations("main")["shop.doubled"]
    request = ImportRequest("main", "shop.doubled", "dataset:old.rows", ("k",))
    assert table_import.proceed(world.ctx, request)["state"] == "copying"
    world.ran()
    assert world.generations("main")["shop.doubled"] == before  # nothing of it, so far
    assert table_import.proceed(world.ctx, request)["state"] == "imported"
    with world.store.read() as tx:
        assert "import_shop_doubled" not in tx.blueprints.revisions("main")


def test_why_says_who_imported_it(world: Trial) -> None:
    world.legacy((1, 100), (2, 200), (3, 300))
    world.bring("doubled", key=("k",))
    world.ran()
    why = causes.why(world.ctx, "main", "shop.doubled")
    assert "imported rows of shop.doubled" in str(why)
    history = datasets.history(world.ctx, "main", "shop.doubled", before=None, limit=1)
    assert history["items"][0]["cause"] == "imported"
    with world.store.read() as tx:
        changes = [(change.action, change.target) for change in tx.audit.changes("main")]
    assert ("import", "shop.doubled") in changes


def test_what_is_no_transform_is_refused(world: Trial) -> None:
    world.legacy((1, 100))
    for target, error, code in (
        ("orders", ImportRefused, "import-refused"),
        ("none", NotFound, "not-found"),
    ):
        with pytest.raises(error) as raised:
            world.bring(target)
        assert raised.value.code == code
    request = ImportRequest("main", "shop.total", "csv:/somewhere")
    with pytest.raises(ImportRefused, match="delta:PATH"):
        table_import.proceed(world.ctx, request)


@pytest.mark.parametrize(
    ("name", "source", "words"),
    [
        ("sums", "parquet:/archive", "partitioned by columns"),
        ("doubled", "iceberg:/archive", "parquet:FOLDER or delta:PATH as they are"),
        ("doubled", "delta:/archive", "files of a Delta table make only one"),
        ("doubled", "parquet:/archive", r"parquet:/archive/\{day\}\.parquet"),
        ("total", "parquet:/archive/{day}.parquet", "one partition: name its files"),
    ],
)
def test_links_that_do_not_fit_are_refused(
    world: Trial, name: str, source: str, words: str
) -> None:
    request = ImportRequest("main", f"shop.{name}", source, link=True)
    with pytest.raises(ImportRefused, match=words):
        table_import.proceed(world.ctx, request)


def test_files_of_a_delta_table_are_linked_as_one_partition(world: Trial) -> None:
    request = ImportRequest("main", "shop.total", "delta:/archive", link=True)
    assert table_import.proceed(world.ctx, request)["state"] == "copying"
    with world.store.read() as tx:
        node = desired(tx, "main").nodes["import_shop_total.rows"]
    assert isinstance(node, Source)
    assert node.read.settings == (("link", True),)


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        ("/archive", ("/archive", "")),
        ("/archive/{day}.parquet", ("/archive/*.parquet", "{day}.parquet")),
        ("/archive/*/{day}.parquet", ("/archive/*/*.parquet", "*/{day}.parquet")),
        ("{day}.parquet", ("*.parquet", "{day}.parquet")),
        ("s3://b/t/day={day}/*.parquet", ("s3://b/t/day=*/*.parquet", "day={day}/*.parquet")),
    ],
)
def test_a_place_is_a_path_and_a_template(place: str, expected: tuple[str, str]) -> None:
    assert table_import._template(place) == expected


def test_two_imports_at_once_take_no_rows_of_each_other(world: Trial) -> None:
    world.legacy((1, 100), (2, 200), (3, 300))
    first = ImportRequest("main", "shop.doubled", "dataset:old.rows", ("k",))
    second = ImportRequest("main", "shop.doubled", "dataset:shop.sums", ("k",))
    table_import.proceed(world.ctx, first)
    world.ran()
    assert table_import.proceed(world.ctx, second)["state"] == "copying"
    # What the first one had copied is known
    assert table_import.proceed(world.ctx, first)["state"] == "imported"
    world.ran()
    assert world.values("main", "shop.doubled") == [(1, 100), (2, 200), (3, 300)]


def step(world: Trial, request: ImportRequest) -> str:
    return table_import.proceed(world.ctx, request)["state"]


def test_a_second_import_takes_the_table_as_it_is_then(
    world: Trial, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its place was listed before, and nothing but the import reads it."""
    read = {"connector": "files", "format": "csv", "options": {"header": True}}
    monkeypatch.setattr(table_import, "_place", lambda _, place: {**read, "path": f"{place}/*.csv"})
    request = ImportRequest("main", "shop.doubled", f"parquet:{world.home}/legacy", ("k",))
    for factor in (100, 1000):
        lines = ["k,v", *(f"{k},{factor * k}" for k in (1, 2, 3))]
        (world.home / "legacy" / "t.csv").write_text("\n".join(lines) + "\n")
        while step(world, request) == "copying":
            world.ran()
        world.ran()
        assert world.values("main", "shop.doubled") == [(k, factor * k) for k in (1, 2, 3)]


def test_an_import_that_another_dataflow_reads_waits_for_its_end(world: Trial) -> None:
    world.legacy((1, 100), (2, 200), (3, 300))
    request = ImportRequest("main", "shop.doubled", "dataset:old.rows", ("k",))
    step(world, request)
    text = "dataflow: other\ncomponents:\n  x:\n    transform: {sql: 'SELECT k FROM import_shop_doubled.rows'}\n"
    blueprints.apply(world.ctx, "main", [blueprints.SentBlueprint("/other.yaml", text, {})])
    world.ran()
    with pytest.raises(InvalidBlueprint, match=r"other\.x reads import_shop_doubled\.rows"):
        step(world, request)
    assert world.decided("main", "other.x").status == "up_to_date"
    blueprints.delete(world.ctx, "main", "other")
    assert step(world, request) == "imported"


def test_a_copy_that_stands_still_says_so(world: Trial) -> None:
    """Or a client would ask for ever."""
    world.legacy((1, 100), (2, 200), (3, 300))
    request = ImportRequest("main", "shop.doubled", "dataset:old.rows", ("k",))
    step(world, request)
    controls.pause(world.ctx, "main", request.dataflow)
    with pytest.raises(ImportRefused, match=r"shop_doubled\.rows is paused"):
        step(world, request)
    controls.resume(world.ctx, "main", request.dataflow)
    world.ran()
    assert step(world, request) == "imported"


@pytest.mark.parametrize("name", ["doubled", "sums"])
def test_many_lacking_partitions_are_computed_in_windows(
    world: Trial, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass looks at two partitions, and begins where the one before it has ended."""
    for k in range(4, 9):
        world.put(f"{k}.csv", (k, 10 * k))
    world.refresh()
    world.ran()
    world.legacy((1, 100), (5, 500))
    world.bring(name, key=("k",) if name == "doubled" else ())
    planner = Planner(world.store, window=1, exact=1, min_rows=0)
    world.settling = PlanExecutor(world.store, planner, "default", "main")
    monkeypatch.setattr(windows, "CHUNKS", 2)
    monkeypatch.setattr(windows.walk, "__defaults__", (1,))
    assert world.ran()["transform"] == 6
    factor = 20 if name == "doubled" else 10
    computed = [(k, factor * k) for k in (2, 3, 4, 6, 7, 8)]
    assert world.values("main", f"shop.{name}") == sorted([(1, 100), (5, 500), *computed], key=repr)


def test_a_fold_goes_on_from_imported_partitions(world: Trial) -> None:
    world.describe("".join(SQL.values()) + FOLD)
    world.ran()
    world.legacy((1, 100), (2, 200))
    with pytest.raises(ImportRefused, match="lacks partitions of the fold"):
        world.bring("running", key=("k",))
    assert world.decided("main", "shop.running").status == "up_to_date"
    world.legacy((1, 100), (2, 200), (3, 300))
    world.bring("running", key=("k",))
    collect.collect(world.store, "default", now=world.now + 7200.0)  # before it is taken
    assert not world.ran()
    world.put("4.csv", (4, 40))
    world.refresh()
    world.ran()
    assert world.values("main", "shop.running") == [(1, 100), (2, 200), (3, 300), (4, 340)]
    world.put("2.csv", (2, 21))
    world.refresh()
    world.ran()
    assert world.values("main", "shop.running") == [(1, 100), (2, 121), (3, 151), (4, 191)]


# --- the sample that is verified


def verified(world: Trial, name: str, key: tuple[str, ...] = (), sample: int = 2) -> ImportAnswer:
    """The answer of an import once its sample is computed."""
    request = ImportRequest("main", f"shop.{name}", "dataset:old.rows", key, sample)
    for _ in range(10):
        while requests := table_import.questions(world.ctx, "main", request.target):
            edit_review.ask(world.ctx, "main", requests)
            world.work()
        answer = table_import.proceed(world.ctx, request)
        if answer["state"] not in ("copying", "verifying"):
            return answer
        world.ran()
    raise AssertionError("the import does not go on")


def paused(tmp_path: Path, component: str) -> Trial:
    """A world in which nothing of the component was computed."""
    world = Trial(tmp_path)
    world.describe(component.replace(":\n", ":\n    paused: true\n", 1))
    world.refresh()
    world.ran()
    return world


def test_only_the_sample_is_computed(tmp_path: Path) -> None:
    world = paused(tmp_path, EACH)
    world.legacy((1, 20), (2, 40), (3, 60))
    before = Counter(world.kinds)
    answer = verified(world, "doubled", ("k",))
    assert (answer["state"], answer["sample"]["partitions"]) == ("imported", 2)
    # And the copy, whose rows are dealt out by one task
    assert (world.kinds - before)["transform"] == 2 + 1
    world.describe(EACH)
    assert not world.ran()
    assert world.cause("shop.doubled") == "imported"


def test_rows_that_the_code_does_not_give_are_not_imported(tmp_path: Path) -> None:
    world = paused(tmp_path, EACH)
    world.legacy((1, 20), (2, 41), (3, 60))
    answer = verified(world, "doubled", ("k",), sample=1000)
    assert answer["state"] == "differs"
    assert answer["sample"]["differing"] == ["k=2"]
    assert verified(world, "doubled", ("k",), sample=1000) == answer, "no further generations"
    assert world.generations("main").get("shop.doubled") is None
    points = [answer["sample"]["computed"], answer["sample"]["copied"]]
    rows_of_points = []
    for text in points:
        assert text is not None
        point = addresses.parse(text)
        with world.store.read() as tx:
            state = time_travel.state_of(tx, "main", point.name, point.point)
        rows_of_points.append(world.parts(state)["k=2"])
    assert rows_of_points == [((2, 40),), ((2, 41),)]
    assert not world.ran(), "the copy keeps its rows"
    world.bring("doubled", key=("k",))
    world.describe(EACH)
    world.ran()
    assert world.values("main", "shop.doubled") == [(1, 20), (2, 41), (3, 60)]


@pytest.mark.parametrize("v", [30, 31])
def test_components_by_key_and_whole_ones_are_verified(tmp_path: Path, v: int) -> None:
    state = "imported" if v == 30 else "differs"
    for number, (name, component) in enumerate((("sums", BY), ("total", ALL))):
        (tmp_path / str(number)).mkdir()
        world = paused(tmp_path / str(number), component)
        world.legacy(*([(1, 10), (2, 20), (3, v)] if name == "sums" else [(3, 30 + v)]))
        answer = verified(world, name, sample=1000)
        assert answer["state"] == state
        assert answer["sample"]["differing"] == ([["k=3"], [""]][number] if v == 31 else [])


def test_a_sample_that_failed_is_computed_by_the_next_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = paused(tmp_path, EACH)
    world.legacy((1, 20), (2, 40), (3, 60))
    engine = type(world.engine)
    transform = engine._transform

    def fail(self: Any, claim: Any, *task_and_result: Any) -> None:
        if "orders" in claim["job"]["inputs"]:
            raise ValueError("a fault of the code")
        transform(self, claim, *task_and_result)

    with monkeypatch.context() as patch:
        patch.setattr(engine, "_transform", fail)
        with pytest.raises(ImportRefused, match="a fault of the code; nothing was imported"):
            verified(world, "doubled", ("k",))
    assert verified(world, "doubled", ("k",))["state"] == "imported"


def test_a_fold_is_not_verified(tmp_path: Path) -> None:
    (tmp_path / "fold").mkdir()
    world = paused(tmp_path / "fold", FOLD)
    world.legacy((1, 10), (2, 30), (3, 60))
    with pytest.raises(ImportRefused, match="a partition of a fold"):
        verified(world, "running", ("k",))


@given(st.sets(st.integers(0, 10**6), max_size=3000), st.integers(1, 1000))
@settings(max_examples=20)
def test_a_sample_has_as_many_partitions_as_were_requested(numbers: set[int], count: int) -> None:
    nodes, keys = MemoryNodes(), sorted(f"k={n:07}" for n in numbers)
    root = tree.build(nodes, [Entry(key, bytes(32), Content(1, 1, 1)) for key in keys])
    sample = import_sample.sample_keys(nodes, root, count)
    assert len(sample) == min(count, len(keys))
    assert sample == sorted(set(sample))
    assert set(sample) <= set(keys)


class Killed(BaseException):
    """Nobody is to catch it."""


class Mortal:
    """A store that dies before, within or after its n-th transaction that writes."""

    def __init__(self, store: Store, steps: int) -> None:
        self._store, self._left, self.namespace = store, steps, "default"

    def _step(self) -> None:
        self._left -= 1
        if not self._left:
            raise Killed

    @contextmanager
    def begin(self, namespace: str = "default") -> Iterator[Tx]:
        self._step()
        with self._store.begin(namespace) as tx:
            yield tx
            self._step()
        self._step()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@pytest.mark.soak
def test_a_death_at_any_step_imports_all_or_nothing(world: Trial) -> None:
    request = ImportRequest("main", "shop.doubled", "dataset:old.rows", ("k",))
    factor, steps = 0, 0
    while True:
        before = world.values("main", "shop.doubled")
        factor, steps = factor + 100, steps + 1
        world.legacy(*((k, factor * k) for k in (1, 2, 3)))
        mortal = Mortal(world.store, steps)
        ctx = replace(world.ctx, store=mortal)
        try:
            while table_import.proceed(ctx, request)["state"] == "copying":
                world.ran()
            break
        except Killed:
            world.ran()
        after = [(k, factor * k) for k in (1, 2, 3)]
        assert world.values("main", "shop.doubled") in (before, after)
        while step(world, request) == "copying":
            world.ran()
        world.ran()
        assert world.values("main", "shop.doubled") == after
        with world.store.read() as tx:
            assert request.dataflow not in tx.blueprints.revisions("main")
    assert steps > 9


def test_names_of_imports_are_names() -> None:
    long = ImportRequest("main", f"{'a' * 60}.{'b' * 60}", "dataset:old.rows").dataflow
    assert text_forms.name(long) is None
    assert ImportRequest("main", "a.b", "dataset:old.rows").dataflow == "import_a_b"


def test_two_targets_with_one_name_of_their_imports(world: Trial) -> None:
    world.legacy((1, 100), (2, 200), (3, 300))
    world.apply("  b_c:\n    transform: {sql: 'SELECT k, v FROM orders'}\n", flow="a")
    world.apply("  c:\n    transform: {sql: 'SELECT k, v FROM orders'}\n", flow="a_b")
    world.refresh()
    world.ran()
    step(world, ImportRequest("main", "a.b_c", "dataset:old.rows", ("k",)))
    with pytest.raises(ImportRefused, match="which the import would replace"):
        step(world, ImportRequest("main", "a_b.c", "dataset:old.rows", ("k",)))


def test_a_dataflow_of_a_user_is_not_replaced(world: Trial) -> None:
    world.legacy((1, 100), (2, 200), (3, 300))
    world.apply(EACH, flow="import_shop_doubled")
    with pytest.raises(ImportRefused, match="which the import would replace"):
        world.bring("doubled", key=("k",))
