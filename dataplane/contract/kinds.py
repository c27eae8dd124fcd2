"""The kinds of tasks, and what the tasks of one kind have in common."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, TypeAlias, get_args

Kind: TypeAlias = Literal[
    "list",
    "footers",
    "infer",
    "analyse",
    "parse",
    "slice",
    "index",
    "transform",
    "pack",
    "check",
    "write",
    "connect",
    "notify",
]


# The processes that may run a task; `packaged`: a driver that has a place for a process of its own
Placement: TypeAlias = Literal["worker", "driver", "either", "packaged"]
PLACEMENTS: tuple[Placement, ...] = get_args(Placement)
Process: TypeAlias = Literal["worker", "driver"]

# The tasks that each kind of process is started for. No JVM is started for a task that a worker may
# run.
STARTED_FOR: Mapping[Process, tuple[Placement, ...]] = {
    "worker": ("worker", "either"),
    "driver": ("driver", "packaged"),
}


class KindTraits(NamedTuple):
    """What the tasks of one kind have in common.

    `placement`: where they run, unless their connector has another place (`placement_of`).
    `has_manifest`: results are also written beside the files, so that they outlive their driver.
    `remembered_as`: the record of a task that is done, which keeps it from being done again.
    """

    placement: Placement
    has_manifest: bool
    remembered_as: Literal["trace", "memo", "listing", "target", "pack"]


# The one table of kinds. A new kind has a row here, and mypy names each `match` that does not know
# it.
KINDS: Mapping[Kind, KindTraits] = {
    "list": KindTraits("worker", has_manifest=False, remembered_as="listing"),
    "footers": KindTraits("worker", has_manifest=False, remembered_as="memo"),
    "write": KindTraits("worker", has_manifest=False, remembered_as="target"),
    "connect": KindTraits("worker", has_manifest=False, remembered_as="memo"),
    "notify": KindTraits("worker", has_manifest=False, remembered_as="memo"),
    "slice": KindTraits("worker", has_manifest=True, remembered_as="trace"),
    "infer": KindTraits("driver", has_manifest=False, remembered_as="memo"),
    "analyse": KindTraits("driver", has_manifest=False, remembered_as="memo"),
    "check": KindTraits("driver", has_manifest=False, remembered_as="memo"),
    "index": KindTraits("driver", has_manifest=True, remembered_as="memo"),
    "parse": KindTraits("driver", has_manifest=True, remembered_as="trace"),
    "transform": KindTraits("driver", has_manifest=True, remembered_as="trace"),
    "pack": KindTraits("driver", has_manifest=True, remembered_as="pack"),
}
# The placement of tasks of a kind with a connector, where others of the kind run elsewhere.
BY_CONNECTOR: Mapping[tuple[Kind, str], Placement] = {}
WORKER_KINDS = frozenset(kind for kind, traits in KINDS.items() if traits.placement == "worker")
DRIVER_KINDS = frozenset(kind for kind, traits in KINDS.items() if traits.placement == "driver")
# Work that makes nothing, and changes no place
PROBE_KINDS: frozenset[Kind] = frozenset({"list", "footers", "connect", "analyse"})


def placement_of(kind: Kind, connector: str = "", *, has_packages: bool = False) -> Placement:
    """The processes that may run a task of this kind; `connector`: of its source or target, if it
    has one; `has_packages`: the source lists packages for the class path of Spark."""
    if has_packages:
        return "packaged"
    return BY_CONNECTOR.get((kind, connector), KINDS[kind].placement)


def placements_for(kinds: Iterable[Kind], *, takes_packages: bool = True) -> frozenset[Placement]:
    """The placements of tasks that a process takes which claims these kinds.

    Example: one that claims `list` and `write` is a worker, and takes tasks for workers and for
    either.
    """
    placements: set[Placement] = {"either", *(KINDS[kind].placement for kind in kinds)}
    if takes_packages and "driver" in placements:
        placements.add("packaged")
    return frozenset(placements)
