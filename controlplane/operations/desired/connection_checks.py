"""Trying connections: one task of a worker for each place that a set of blueprints reads or
writes."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from controlplane.core.blueprint import Read, Write
from controlplane.core.compile import connector_identity, ids
from controlplane.core.compile.nodes import Desired, Sink, Source
from controlplane.core.model.answers import ConnectionFound
from controlplane.core.model.memos import connection_in
from controlplane.core.model.tasks import Task
from controlplane.operations.context import Context
from controlplane.operations.desired import compile_edit, drafts
from dataplane.contract.encoding import digest
from dataplane.contract.jobs import ConnectJob

BRANCH = "main"


def ask(ctx: Context, sources: Sequence[drafts.SentBlueprint]) -> dict[str, bytes]:
    """Queue the tasks; their keys by component. Raises InvalidBlueprint."""
    jobs = _jobs(compile_edit.compile_texts(sources).require())
    request = uuid.uuid4().hex
    keys: dict[str, bytes] = {}
    with ctx.begin() as tx:
        for dataset, job in jobs.items():
            key = digest("connect/1", request=request, dataset=dataset)
            task = Task(
                key,
                "connect",
                dataset,
                partition="",
                job=ids.job_id(job),
                spec={},
                size_bytes=0,
                priority=1000,
            )
            tx.queue.put_job(task.job, job)
            tx.queue.enqueue(BRANCH, _demand(dataset), [task])
            keys[dataset] = key
    ctx.wake()
    return keys


def answers(ctx: Context, keys: Mapping[str, bytes]) -> dict[str, ConnectionFound]:
    """By component, of those that have been answered."""
    with ctx.read() as tx:
        memos = tx.traces.memos(keys.values())
    return {dataset: connection_in(memos[key]) for dataset, key in keys.items() if key in memos}


def forget(ctx: Context, keys: Mapping[str, bytes]) -> None:
    """Drop the demands and the answers, which have no reader left."""
    with ctx.begin() as tx:
        for dataset, key in keys.items():
            tx.queue.drop_demands(BRANCH, _demand(dataset))
            tx.traces.forget_memos([key])


def _demand(dataset: str) -> str:
    return f"{dataset}#connect"


def _jobs(desired: Desired) -> dict[str, ConnectJob]:
    """A job for each place that a component reads or writes."""
    jobs: dict[str, ConnectJob] = {}
    for dataset, node in desired.nodes.items():
        match node:
            case Source() if not node.output:
                jobs[dataset] = _job(node.read, node.location, writes=False)
            case Sink():
                jobs[dataset] = _job(node.write, node.path, writes=True)
            case _:
                pass
    return jobs


def _job(body: Read | Write, place: str, *, writes: bool) -> ConnectJob:
    return {
        "connector": body.connector,
        "place": place,
        "options": dict(body.options),
        "writes": writes,
        **connector_identity.settings_of(body),
    }
