"""The kinds of tasks, and what the tasks of one kind have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

Kind: TypeAlias = Literal[
    "list", "footers", "infer", "analyse", "parse", "index", "transform", "pack", "check", "write", "connect", "notify"
]


class KindTraits(NamedTuple):
    """What the tasks of one kind have in common.

    `has_manifest`: results are also written beside the files, so that they outlive their driver. `remembered_as`: what
    is known once a task is done, and keeps it from being done again.
    """

    runs_on: Literal["worker", "driver"]
    has_manifest: bool
    remembered_as: Literal["trace", "memo", "listing", "target", "pack"]


# The one table of kinds. A new kind has a row here, and mypy names each `match` that does not know it.
KINDS: Mapping[Kind, KindTraits] = {
    "list": KindTraits("worker", has_manifest=False, remembered_as="listing"),
    "footers": KindTraits("worker", has_manifest=False, remembered_as="memo"),
    "write": KindTraits("worker", has_manifest=False, remembered_as="target"),
    "connect": KindTraits("worker", has_manifest=False, remembered_as="memo"),
    "notify": KindTraits("worker", has_manifest=False, remembered_as="memo"),
    "infer": KindTraits("driver", has_manifest=False, remembered_as="memo"),
    "analyse": KindTraits("driver", has_manifest=False, remembered_as="memo"),
    "check": KindTraits("driver", has_manifest=False, remembered_as="memo"),
    "index": KindTraits("driver", has_manifest=True, remembered_as="memo"),
    "parse": KindTraits("driver", has_manifest=True, remembered_as="trace"),
    "transform": KindTraits("driver", has_manifest=True, remembered_as="trace"),
    "pack": KindTraits("driver", has_manifest=True, remembered_as="pack"),
}
WORKER_KINDS = frozenset(kind for kind, traits in KINDS.items() if traits.runs_on == "worker")
LOOKS: frozenset[Kind] = frozenset(
    {"list", "footers", "connect", "analyse"}
)  # work that makes nothing, and changes no place
DRIVER_KINDS = frozenset(kind for kind, traits in KINDS.items() if traits.runs_on == "driver")
