"""Work that cannot be handed out fails by itself, and holds up no work of others."""

from __future__ import annotations

from pathlib import Path

from controlplane.operations.work import claims
from dataplane.contract.claims import CONTRACT
from dataplane.contract.kinds import DRIVER_KINDS
from tests.store.examples import d, stored_job, task
from tests.unit.expectations.world import World


def test_a_job_whose_tree_is_gone_fails_alone(tmp_path: Path) -> None:
    world = World(tmp_path)
    with world.store.begin() as tx:
        tx.queue.put_job(d(1), stored_job(shared={"orders": "ab" * 32}))  # a root of no tree
        tx.queue.put_job(d(2), stored_job(shared={}))
        tx.queue.enqueue(
            "main", "shop.broken", [task(1, job=d(1), dataset="shop.broken", priority=5, spec={})]
        )
        tx.queue.enqueue("main", "shop.fine", [task(2, job=d(2), dataset="shop.fine", spec={})])
    asked = [
        claims.claim(world.ctx, "driver", CONTRACT, sorted(DRIVER_KINDS), lake="memory:")
        for _ in range(2)
    ]
    assert [claim and claim["dataset"] for claim in asked] == [None, "shop.fine"]
    with world.store.read() as tx:
        broken = tx.queue.tasks([d(1)])[d(1)]
        assert broken.state == "failed"
        assert broken.error is not None
        assert "cannot be handed out" in broken.error["message"]
        assert len(tx.queue.attempts()) == 1
    world.store.close()
