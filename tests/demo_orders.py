"""`make demo-orders`: the example `blueprints/orders` with servers of its own, which end when it
does.

Does not belong here: the servers and what is in them (`servers.shop`).
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.e2e.workspace import Run, Workspace
from tests.servers.shop import MONTHS, Shop

FIRST = 2_000  # orders; the next ones come in a day with few others
LATER = 40


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="headgate-orders-") as folder:
        _say("Starting a Kafka, a PostgreSQL and an S3 server ...")
        with Shop(Path(folder)) as shop:
            place = Workspace(shop.folder, environment=shop.environment)
            try:
                return _tour(shop, place)
            finally:
                place.end_all()


def _tour(shop: Shop, place: Workspace) -> int:
    def north_sells() -> None:
        shop.sell(range(FIRST, FIRST + LATER), "north")

    def nothing() -> None: ...

    shop.sell(range(FIRST))
    steps: tuple[tuple[str, Callable[[], None]], ...] = (
        (
            f"{FIRST:,} orders on Kafka, customers in PostgreSQL, {len(MONTHS)} files of prices on S3",
            nothing,
        ),
        ("Nothing happens", nothing),
        (f"{LATER} more orders, all from the north", north_sells),
        (f"New prices for {MONTHS[1]}", lambda: shop.put_prices(MONTHS[1], 9)),
        (
            "A customer moves",
            lambda: _run(shop, "UPDATE customers SET region = 'west' WHERE id = 7"),
        ),
    )
    for told, happens in steps:
        happens()
        _say(f"\n{told}. headgate run orders.yaml:")
        _show(place.run("orders.yaml"))
        if not shop.is_in_sync():
            _say("  a copy is not what the sources say")
            return 1
        _say(
            f"  the Delta table, the PostgreSQL table and the topic agree with the sources: {len(shop.table())} rows"
        )
    return 0


def _run(shop: Shop, statement: str) -> None:
    shop.do(statement)


def _show(run: Run) -> None:
    tasks, is_started = run.value["tasks"], run.value["spark_started"]
    by_task = ", ".join(f"{n} {name}" for name, n in tasks.items() if n) or "no task"
    _say(f"  {by_task}; {run.value['wall_s']:.1f} s{'' if is_started else ', without Spark'}")
    for target in run.value["targets"]:
        _say(f"  {target['name']}: {target['state']}, generation {target['synced_generation']}")


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
