"""Import of tables as generations of datasets."""

from __future__ import annotations

import time
from functools import partial

from pydantic import Field

from controlplane.api import auth
from controlplane.api.calls import (
    NO_DATASET,
    Branch,
    ClosedBody,
    JsonAnswer,
    Overriding,
    answer,
)
from controlplane.api.looks import LISTED_S, Timeout, answered, waiting
from controlplane.core import rest
from controlplane.core.errors import NotFound
from controlplane.core.model.answers import ImportAnswer
from controlplane.operations.desired import import_sample, table_import
from controlplane.operations.desired.table_import import ImportRequest

router = auth.router("edit")


class Import(ClosedBody):
    """`from`: the table, as `delta:PATH`, `iceberg:PATH`, `parquet:FOLDER` or
    `dataset:DATAFLOW.DATASET`. `key`: its columns that make the partition keys of the inputs, for a
    target that reads them `each`. `verify`: how many partitions the code of the target computes
    before the import, to be compared with those of the table. `link`: files of Parquet are taken as
    they are; `{word}` in their path makes the partition key."""

    target: str = Field(max_length=1000)
    source: str = Field(alias="from", max_length=4096, pattern=r"^[^\x00-\x1f\x7f]*$")
    key: list[str] = Field(default=[], max_length=100)
    verify: int = Field(default=0, ge=0, le=import_sample.MOST)
    link: bool = False


@router.answers(rest.IMPORT)
async def import_table(
    call: Overriding, branch: Branch, options: Import, timeout_s: Timeout = LISTED_S
) -> JsonAnswer[ImportAnswer]:
    """Take a table as the newest generation of a transform. The first request has it copied;
    repeat it until `state` is `imported` or `differs`. `timeout_s`: how long to wait for Spark to
    give the columns of the target."""
    return await waiting(
        call, lambda: call.once(lambda: _proceed(call, branch, options, timeout_s)), may_wait=True
    )


def _proceed(
    call: Overriding, branch: str, options: Import, timeout_s: float
) -> JsonAnswer[ImportAnswer]:
    target = call.target(options.target)
    if target is None or "." not in target:
        raise NotFound(NO_DATASET)
    key = tuple(options.key)
    request = ImportRequest(branch, target, options.source, key, options.verify, options.link)
    questions = partial(table_import.questions, call.context, branch, target)
    deadline = time.monotonic() + timeout_s
    with answered(call, branch, questions, deadline, timeout_s) as unanswered:
        return answer(table_import.proceed(call.context, request, unanswered))
