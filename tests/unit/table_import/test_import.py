"""An imported table is a generation like any other: later changes run what they touch, and nothing
of it is shared.

The table is a dataset of another dataflow here. Its rows differ from those that the component would
compute, so that both can be told apart.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.core.errors import ImportRefused, NotFound
from controlplane.core.model.branches import Branch
from controlplane.operations.desired import blueprints, controls, table_import
from controlplane.operations.desired.table_import import ImportRequest
from controlplane.operations.inspect import causes, datasets
from controlplane.operations.planning import edit_review
from tests.there import there
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


def test_a_dataflow_of_a_user_is_not_replaced(world: Trial) -> None:
    world.legacy((1, 100), (2, 200), (3, 300))
    world.apply(EACH, flow="import_shop_doubled")
    with pytest.raises(ImportRefused, match="which the import would replace"):
        world.bring("doubled", key=("k",))
