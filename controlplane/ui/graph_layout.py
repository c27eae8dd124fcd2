"""Places a directed graph without cycles in columns, left to right: a pure function of names and
edges.

Columns by longest path; long edges get a waypoint in each column that they cross; order within a
column by barycentres, of which the order with the fewest crossings is kept; heights by isotonic
regression (pool adjacent violators), which is the least movement from where neighbours pull that
keeps the order and the gaps. Same graph, same picture: nothing is random.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

SWEEPS, ROUNDS = 12, 16
STALE_SWEEPS = 3  # without a better order, after which none is looked for

Edge: TypeAlias = tuple[str, str]
Spot: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Point:
    """An entry of a column: a node, or (`column` >= 0) the waypoint there of all edges that leave
    the node."""

    node: str
    column: int = -1

    @property
    def is_waypoint(self) -> bool:
        return self.column >= 0


Near: TypeAlias = Mapping[Point, Sequence[Point]]
Columns: TypeAlias = list[list[Point]]


@dataclass(frozen=True, slots=True)
class Sizes:
    """In pixels: from column to column and row to row, the room of a waypoint, the margin, a
    node's box, and the width that unconnected parts share."""

    column: float = 250
    row: float = 76
    lane: float = 22
    margin: float = 24
    width: float = 188
    height: float = 56
    shelf: float = 1_300


@dataclass(frozen=True, slots=True)
class Placed:
    """Centres of nodes, and the waypoints of edges between the nodes' sides; in pixels, from the
    upper left."""

    at: Mapping[str, Spot]
    routes: Mapping[Edge, tuple[Spot, ...]]
    width: float
    height: float
    crossings: int


def place(nodes: Sequence[str], edges: Iterable[Edge], sizes: Sizes = Sizes()) -> Placed:
    """Every node and each different edge once; edges of a node to itself are left out. Parts that
    no edge joins stand side by side. Every end of an edge must be a node, and there must be no
    cycle."""
    distinct = sorted({(a, b) for a, b in edges if a != b})
    parts = _connected(nodes, distinct)
    if len(parts) <= 1:
        return _connected_placed(nodes, distinct, sizes, sizes.margin)
    part_of = {name: number for number, part in enumerate(parts) for name in part}
    of_part: list[list[Edge]] = [[] for _ in parts]
    for edge in distinct:
        of_part[part_of[edge[0]]].append(edge)
    placed = [_connected_placed(part, of_part[i], sizes, 0) for i, part in enumerate(parts)]
    return _packed(placed, sizes)


def _connected_placed(
    nodes: Sequence[str], edges: Sequence[Edge], sizes: Sizes, margin: float
) -> Placed:
    above: dict[str, list[str]] = defaultdict(list)
    below: dict[str, list[str]] = defaultdict(list)
    for a, b in edges:
        above[b].append(a)
        below[a].append(b)
    rank = _ranks(nodes, above, below)
    chains, columns, up, down = _columns(nodes, edges, rank)
    ordered, crossings = _ordered(columns, up, down)
    y = _heights(ordered, up, down, sizes)
    low = min(y.values(), default=0.0) - sizes.row / 2
    at = {
        name: (margin + rank[name] * sizes.column + sizes.width / 2, margin + y[Point(name)] - low)
        for name in nodes
    }
    routes = {
        (a, b): _route(at[a], at[b], chains[a, b], y=y, low=low, sizes=sizes, margin=margin)
        for a, b in edges
    }
    last = max(rank.values(), default=0)
    tall = max(y.values(), default=0.0) - low + sizes.row / 2
    return Placed(
        at, routes, 2 * margin + last * sizes.column + sizes.width, 2 * margin + tall, crossings
    )


def _route(
    start: Spot,
    end: Spot,
    chain: Sequence[Point],
    y: Mapping[Point, float],
    low: float,
    sizes: Sizes,
    margin: float,
) -> tuple[Spot, ...]:
    """Out of the right side of a node, straight through each column that is crossed, into the left
    side of another."""
    points = [(start[0] + sizes.width / 2, start[1])]
    for point in chain:
        left, height = margin + point.column * sizes.column, margin + y[point] - low
        points += [(left, height), (left + sizes.width, height)]
    return (*points, (end[0] - sizes.width / 2, end[1]))


def _connected(nodes: Sequence[str], edges: Iterable[Edge]) -> list[list[str]]:
    """The parts that no edge joins, largest first; each keeps the order of nodes."""
    parent = {name: name for name in nodes}

    def find(name: str) -> str:
        while parent[name] != name:
            parent[name] = name = parent[parent[name]]
        return name

    for a, b in edges:
        parent[find(a)] = find(b)
    parts: dict[str, list[str]] = defaultdict(list)
    for name in nodes:
        parts[find(name)].append(name)
    return sorted(parts.values(), key=lambda part: -len(part))


def _packed(parts: Sequence[Placed], sizes: Sizes) -> Placed:
    """Side by side on shelves as wide as the widest part, or as makes the picture about twice as
    wide as high, up to `sizes.shelf`."""
    gap, margin = sizes.column - sizes.width, sizes.margin
    area = sum(part.width * part.height for part in parts)
    balanced = min((2 * area) ** 0.5, sizes.shelf)
    wide = max(max(part.width for part in parts), balanced)
    at: dict[str, Spot] = {}
    routes: dict[Edge, tuple[Spot, ...]] = {}
    x = y = deep = right = 0.0
    for part in parts:
        if x and x + part.width > wide:
            x, y, deep = 0.0, y + deep + sizes.row / 4, 0.0
        dx, dy = x + margin, y + margin
        at |= {name: (a + dx, b + dy) for name, (a, b) in part.at.items()}
        routes |= {
            edge: tuple((a + dx, b + dy) for a, b in points) for edge, points in part.routes.items()
        }
        x, deep, right = x + part.width + gap, max(deep, part.height), max(right, x + part.width)
    crossings = sum(part.crossings for part in parts)
    return Placed(at, routes, right + 2 * margin, y + deep + 2 * margin, crossings)


def _ranks(
    nodes: Sequence[str], above: Mapping[str, list[str]], below: Mapping[str, list[str]]
) -> dict[str, int]:
    """Longest path from the sources; then a node that reads nothing moves to just before its first
    reader."""
    order: list[str] = []
    waits = {name: len(above.get(name, ())) for name in nodes}
    ready = [name for name in nodes if not waits[name]]
    rank = dict.fromkeys(nodes, 0)
    while ready:
        name = ready.pop()
        order.append(name)
        for reader in below.get(name, ()):
            rank[reader] = max(rank[reader], rank[name] + 1)
            waits[reader] -= 1
            if not waits[reader]:
                ready.append(reader)
    for name in reversed(order):
        if below.get(name) and not above.get(name):
            rank[name] = min(rank[reader] for reader in below[name]) - 1
    return rank


def _columns(
    nodes: Sequence[str], edges: Sequence[Edge], rank: Mapping[str, int]
) -> tuple[dict[Edge, list[Point]], Columns, Near, Near]:
    """Waypoints of each edge, the initial points of each column, and the neighbours of each point
    before and after."""
    columns: Columns = [[] for _ in range(max(rank.values(), default=0) + 1)]
    for name in sorted(nodes):
        columns[rank[name]].append(Point(name))
    up: dict[Point, list[Point]] = defaultdict(list)
    down: dict[Point, list[Point]] = defaultdict(list)
    chains: dict[Edge, list[Point]] = {}
    points: set[Point] = set()
    for a, b in edges:
        chain: list[Point] = []
        before = Point(a)
        for column in range(rank[a] + 1, rank[b]):
            # Edges that leave one node share their way: one bundle, fewer lines
            point = Point(a, column)
            if point not in points:
                points.add(point)
                columns[column].append(point)
                down[before].append(point)
                up[point].append(before)
            chain.append(point)
            before = point
        end = Point(b)
        down[before].append(end)
        up[end].append(before)
        chains[a, b] = chain
    return chains, columns, up, down


def _ordered(columns: Columns, up: Near, down: Near) -> tuple[Columns, int]:
    """Sweeps there and back by barycentres; the best order of all, and how often lines cross in
    it."""
    position = {point: i for column in columns for i, point in enumerate(column)}
    best, fewest, stale = (
        [list(column) for column in columns],
        _crossings(columns, down, position),
        0,
    )
    for sweep in range(SWEEPS):
        if not fewest or stale > STALE_SWEEPS:
            break
        is_forwards = sweep % 2 == 0
        near = up if is_forwards else down
        for column in columns[1:] if is_forwards else reversed(columns[:-1]):
            weight = {
                point: _middle([position[p] for p in near.get(point, ())], position[point])
                for point in column
            }
            column.sort(key=weight.__getitem__)
            position.update({point: i for i, point in enumerate(column)})
        crossings = _crossings(columns, down, position)
        if crossings < fewest:
            best, fewest, stale = [list(column) for column in columns], crossings, 0
        else:
            stale += 1
    return best, fewest


def _middle(near: Sequence[float], own: float) -> float:
    return sum(near) / len(near) if near else own


def _crossings(columns: Columns, down: Near, position: Mapping[Point, int]) -> int:
    """Pairs of lines that cross between two columns: inversions, counted in a binary indexed
    tree."""
    total = 0
    for column in columns[:-1]:
        targets = [sorted(position[p] for p in down.get(point, ())) for point in column]
        counts = [0] * (2 + max((t for some in targets for t in some), default=0))
        counted = 0
        for some in targets:
            for target in some:
                total += counted - _below(counts, target + 1)
            for target in some:
                _add(counts, target + 1)
                counted += 1
    return total


def _below(counts: Sequence[int], i: int) -> int:
    total = 0
    while i:
        total += counts[i]
        i &= i - 1
    return total


def _add(counts: list[int], i: int) -> None:
    while i < len(counts):
        counts[i] += 1
        i += i & -i


def _heights(columns: Columns, up: Near, down: Near, sizes: Sizes) -> dict[Point, float]:
    """Each column in turn takes the heights that its neighbours pull to, as near as order and gaps
    allow."""
    offsets = [_offsets(column, sizes) for column in columns]
    tallest = max((steps[-1] for steps in offsets if steps), default=0.0)
    y = {
        point: step + (tallest - steps[-1]) / 2
        for column, steps in zip(columns, offsets, strict=True)
        for point, step in zip(column, steps, strict=True)
    }
    for turn in range(ROUNDS):
        is_forwards = turn % 2 == 0
        first, second = (up, down) if is_forwards else (down, up)
        is_late = turn >= ROUNDS - 4
        for i in range(len(columns)) if is_forwards else reversed(range(len(columns))):
            column, steps = columns[i], offsets[i]
            wished = _wished(column, steps, y, _pulls(first, second, y, both=is_late))
            for point, step, height in zip(column, steps, _monotone(wished), strict=True):
                y[point] = height + step
    return y


def _offsets(column: Sequence[Point], sizes: Sizes) -> list[float]:
    """How far below the first of its column each stands at least."""
    at, steps = 0.0, list[float]()
    for i, point in enumerate(column):
        if i:
            at += (_room(column[i - 1], sizes) + _room(point, sizes)) / 2
        steps.append(at)
    return steps


def _room(point: Point, sizes: Sizes) -> float:
    return sizes.lane if point.is_waypoint else sizes.row


def _pulls(
    first: Near, second: Near, y: Mapping[Point, float], *, both: bool
) -> Callable[[Point], list[float]]:
    """Heights of a point's neighbours on the side that the sweep comes from; on both where it has
    none there."""

    def of(point: Point) -> list[float]:
        near = first.get(point, ())
        beyond = second.get(point, ()) if both or not near else ()
        return [y[p] for p in (*near, *beyond)]

    return of


def _wished(
    column: Sequence[Point],
    steps: Sequence[float],
    y: Mapping[Point, float],
    pulls: Callable[[Point], list[float]],
) -> list[tuple[float, float]]:
    """Where each would start its column, and how much that counts: waypoints more, so that long
    lines are straight."""
    return [
        (_middle(pulls(point), y[point]) - step, 4.0 if point.is_waypoint else 1.0)
        for point, step in zip(column, steps, strict=True)
    ]


def _monotone(wished: Iterable[tuple[float, float]]) -> list[float]:
    """The nearest non-decreasing values, by weighted squares: pool adjacent violators."""
    values, weights, sizes = list[float](), list[float](), list[int]()
    for value, weight in wished:
        size = 1
        while values and values[-1] > value:
            before, heavy = values.pop(), weights.pop()
            value = (before * heavy + value * weight) / (heavy + weight)
            weight += heavy
            size += sizes.pop()
        values.append(value)
        weights.append(weight)
        sizes.append(size)
    return [value for value, size in zip(values, sizes, strict=True) for _ in range(size)]
