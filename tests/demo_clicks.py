"""`make demo-clicks`: the example `blueprints/clicks` with a Kafka of its own, which ends when it
does.

Does not belong here: the server and what is in it (`servers.clicks`).
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError

from controlplane.client import Headgate
from tests.e2e.workspace import Workspace, until
from tests.servers.clicks import BATCH, COLUMNS, Clicks, Row, in_order

DAY = timedelta(days=1)
EDIT = ("sum(amount) AS amount", "sum(amount) AS amount, max(amount) AS largest")


@dataclass(frozen=True, slots=True)
class Size:
    """`backlog`: orders that are there before the first run; `rate`: orders a second, with as many
    clicks; `seconds` of them."""

    backlog: int = 5_000
    rate: int = 200
    seconds: int = 20


FULL = Size()


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="headgate-clicks-") as folder:
        _say("Starting a Kafka server and headgate serve ...")
        with Clicks(Path(folder)) as clicks:
            place = Workspace(clicks.folder)
            try:
                with place.serving() as service, service.client() as api:
                    Tour(clicks, place, api).go()
            except AssertionError as error:
                _say(f"  {error}")
                return 1
            finally:
                place.end_all()
    return 0


class Tour:
    """The steps, one after the other. Each ends when all tables are those of a batch."""

    def __init__(self, clicks: Clicks, place: Workspace, api: Headgate, size: Size = FULL) -> None:
        self.clicks, self.place, self.api, self.size = clicks, place, api, size
        self.begin = datetime.now(UTC) - DAY

    def go(self) -> None:
        self.step(f"{self.size.backlog:,} orders of a day, as many clicks, 330 events", self.fill)
        self.step(f"{self.size.rate} orders a second are sold", self.sell_live)
        self.step("50 orders of yesterday arrive late, the last ones first", self.send_late)
        self.step("A file corrects an hour of yesterday", self.correct_an_hour)
        self.step("An edit in a branch, which is then merged", self.edit_in_a_branch)
        self.step("Orders are sold, and the driver is killed", self.kill_the_driver)

    def step(self, text: str, action: Callable[[], None]) -> None:
        _say(f"\n{text}.")
        before = self._executed()
        action()
        began = time.monotonic()
        rows = self.await_batch()
        took = time.monotonic() - began
        counts = ", ".join(f"{name} {count:,}" for name, count in rows.items())
        _say(f"  After {took:.1f} s each table is what a batch over the whole topics gives.")
        _say(f"  Rows: {counts}. Tasks: {self._executed() - before}.")

    def await_batch(self) -> Mapping[str, int]:
        """The numbers of rows of the tables, once they are what the batch gives."""
        batch = self.clicks.batch()

        def wrong() -> list[str]:
            return [name for name in BATCH if self.rows(name) != batch[name]]

        until(lambda: not wrong(), lambda: f"Not what a batch gives: {', '.join(wrong())}")
        return {name: len(rows) for name, rows in batch.items()}

    def rows(self, name: str) -> list[Row]:
        """Rows of the published table, in order; none as long as there is no table."""
        with suppress(TableNotFoundError):
            table = DeltaTable(str(self.place.lake / "default" / "clicks" / name))
            return in_order(table.to_pyarrow_table(columns=list(COLUMNS[name])))
        return []

    def query(self, sql: str) -> list[Row]:
        answer = self.api.query(sql)
        names = [column["name"] for column in answer["columns"]]
        return [dict(zip(names, row, strict=True)) for row in answer["rows"]]

    def _executed(self) -> int:
        return self.place.counted().get("task.executed", 0)

    # what happens

    def fill(self) -> None:
        self.clicks.sell(
            self.begin + number * DAY / self.size.backlog for number in range(self.size.backlog)
        )
        self.clicks.change_customers(300)
        self.place.ask("apply", "clicks.yaml", "--wait")

    def sell_live(self) -> None:
        began = time.monotonic()
        for second in range(1, self.size.seconds + 1):
            now = datetime.now(UTC)
            self.clicks.sell(
                now + timedelta(seconds=number / self.size.rate) for number in range(self.size.rate)
            )
            time.sleep(max(0.0, began + second - time.monotonic()))
            if second % 2 == 0:
                rows = self.api.dataset("clicks.orders")["rows"] or 0
                sent = self.clicks.next_id
                _say(f"  {second:>3} s: {sent:,} orders sent, {rows:,} in the dataset")

    def send_late(self) -> None:
        self.clicks.sell(self.begin + timedelta(minutes=50 - number) for number in range(50))

    def correct_an_hour(self) -> None:
        hour = (self.begin + timedelta(hours=5)).replace(minute=0, second=0, microsecond=0)
        count = self.clicks.correct(hour)
        _say(f"  {count} orders")

    def edit_in_a_branch(self) -> None:
        self.place.edit("clicks.yaml", EDIT)
        self.place.ask("branch", "create", "try")
        self.place.ask("apply", "--branch", "try", "clicks.yaml", "--wait")
        self.place.ask("branch", "merge", "try")

    def kill_the_driver(self) -> None:
        now = datetime.now(UTC)
        self.clicks.sell(
            now + timedelta(seconds=number / self.size.rate) for number in range(self.size.rate)
        )
        lines = self.place.processes().items()
        drivers = [process for process, line in lines if "-m dataplane driver" in line]
        if not drivers:
            raise AssertionError("no driver runs")
        for process in drivers:
            os.kill(process, signal.SIGKILL)
        self.clicks.sell(
            now + timedelta(seconds=1 + n / self.size.rate) for n in range(self.size.rate)
        )


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
