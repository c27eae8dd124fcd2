"""The language of `distinct:`: a dataset with the first row of each key.

    unique:
      distinct:
        from: orders
        keys: [id]
        order_by: [at, _partition, _offset]
        within: 1h

It is change data of which the first event of a key counts, so it is written out as `cdc:` is
(`cdc_expansion`, `cdc_query`).
"""

from __future__ import annotations

from controlplane.core.blueprint.cdc import (
    BUCKET_COUNT,
    COLUMN_LIST,
    COLUMNS,
    FROM,
    KEYS,
    NO_COLUMNS,
    ChangeData,
    report_columns,
    report_counts,
    report_names,
)
from controlplane.core.blueprint.freshness import Duration
from controlplane.core.blueprint.section_keys import Fields, Key, Nested, Section
from controlplane.core.blueprint.value_kinds import Choice, Reading

ORDER_BY = Key(
    "order_by",
    COLUMN_LIST,
    NO_COLUMNS,
    "Columns that order the rows of a key: the least is the first.",
    is_required=True,
    example=["at", "_partition", "_offset"],
)
WITHIN: Key[float | None] = Key(
    "within",
    Duration(),
    None,
    "How long after the row before it a row is a duplicate, by the first column of order_by; "
    "for ever where it is left out.",
    example="1h",
)
ON_TIE = Key(
    "on_tie",
    Choice(("fail", "least")),
    "fail",
    "Different rows of one key and place in the order. least: the least row comes first.",
)


def _first_rows(fields: Fields, reading: Reading) -> ChangeData:
    report_counts(fields, (KEYS, ORDER_BY), reading)
    report_columns(fields, reading)
    report_names(fields, (KEYS, ORDER_BY), (), reading)
    return ChangeData(
        source=fields[FROM],
        keys=fields[KEYS],
        sequence=fields[ORDER_BY],
        columns=fields[COLUMNS],
        fails_on_tie=fields[ON_TIE] == "fail",
        buckets=fields[BUCKET_COUNT],
        keeps_first=True,
        within_s=fields[WITHIN],
    )


DISTINCT: Key[ChangeData | None] = Key(
    "distinct",
    Nested(Section((FROM, KEYS, ORDER_BY, WITHIN, COLUMNS, ON_TIE, BUCKET_COUNT)), _first_rows),
    None,
    "The first row of each key in a dataset, without its duplicates.",
    example={"from": "orders", "keys": ["id"], "order_by": ["at"]},
)
