"""Failed tasks of one partition are tried again, and nothing else: by the operation, the API and
the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from controlplane.__main__ import Bootstrap
from controlplane.cli.main import run
from controlplane.client import ApiError, Headgate
from controlplane.core.errors import NotFound
from controlplane.core.rights import TokenScope
from controlplane.operations.desired import branches, controls, tokens
from controlplane.operations.inspect import audit, causes
from tests.unit.ui.world import Pages, pages

WRONG = """
  wrong: {transform: {sql: "SELECT k, no_such_function(v) AS v FROM orders"}}
"""


@pytest.fixture
def world() -> Iterator[Pages]:
    with pages() as found:
        found.world.apply(WRONG, "broken")
        found.world.settle()
        for name in ("x", "y"):
            (found.world.home / "orders" / f"{name}.csv").write_text(f"k,v\n{name},1\n")
        (found.world.home / "orders" / "z.csv").write_text("k,v\ny,1\n")
        found.world.settle()
        yield found


def states(world: Pages, dataset: str = "shop.orders") -> dict[str, str]:
    with world.services.store.read() as tx:
        return {
            task.partition: task.state
            for task in tx.queue.demands("main", dataset).values()
            if task.state != "done"
        }


def test_only_its_own_tasks_get_a_fresh_budget(world: Pages) -> None:
    ctx = world.world.ctx
    assert states(world) == {"x.csv": "failed", "y.csv": "failed"}
    found = controls.retry_partition(ctx, "main", "shop.orders", "x.csv")
    assert (found["retried"], found["partition"], found["listings"]) == (1, "x.csv", 0)
    assert states(world) == {"x.csv": "queued", "y.csv": "failed"}
    (entry, *_) = audit.changes(ctx, "main", 1)["items"]
    assert (entry["action"], entry["target"]) == ("retry", "shop.orders")
    assert entry["after"] == {"tasks": 1, "partition": "x.csv"}
    errors = [causes.why(ctx, "main", "shop.orders", key)["error"] for key in ("x.csv", "y.csv")]
    assert errors[0] is None, "it waits, and y.csv failed"
    assert "'y'" in str(errors[1])
    (world.world.home / "orders" / "x.csv").write_text("k,v\n1,1\n")
    world.world.settle()
    assert states(world) == {"y.csv": "failed"}


def test_what_is_up_to_date_or_not_there(world: Pages) -> None:
    ctx = world.world.ctx
    assert controls.retry_partition(ctx, "main", "shop.dear", "2025-01-01.csv")["retried"] == 0
    with pytest.raises(NotFound, match=r"shop.dear has no partition 'x\.csv'"):
        controls.retry_partition(ctx, "main", "shop.dear", "x.csv")
    with pytest.raises(NotFound, match="has no partition"):
        controls.retry_partition(ctx, "main", "shop.export", "x.csv")
    with pytest.raises(NotFound, match="there is no dataflow or dataset"):
        controls.retry_partition(ctx, "main", "shop.nothing", "x.csv")
    with pytest.raises(NotFound, match="partitions of equal rows"):
        controls.retry_partition(ctx, "main", "shop.orders", "z.csv")
    branches.create(ctx, "try")
    assert controls.retry_partition(ctx, "try", "shop.dear", "2025-01-01.csv")["retried"] == 0


def test_the_whole_of_a_dataset_is_all_of_its_tasks_and_none_upstream(world: Pages) -> None:
    assert list(states(world, "broken.wrong")) == [""]
    assert controls.retry_partition(world.world.ctx, "main", "broken.wrong", "")["retried"] == 1
    assert controls.retry_partition(world.world.ctx, "main", "shop.orders", "")["retried"] == 2
    assert "failed" not in states(world).values()


def test_the_command_and_the_api_say_which(
    world: Pages, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HEADGATE_URL", world.url)
    monkeypatch.setenv("HEADGATE_TOKEN", world.token)
    assert run(("retry", "shop.orders/y.csv", "-o", "json"), Bootstrap()) == 0
    told = json.loads(capsys.readouterr().out)
    assert told == {"target": "shop.orders", "partition": "y.csv", "retried": 1, "listings": 0}
    assert states(world) == {"x.csv": "failed", "y.csv": "queued"}
    narrow, _ = tokens.create(
        world.world.ctx, "narrow", ("operate",), within=TokenScope(datasets=("shop.dear",))
    )
    with Headgate(world.url, narrow) as client, pytest.raises(ApiError) as refused:
        client.retry("shop.orders", partition="x.csv")
    assert refused.value.status == 404
    with Headgate(world.url, world.token) as client:
        for target, tasks in ((None, None), ("shop", None), ("shop.orders", ["0" * 64])):
            with pytest.raises(ApiError) as refused:
                client.retry(target, tasks=tasks, partition="x.csv")
            assert refused.value.status == 422
    assert states(world)["x.csv"] == "failed"
