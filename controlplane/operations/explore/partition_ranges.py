"""The partitions of a dataset as ranges of their keys, however many there are. Changes nothing."""

from __future__ import annotations

from controlplane.core.model.addresses import Point
from controlplane.core.model.answers.explore import PartitionRange, RangesAnswer
from controlplane.core.tree.key_ranges import MOST_READS, Range
from controlplane.core.tree.key_ranges import ranges as ranges_of
from controlplane.operations.context import Context
from controlplane.operations.explore.counted import CountedNodes
from controlplane.operations.inspect.time_travel import state_of

CELLS = 400


def ranges(
    ctx: Context,
    branch: str,
    name: str,
    point: Point | None = None,
    *,
    against: Point | None = None,
    after: str | None = None,
    last: str | None = None,
    cells: int = CELLS,
    most_reads: int = MOST_READS,
) -> RangesAnswer:
    """Ranges of one generation, the newest by default, compared with generation `against` if there
    is one. `after` and `last`: the ends of a range of an earlier answer, to divide it further.
    `most_reads`: tree nodes. Raises NotFound, GenerationGone."""
    with ctx.read() as tx:
        state = state_of(tx, branch, name, point, sees=ctx.sees)
        other = None if against is None else state_of(tx, branch, name, against)
        nodes = CountedNodes(tx.nodes)
        root = None if other is None else other.root
        key_ranges = ranges_of(
            nodes, state.root, root, start=after, stop=last, cells=cells, most_reads=most_reads
        )
    return {
        "dataset": name,
        "generation": state.generation,
        "against": None if other is None else other.generation,
        "partitions": state.partitions,
        "rows": state.rows,
        "items": [_range(key_range) for key_range in key_ranges],
        "reads": nodes.reads,
    }


def _range(key_range: Range) -> PartitionRange:
    return {
        "after": key_range.after,
        "last": key_range.last,
        "partitions": key_range.partitions,
        "rows": key_range.rows,
        "digest": key_range.id.hex(),
        "differs": key_range.differs,
    }
