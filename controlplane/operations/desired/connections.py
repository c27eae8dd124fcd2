"""Trying connections: one task of a worker for each place that a set of blueprints reads or writes.

Does not belong here: waiting for the answers, and what connecting means (data plane).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from controlplane.core.compile import connectors, ids
from controlplane.core.compile.nodes import Desired, Sink, Source
from controlplane.core.model.answers import ConnectionFound
from controlplane.core.model.tasks import Task
from controlplane.operations.context import Context
from controlplane.operations.desired import blueprints
from dataplane.contract.encoding import digest

BRANCH = "main"
Job: TypeAlias = dict[str, object]


def ask(ctx: Context, sources: Sequence[blueprints.Source]) -> dict[str, bytes]:
    """Queue the tasks; their keys by component. Raises InvalidBlueprint."""
    jobs = _jobs(blueprints.compiled(sources))
    request = uuid.uuid4().hex
    asked: dict[str, bytes] = {}
    with ctx.store.begin(ctx.namespace) as tx:
        for dataset, job in jobs.items():
            key = digest("connect/1", request=request, dataset=dataset)
            task = Task(key, "connect", dataset, "", ids.job_id(job), {}, 0, priority=1000)
            tx.put_job(task.job, job)
            tx.enqueue(BRANCH, _demand(dataset), [task])
            asked[dataset] = key
    ctx.wake()
    return asked


def answers(ctx: Context, asked: Mapping[str, bytes]) -> dict[str, ConnectionFound]:
    """By component, of those that have been answered."""
    with ctx.store.read(ctx.namespace) as tx:
        found = tx.memos(asked.values())
    return {dataset: found[key] for dataset, key in asked.items() if key in found}


def forget(ctx: Context, asked: Mapping[str, bytes]) -> None:
    """Nobody waits for them any more."""
    with ctx.store.begin(ctx.namespace) as tx:
        for dataset, key in asked.items():
            tx.drop_demands(BRANCH, _demand(dataset))
            tx.forget_memos([key])


def _demand(dataset: str) -> str:
    return f"{dataset}#connect"


def _jobs(desired: Desired) -> dict[str, Job]:
    found: dict[str, Job] = {}
    for dataset, node in desired.nodes.items():
        match node:
            case Source() if not node.output:
                found[dataset] = _job(node.read.connector, node.location, dict(node.read.options), writes=False)
                found[dataset] |= connectors.told(node.read)
            case Sink():
                found[dataset] = _job(node.write.connector, node.path, dict(node.write.options), writes=True)
                found[dataset] |= connectors.told(node.write)
            case _:
                pass
    return found


def _job(connector: str, place: str, options: Mapping[str, str], *, writes: bool) -> Job:
    return {"connector": connector, "place": place, "options": options, "writes": writes}
