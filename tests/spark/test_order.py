"""Which aggregates give other results for rows that come in another order: those are volatile, as
Spark measures it."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from controlplane.core.sql import analyse

pytestmark = pytest.mark.usefixtures("compiled")  # as production runs

ROWS = 100_000
ORDERS = ("id", "-id", "hash(id)")
SURE = (
    "approx_count_distinct(v)",
    "count_min_sketch(v, 0.01D, 0.9D, 1)",
    "theta_sketch_agg(v)",
    "median(v)",
    "max(v)",
)
UNSURE = (
    "approx_percentile(v, 0.5)",
    "collect_list(v)",
    "first(v)",
    "histogram_numeric(v, 5)",
    "hll_sketch_agg(v)",
    "kll_sketch_agg_bigint(v)",
    "kll_sketch_agg_double(CAST(v AS DOUBLE))",
    "kll_sketch_agg_float(CAST(v AS FLOAT))",
)


@pytest.mark.parametrize("call", [*SURE, *UNSURE])
def test_what_depends_on_the_order_is_volatile(spark: SparkSession, call: str) -> None:
    asked = f"SELECT {call} AS x FROM (SELECT id AS v FROM range(0, {ROWS}, 1, {{}}) ORDER BY {{}})"
    found = {
        str(spark.sql(asked.format(parts, order)).collect()) for parts in (1, 3) for order in ORDERS
    }
    assert (
        (len(found) > 1) == bool(analyse(f"SELECT {call} AS x FROM f").volatile) == (call in UNSURE)
    )
