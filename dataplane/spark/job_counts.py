"""Spark's own counts for an attempt: how many jobs and stages ran in its group; and where Spark's
UI shows more.

Spark keeps the last hundred jobs (`spark.ui.retainedJobs`), so of an attempt with more of them,
these are counted. An attempt takes two calls, however many jobs it had.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from pyspark.sql import SparkSession

from dataplane.contract.results import Measures

JOBS = "org.apache.spark.status.JobDataWrapper"  # what the status store has of a job
ATTEMPT = re.compile("[0-9a-f]{32}")
# Of the REST API, which writes these as JSON
WRITER = "org.apache.spark.status.api.v1.JacksonMessageWriter"


def places(spark: SparkSession) -> Measures:
    """The address of Spark's pages and the path of its event log, where the session has them."""
    context = spark.sparkContext._jsc.sc()
    addresses: Measures = {}
    if context.uiWebUrl().isDefined():
        addresses["spark_ui"] = str(context.uiWebUrl().get())
    if context.eventLogger().isDefined():
        addresses["event_log"] = str(context.eventLogger().get().logWriter().logPath())
    return addresses


def counts(spark: SparkSession, group: str) -> Measures:
    """How many jobs a group had, and how many of their stages ran: stages that were skipped do not
    count."""
    ids = _jobs(spark, group)
    if not ids:
        return {"spark_jobs": 0, "spark_stages": 0}
    described = [job["info"] for job in _described(spark, ids)]
    ran = [
        job["numCompletedStages"] + job["numFailedStages"]
        for job in described
        if job["jobId"] in ids
    ]
    return {"spark_jobs": len(ids), "spark_stages": sum(ran)}


def next_job_number(spark: SparkSession) -> int:
    """The number of the next job, of any group."""
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


def has_own_jobs(spark: SparkSession, group: str, since: int) -> bool:
    """Whether code that runs in a group may have begun one of the jobs from number `since`: in its
    thread or in another one, which has no group or a name of the code's own. Jobs of other attempts
    are known by their ids."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    ids = frozenset(range(since, next_job_number(spark)))
    groups = [job["info"].get("jobGroup") or "" for job in _described(spark, ids)] if ids else []
    return len(groups) < len(ids) or any(g == group or not ATTEMPT.fullmatch(g) for g in groups)


def has_lost_tasks(spark: SparkSession, group: str) -> bool:
    """Whether a task of a group failed, or was ended, and may have been tried again. In one process
    none is lost."""
    context = spark.sparkContext._jsc.sc()
    if context.isLocal():
        return False
    context.listenerBus().waitUntilEmpty()
    ids = _jobs(spark, group)
    described = [job["info"] for job in _described(spark, ids)] if ids else []
    return not described or any(job["numFailedTasks"] + job["numKilledTasks"] for job in described)


def _jobs(spark: SparkSession, group: str) -> frozenset[int]:
    """As one text: each element of an array would be a question of its own."""
    assert spark._jvm is not None
    tracker = spark.sparkContext._jsc.sc().statusTracker()
    text = str(spark._jvm.java.util.Arrays.toString(tracker.getJobIdsForGroup(group)))
    return frozenset(int(id) for id in text.strip("[]").split(",") if id.strip())


def _described(spark: SparkSession, ids: frozenset[int]) -> Sequence[dict[str, dict[str, Any]]]:
    """From the first of these jobs to the last, with those of other groups in between."""
    jvm = spark._jvm
    assert jvm is not None
    jobs = (
        spark.sparkContext._jsc.sc().statusStore().store().view(jvm.java.lang.Class.forName(JOBS))
    )
    writer = getattr(jvm, WRITER)()
    stages: list[dict[str, dict[str, Any]]] = json.loads(
        writer.mapper().writeValueAsString(jobs.first(min(ids)).last(max(ids)))
    )
    return stages
