"""Tables of main and of branches in a lake in memory, and a loop that publishes them.

Does not belong here: what a Delta log is (`tests/unit/lake`).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from controlplane.core import tree
from controlplane.core.model.projections import TableContent
from controlplane.operations.desired import controls
from controlplane.reconciler.fleet import Fleet
from controlplane.reconciler.loop import Reconciler
from controlplane.reconciler.wake import WakeCounter
from tests.hostile.test_kills import Children
from tests.property.engine import MemoryLake
from tests.unit.branches.world import BranchWorld
from tests.unit.expectations.world import BRANCH


@dataclass
class Logs:
    """A publisher whose log has an object for each version: the generation, and what is in the
    table then.

    `refuses`: datasets whose tables cannot be written.
    """

    lake: MemoryLake
    refuses: set[str] = field(default_factory=set)
    step: Callable[[str], None] = lambda _: None

    def publish(self, table: TableContent, told: object = None) -> int:
        if table.dataset in self.refuses:
            raise OSError("the store is away")
        held = sorted(fragment.id.hex() for fragment in table.fragments)
        versions = self.versions(table.path)
        if versions and versions[-1][1] == held:
            return len(versions) - 1
        self.step("before the log")
        body = json.dumps([table.generation, held, table.borrows]).encode()
        assert self.lake.put_if_absent(f"{table.path}/_delta_log/{len(versions):020}.json", body)
        self.step("after the log")
        return len(versions)

    def versions(self, path: str) -> list[tuple[int, list[str]]]:
        """The generation and fragments of each version of a table."""
        read = [
            json.loads(self.lake.read(name))
            for name in sorted(self.lake.sizes(f"{path}/_delta_log"))
        ]
        return [(generation, held) for generation, held, _ in read]

    def close(self) -> None:
        """Nothing to end."""


class PublishedWorld(BranchWorld):
    """Main and its branches, as the whole loop looks after them and their tables."""

    def __init__(self, home: Path, url: str | None = None) -> None:
        super().__init__(home, url=url)
        self.logs = Logs(self.lake)
        self.begin()

    def begin(self) -> None:
        """A service starts."""
        self.loop = Reconciler(
            self.store, Fleet(self.ctx, self.lake, Children(self.engine)), self.logs, WakeCounter()
        )

    def rest(self) -> None:
        """All sources are looked at, and all goes on until nothing is left."""
        self.now += 100.0
        controls.refresh(self.ctx, BRANCH, None)
        self.loop.settle(threading.Event())

    def folders(self, branch: str) -> set[str]:
        """Datasets of which a branch has files of a table."""
        return {path.split("/")[2] for path in self.lake.objects if f"/_branches/{branch}/" in path}

    def of_main(self) -> dict[str, bytes]:
        """The logs of main's tables, byte by byte."""
        found = self.lake.objects.items()
        return {
            path: body
            for path, body in found
            if "/_delta_log/" in path and "/_branches/" not in path
        }

    def shown(self, branch: str, dataset: str) -> list[str]:
        """The fragments of the newest version of a branch's table."""
        flow, _, name = dataset.partition(".")
        return self.logs.versions(f"default/{flow}/{name}/_branches/{branch}")[-1][1]

    def held(self, branch: str, dataset: str) -> list[str]:
        """The fragments of the newest state."""
        with self.store.read() as tx:
            state = tx.states.newest(branch, [dataset])[dataset]
            return sorted(entry.fragment.hex() for entry in tree.scan(tx.nodes, state.root))
