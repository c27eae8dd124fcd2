"""Datasets with committed states, and who reads them through the S3 view."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from controlplane.core import scopes, tree
from controlplane.core.model.branches import Branch
from controlplane.core.model.states import State
from controlplane.core.model.tasks import Fragment
from controlplane.core.tree import Entry
from controlplane.lake.checkpoints import make_checkpoint
from controlplane.lake.lake_objects import LocalObjects
from controlplane.ports.store import Store
from controlplane.services.s3.key_scope import Reader
from controlplane.services.s3.view import ListingPosition, ObjectPage, ObjectPageRequest, S3View
from dataplane.contract.identity import Content
from dataplane.contract.schemas import Schema
from tests.store.examples import state
from tests.stores import new_store
from tests.unit.lake.tables import Lake, Rows, struct

SCHEMA = struct(k="long", v="string")
NOON = 1_764_072_000.0  # 2025-11-25T12:00:00Z


@dataclass
class World:
    """One store and lake. `now` is the store's clock."""

    root: Path
    now: list[float] = field(default_factory=lambda: [NOON])
    seqs: dict[tuple[str, str], int] = field(default_factory=dict)
    checkpoints: int = 0  # that were made

    def __post_init__(self) -> None:
        self.store: Store = new_store(clock=lambda: self.now[0])
        self.lake = LocalObjects(self.root)
        self.view = S3View(self.store, self.lake, make_checkpoint=self.checkpoint)

    def checkpoint(self, log: bytes) -> bytes:
        self.checkpoints += 1
        return make_checkpoint(log)

    def commit(
        self,
        dataset: str,
        partitions: Mapping[str, Rows],
        branch: str = "main",
        schema: Schema = SCHEMA,
    ) -> tuple[State, list[Fragment]]:
        """A new generation of a dataset, with a real file for each partition."""
        files = Lake(
            self.root,
            f"default/{dataset.replace('.', '/')}",
            attempts=sum(self.seqs.values()) * 100,
        )
        made = {key: files.fragment(schema, rows) for key, rows in partitions.items()}
        return self.commit_fragments(dataset, made, branch, schema), list(made.values())

    def commit_fragments(
        self,
        dataset: str,
        partitions: Mapping[str, Fragment],
        branch: str = "main",
        schema: Schema = SCHEMA,
    ) -> State:
        seq = self._seq(branch, dataset) + 1
        self.seqs[branch, dataset] = seq
        with self.store.begin() as tx:
            tx.traces.put([], list(partitions.values()))
            root = tree.build(
                tx.nodes, [Entry(k, f.id, f.content) for k, f in sorted(partitions.items())]
            )
            made = replace(
                state(seq, dataset), branch=branch, root=root, schema=schema, at=tx.now()
            )
            tx.states.commit(made, seq - 1)
        return made

    def _seq(self, branch: str, dataset: str) -> int:
        return self.seqs.get((branch, dataset), 0)

    def branch(self, name: str) -> None:
        with self.store.begin() as tx:
            tx.branches.create(Branch(name=name, source="main", at=tx.now(), actor="ann"))

    def names(
        self, prefix: str = "", read: str = "*", size: int = 1000, delimiter: str = ""
    ) -> list[str]:
        """Keys and common prefixes of a whole listing, page by page."""
        return [
            name
            for page in self.pages(ObjectPageRequest(prefix, delimiter, limit=size), read)
            for name in shown(page)
        ]

    def body(self, key: str) -> bytes:
        """Of an object, which is as long as it is said to be."""
        found = self.view.find(reader("*"), key)
        assert found is not None, key
        body = found.source if isinstance(found.source, bytes) else self.lake.read(found.source)
        assert len(body) == found.size
        return body

    def mirrored(self, prefix: str, folder: Path) -> Path:
        """All that the view lists, as files."""
        for key in self.names(prefix):
            path = folder / key.removeprefix(prefix)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.body(key))
        return folder

    def pages_of(self, prefix: str, size: int) -> Iterator[list[str]]:
        """Keys of one page after another."""
        return map(shown, self.pages(ObjectPageRequest(prefix, limit=size)))

    def pages(self, asked: ObjectPageRequest, read: str = "*") -> Iterator[ObjectPage]:
        position: ListingPosition | None = None
        while True:
            page = self.view.page(reader(read), replace(asked, position=position))
            yield page
            if page.next is None:
                return
            position = page.next


def shown(page: ObjectPage) -> list[str]:
    return sorted([*(found.name for found in page.objects), *page.prefixes])


def reader(*texts: str) -> Reader:
    return Reader(tuple(map(scopes.parse, texts)))


def fragment(key: str, files: int = 1) -> Fragment:
    """Without files in the lake."""
    id = sha256(key.encode()).digest()
    entries = tuple(
        {
            "path": f"default/shop/orders/_frags/aa/{id.hex()}/{number}.parquet",
            "size": 7,
            "rows": 1,
            "stats": {},
        }
        for number in range(files)
    )
    return Fragment(id, SCHEMA, Content(1, 1, 1), entries, "shop.orders", id.hex())  # type: ignore[arg-type]  # entries of the right shape
