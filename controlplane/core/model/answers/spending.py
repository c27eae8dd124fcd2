"""What past work cost."""

from __future__ import annotations

from typing_extensions import TypedDict  # pydantic reads no other TypedDict before Python 3.12


class CostFigures(TypedDict):
    """Sums over attempts that ended, failed ones among them. `tasks`: accepted results; `seconds`
    of drivers and workers. `reused`: partitions that came from memory; `unchanged`: commits with
    equal rows, after which nothing had to run."""

    attempts: int
    tasks: int
    seconds: float
    bytes_read: int
    bytes_written: int
    reused: int
    unchanged: int


class CostRow(CostFigures):
    """The figures of one dataflow, component, owner or day. An empty `name` stands for datasets
    without an owner."""

    name: str


class CostBy(TypedDict):
    """The first rows. `left_out`: how many more there are."""

    rows: list[CostRow]
    left_out: int


class CostAnswer(TypedDict):
    """The cost of work since the beginning of a day, by UTC, as far as the token sees it. Four
    tables of the same sums; `days` has the newest day first, the others the most seconds."""

    branch: str
    since: str
    total: CostFigures
    dataflows: CostBy
    components: CostBy
    owners: CostBy
    days: CostBy
