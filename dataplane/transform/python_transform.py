"""The `transform` kind of work in PySpark: one call of the user's function for a task, or for the
tasks of many keys."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn, TypeVar

from pyspark.sql import DataFrame, SparkSession

from dataplane.contract.claims import LogicClaim, TransformClaim, TransformTask
from dataplane.contract.jobs import PythonLogic
from dataplane.contract.results import TaskError
from dataplane.fragments.attempt import Failed
from dataplane.fragments.spark.input_frames import inputs_of, inputs_of_keys
from dataplane.fragments.spark.spark_attempt import SparkAttempt
from dataplane.fragments.written import Stored, Written
from dataplane.spark.spark_errors import ErrorSource, explain
from dataplane.spark.spark_session import activate, task_session
from dataplane.task_failures import TaskFailure
from dataplane.transform.batches import in_batches
from dataplane.transform.bundle import Bundle, opened
from dataplane.transform.environment import seeing
from dataplane.transform.keyed_outputs import store, store_together
from dataplane.transform.result import result_of

S = TypeVar("S")


def python_one(attempt: SparkAttempt[TransformClaim], task: TransformTask) -> Stored | TaskError:
    """One task as one call."""
    try:
        return _run(
            attempt,
            lambda session: inputs_of(attempt, session, task),
            lambda rows: store(attempt, rows, task),
        )
    except Failed as e:
        return e.error


def python_batches(attempt: SparkAttempt[TransformClaim]) -> dict[str, Stored | TaskError]:
    """All tasks of the attempt in as few calls as possible: the function is proven to give the same
    rows for many keys at once as for each."""
    return in_batches(attempt, partial(_together, attempt), partial(python_one, attempt), explain)


def _together(
    attempt: SparkAttempt[TransformClaim], tasks: Sequence[TransformTask]
) -> dict[str, Written]:
    return _run(
        attempt,
        lambda session: inputs_of_keys(attempt, session, tasks),
        lambda rows: store_together(attempt, rows, tasks),
    )


def _run(
    attempt: SparkAttempt[TransformClaim],
    inputs: Callable[[SparkSession], Mapping[str, DataFrame]],
    write: Callable[[DataFrame], S],
) -> S:
    """One call of the function. An error of the user's is Failed, `sys.exit` as well."""
    job = attempt.claim["job"]
    assert job["language"] == "python"
    with opened(job["modules"], job["main"]) as bundle:
        try:
            with seeing(job.get("requirements") or (), attempt.spark.sparkContext):
                session = user_session(attempt.spark, job)
                return write(call(bundle, job, session, inputs(session)))
        except BaseException as e:
            attempt.check()
            raise Failed(explain_python(attempt, bundle, e)) from e


def explain_python(
    attempt: SparkAttempt[LogicClaim], bundle: Bundle, error: BaseException
) -> TaskError:
    if isinstance(error, Failed):
        return error.error
    return explain(error, ErrorSource(files=bundle.files, renamed=attempt.renamed))


def user_session(spark: SparkSession, job: PythonLogic) -> SparkSession:
    """A fresh session that cannot end the driver's own."""
    session = task_session(spark, job["spark"])
    session.stop = _refuse_stop  # type: ignore[method-assign]  # this one session's
    activate(session)
    return session


def _refuse_stop() -> NoReturn:
    raise TaskFailure("SESSION_STOPPED", "the session is not the transform's to stop")


def call(
    bundle: Bundle, job: PythonLogic, session: SparkSession, inputs: Mapping[str, DataFrame]
) -> DataFrame:
    """The entry point's result, as it can be stored. Arguments are bound by name."""
    entrypoint = getattr(bundle.load(), job["entrypoint"], None)
    if not callable(entrypoint):
        raise TaskFailure(
            "ENTRYPOINT_NOT_FOUND", f"no function {job['entrypoint']!r}", file=job["main"]
        )
    arguments = {**inputs, "params": copy.deepcopy(job["params"]), "spark": session}
    frame = entrypoint(**_bound(bundle, entrypoint, arguments, job))
    if not isinstance(frame, DataFrame):
        message = f"{job['entrypoint']} must return a Spark DataFrame, not {type(frame).__name__}"
        file, line = _place_of(bundle, entrypoint, job)
        raise TaskFailure("RESULT_NOT_A_DATAFRAME", message, file=file, line=line)
    return result_of(frame, job)


def _place_of(bundle: Bundle, entrypoint: Any, job: PythonLogic) -> tuple[str, int]:
    """(file, line) of a function in the user's code; the first line of the main module for anything
    else."""
    code = getattr(inspect.unwrap(entrypoint), "__code__", None)
    file = bundle.files.get(code.co_filename) if code else None
    return (file, code.co_firstlineno) if code and file else (job["main"], 1)


def _bound(
    bundle: Bundle, entrypoint: Any, arguments: Mapping[str, Any], job: PythonLogic
) -> dict[str, Any]:
    named = inspect.signature(entrypoint).parameters.values()
    if any(p.kind == p.VAR_KEYWORD for p in named):
        return dict(arguments)
    missing = [
        p.name
        for p in named
        if p.default is p.empty and p.kind != p.VAR_POSITIONAL and p.name not in arguments
    ]
    if missing:
        message = f"{job['entrypoint']} takes {missing[0]!r}, which is no input"
        file, line = _place_of(bundle, entrypoint, job)
        raise TaskFailure("UNKNOWN_ARGUMENT", message, file=file, line=line)
    return {p.name: arguments[p.name] for p in named if p.name in arguments}
