"""Exploration: the graph, waves, ranges of partitions, one partition, a search. Changes nothing."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Query

from controlplane.api import auth
from controlplane.api.calls import (
    Branch,
    Call,
    Called,
    Dataset,
    JsonAnswer,
    answer,
    branch_of,
    dataset_of,
    flows_of,
)
from controlplane.api.points import Point
from controlplane.core import rest
from controlplane.core.model.addresses import point_of
from controlplane.core.model.answers.explore import (
    Collapse,
    GraphAnswer,
    PartitionAnswer,
    RangesAnswer,
    SearchAnswer,
    WaveAnswer,
    WavesAnswer,
)
from controlplane.core.model.branches import MAIN
from controlplane.operations.explore import graph as graphs
from controlplane.operations.explore import partition as partitions
from controlplane.operations.explore import partition_ranges
from controlplane.operations.explore import search as searching
from controlplane.operations.explore import waves as waves_of

Name = Annotated[str | None, Query(max_length=1000)]
Steps = Annotated[int, Query(ge=0, le=1000)]
# Characters: of up to 12 bytes each in a URL, which a server takes up to 64 KiB.
LONGEST_KEY, LONGEST_END = 4_000, 2_000

router = auth.router("view", "all")


def _flow(call: Call, name: str | None) -> str | None:
    """Raises NotFound for an invalid name of a dataflow, and for a hidden one."""
    names = call.flows(None if name is None else [name])
    return names[0] if names else None


@router.answers(rest.GRAPH)
def graph(
    call: Called,
    branch: Branch,
    dataflow: Name = None,
    around: Name = None,
    up: Steps = graphs.STEPS,
    down: Steps = graphs.STEPS,
    collapse: Collapse | None = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = graphs.MOST_NODES,
) -> JsonAnswer[GraphAnswer]:
    """Datasets, how they read each other, and how each stands: of a dataflow, of the datasets `up`
    and `down` steps `around` a dataset, or of all. `collapse` draws those of one dataflow or tag as
    one. At most `limit` nodes: the nearest, then the worst; `more` counts the others. `structure`
    is equal for equal names, edges and modes."""
    drawn = graphs.graph(
        call.context,
        branch,
        _flow(call, dataflow),
        around=None if around is None else dataset_of(call, around),
        up=up,
        down=down,
        collapse=collapse,
        most=limit,
    )
    return answer(drawn)


@router.answers(rest.RANGES)
def ranges(
    call: Called,
    branch: Branch,
    dataset: Dataset,
    point: Point,
    against: Annotated[
        str | None, Query(max_length=100, description="A generation, or a time with its zone.")
    ] = None,
    after: Annotated[str | None, Query(alias="from", max_length=LONGEST_END)] = None,
    last: Annotated[str | None, Query(alias="to", max_length=LONGEST_END)] = None,
    cells: Annotated[int, Query(ge=1, le=2_000)] = partition_ranges.CELLS,
) -> JsonAnswer[RangesAnswer]:
    """The partitions of one generation as about `cells` ranges of their keys, however many there
    are. `against`: which of them differ from another generation. `from` and `to`: the `after` and
    `last` of a range, to look into it."""
    key_ranges = partition_ranges.ranges(
        call.context,
        branch,
        dataset,
        point,
        against=None if against is None else point_of(against),
        after=after,
        last=last,
        cells=cells,
    )
    return answer(key_ranges)


@router.answers(rest.PARTITION)
def partition(
    call: Called,
    branch: Branch,
    dataset: Dataset,
    point: Point,
    key: Annotated[str, Query(max_length=LONGEST_KEY)],
) -> JsonAnswer[PartitionAnswer]:
    """One partition of a generation: its files, the attempt that wrote it, the generation that it
    came with, the partitions that it is made of by input, and those that are made of it."""
    return answer(partitions.partition(call.context, branch, dataset, key, point))


@router.answers(rest.WAVES)
def waves(
    call: Called,
    branch: Branch,
    dataflow: Name = None,
    before: Name = None,
    limit: Annotated[int, Query(ge=1, le=100)] = waves_of.SHOWN,
) -> JsonAnswer[WavesAnswer]:
    """Commits that one late file, edit or request led to, put together; those that reached a
    dataflow, or any, the last ones first. `next` is the `before` of the next page."""
    return answer(
        waves_of.waves(call.context, branch, _flow(call, dataflow), before=before, limit=limit)
    )


@router.answers(rest.WAVE)
def wave(
    call: Called, branch: Branch, wave: Annotated[str, Path(max_length=1000)]
) -> JsonAnswer[WaveAnswer]:
    """One wave: its commits in order with how many partitions each changed, and the datasets that
    it left alone."""
    flows_of([wave.partition(".")[0]])
    return answer(waves_of.wave(call.context, branch, wave))


@router.answers(rest.SEARCH)
def search(
    call: Called,
    q: Annotated[str, Query(max_length=1000)],
    branch: Annotated[str, Query(max_length=1000)] = MAIN,
    limit: Annotated[int, Query(ge=1, le=1_000)] = searching.HITS,
) -> JsonAnswer[SearchAnswer]:
    """Datasets and copies with all of these words, the best first: in names, columns, descriptions,
    tags and owners, or as the beginning of a partition's key. `col:`, `tag:`, `owner:`, `state:`
    and `is:` before a word say where."""
    return answer(searching.search(call.context, branch_of(call, branch), q, limit))
