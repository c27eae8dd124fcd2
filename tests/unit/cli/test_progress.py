"""Progress where there is no terminal: lines about a slow start of Spark alone."""

from __future__ import annotations

import io

from controlplane.cli.progress import DatasetBar
from controlplane.cli.service_run import Moving


def test_a_slow_start_of_spark_has_a_line_every_ten_seconds() -> None:
    out = io.StringIO()
    with DatasetBar(out) as progress:
        for seconds in (None, 0.4, 9.8, 10.1, 15.0, 20.2, 95.4, None, 3.0, 11.0):
            progress.show(Moving(3, {"shop.orders": "building"}, spark_starting_s=seconds))
    lines = out.getvalue().splitlines()
    assert lines == [f"headgate: Spark is starting, {n} s" for n in (10, 20, 95, 11)]


def test_a_run_without_a_start_of_spark_writes_nothing() -> None:
    out = io.StringIO()
    with DatasetBar(out) as progress:
        progress.show(Moving(3, {"shop.orders": "building"}))
    assert out.getvalue() == ""
