"""What follows committed states: published tables, and copies elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from controlplane.core.model.tasks import Fragment
from controlplane.core.tree import EMPTY_ROOT
from dataplane.contract.results import TaskError
from dataplane.contract.schemas import Schema


@dataclass(frozen=True, slots=True)
class Publication:
    """How far a dataset's Delta table has followed its states. `version` -1: it is not known to be
    there; of a branch beside main, files of it may be."""

    branch: str
    dataset: str
    generation: int
    root: bytes
    schema: bytes
    version: int
    error: str | None = None


def unknown_table(branch: str, dataset: str) -> Publication:
    """The publication of a table before its first write, and once it is to go."""
    return Publication(branch, dataset, generation=0, root=EMPTY_ROOT, schema=b"", version=-1)


NO_CONTENT = bytes(32)


@dataclass(frozen=True, slots=True)
class Target:
    """How far an external copy has followed its dataset. `root` is a tree: partition key -> content
    at the last sync.

    `order` grows with each change of the wanted content, and fences writers: generations go down
    where a copy is made of another dataset. It is the generation, as long as nothing but that
    changes.
    """

    branch: str
    component: str  # flow.name
    # Of everything that says where and how it is written; another one starts from nothing
    identity: bytes
    root: bytes
    generation: int
    error: TaskError | None = None
    order: int = 0
    content_digest: bytes = NO_CONTENT  # a digest of the content written under this order


@dataclass(frozen=True, slots=True)
class TableContent:
    """What a published table is to hold. A fragment comes once for each partition that has it.

    `path` is the table's folder relative to the lake. Fragments whose files lie elsewhere are
    linked below it, or, if it `borrows` them, named where they are; only a second copy of a file is
    linked then. `is_layout`: it has these rows already, perhaps in other files. `is_passing`: so it
    does as far as is known, and one of a newer generation, or none, is left alone.
    """

    path: str
    schema: Schema
    fragments: tuple[Fragment, ...]
    generation: int
    dataset: str
    is_layout: bool = False
    is_passing: bool = False
    borrows: bool = False
