"""Fragments measured with Spark: the rows of large files, and of types that Arrow does not hash."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from dataplane.contract.claims import DriverClaim
from dataplane.contract.results import TaskError
from dataplane.contract.schemas import Schema
from dataplane.fragments.attempt import Attempt
from dataplane.fragments.content import content_of, content_query, physical, profile_query
from dataplane.fragments.distinct import DistinctCounting, sketch_of
from dataplane.fragments.file_profiles import dictionary_words
from dataplane.fragments.measuring import NO_ROWS, MeasuredRows, is_small, measure
from dataplane.fragments.sampling import RowSampling
from dataplane.fragments.spark.reading import labelled_rows
from dataplane.fragments.spark.row_conditions import TAKEN_OUT
from dataplane.fragments.spark.spark_attempt import SparkAttempt
from dataplane.fragments.written import MeasuredFile, MeasuredFragment, Partitioned, Stored, Written
from dataplane.spark.spark_errors import ErrorSource, explain
from dataplane.spark.spark_session import reading_session


def measured_outcomes(
    attempt: SparkAttempt[DriverClaim], outcomes: Mapping[str, Stored | TaskError]
) -> dict[str, MeasuredFragment | TaskError]:
    """Contents of the written fragments. A fragment that cannot be read back is no result."""
    written = {label: w for label, w in outcomes.items() if isinstance(w, Written)}
    dealt = [outcome for outcome in outcomes.values() if isinstance(outcome, Partitioned)]
    written |= {label: w for partitioned in dealt for label, w in partitioned.written.items()}
    errors: dict[str, MeasuredFragment | TaskError] = {
        k: e for k, e in outcomes.items() if not isinstance(e, Written | Partitioned)
    }
    if not written:
        return errors
    try:
        attempt.enter()
        others = {label + TAKEN_OUT: w.taken_out for label, w in written.items() if w.taken_out}
        fragments = measure_with_spark(attempt, {**written, **others})
        return {
            **errors,
            **{k: replace(fragments[k], taken_out=fragments.get(k + TAKEN_OUT)) for k in written},
        }
    except Exception as e:  # noqa: BLE001  # the outcome of all of them
        attempt.check()
        error: TaskError = {
            **explain(e, ErrorSource(renamed=attempt.renamed)),
            "kind": "infrastructure",
        }
        return {**errors, **dict.fromkeys(written, error)}


def measure_with_spark(
    attempt: SparkAttempt[DriverClaim], written: Mapping[str, Written]
) -> dict[str, MeasuredFragment]:
    """As `measure`. Spark hashes the rows that are not hashed in memory."""
    return measure(attempt, written, partial(_hash_rows, attempt))


def _hash_rows(
    attempt: SparkAttempt[DriverClaim],
    schema: Schema,
    files: Mapping[str, Sequence[MeasuredFile]],
    with_sample: bool,
) -> dict[str, MeasuredRows]:
    """Small files are read by one Spark task, so that nothing is shuffled."""
    session = reading_session(attempt.spark)
    session.conf.set("spark.sql.parquet.ignoreVariantAnnotation", "true")
    every = [file for of_label in files.values() for file in of_label]
    labelled = [
        (file.entry["path"], label) for label, of_label in files.items() for file in of_label
    ]
    rows = labelled_rows(attempt, session, labelled, physical(schema))
    (rows.coalesce(1) if is_small(file.entry for file in every) else rows).createTempView("written")
    if not with_sample:
        counts = session.sql(content_query(schema, "written")).collect()
        return {row[0]: MeasuredRows(content_of(*row[1:])) for row in counts}
    total = sum(file.entry["rows"] for file in every)
    drawing = RowSampling.of(schema, total, len(files))
    counting = DistinctCounting.of(schema, [file.dictionaries for file in every], total, len(files))
    query = profile_query(
        schema, "written", drawing.marks, counting.columns(), counting.aggregates()
    )
    rows_by_label = dict.fromkeys(files, NO_ROWS)
    for label, count, low1, high1, low2, high2, drawn, *values in session.sql(query).collect():
        sums = content_of(count, low1, high1, low2, high2)
        rows_by_label[label] = MeasuredRows(
            sums, drawing.sample(count, drawn), counting.sketches(values)
        )
    for label, by_name in _stored_distinct(attempt, counting, files).items():
        rows_by_label[label] = replace(
            rows_by_label[label], distinct={**rows_by_label[label].distinct, **by_name}
        )
    return rows_by_label


def _stored_distinct(
    attempt: Attempt[DriverClaim],
    counting: DistinctCounting,
    files: Mapping[str, Sequence[MeasuredFile]],
) -> dict[str, dict[str, str]]:
    """By label and column: sketches of the values in the dictionaries of files."""

    every = attempt.threads.map(
        partial(dictionary_words, attempt.lake, counting),
        [stored for of_label in files.values() for stored in of_label],
    )
    sketches_by_label: dict[str, dict[str, str]] = {}
    for label, of_label in files.items():
        words_of_files = [next(every) for _ in of_label]
        sketches_by_label[label] = {
            name: sketch_of([words[name] for words in words_of_files]) for name in counting.stored
        }
    return sketches_by_label
