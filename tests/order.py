"""The order of test files: those that take longest come first, so that no worker is left alone with one at the end.

Does not belong here: what is tested.
"""

from __future__ import annotations

# Of `make test` on two cores, by path below `tests`; a file that is not named is a short one. They need to be right
# only about which file is longer than which. `make test` tells today's at its end; those of e2e are in part estimates.
MINUTES = {
    "e2e/test_crashes.py": 4.0,
    "e2e/test_copies_on_s3.py": 3.8,
    "e2e/test_tpch.py": 3.7,
    "e2e/test_thrift.py": 3.5,
    "e2e/test_service.py": 3.2,
    "e2e/test_delta.py": 3.1,
    "e2e/test_first_run.py": 3.0,
    "spark/test_oracle.py": 2.9,
    "e2e/test_on_s3.py": 2.6,
    "e2e/test_on_clouds.py": 2.5,
    "e2e/test_jdbc.py": 2.4,
    "e2e/test_kafka.py": 2.3,
    "e2e/test_kafka_avro.py": 2.2,
    "e2e/test_replicas.py": 2.1,
    "e2e/test_stopping.py": 2.0,
    "e2e/test_files_on_s3.py": 1.9,
    "e2e/test_on_hdfs.py": 1.8,
    "spark/test_process.py": 1.7,
    "e2e/test_orders.py": 1.6,
    "e2e/test_by.py": 1.5,
    "e2e/test_lost_files.py": 1.4,
    "cluster/test_dataflow.py": 1.3,
    "spark/test_remote.py": 1.2,
    "property/test_loop.py": 1.1,
    "e2e/test_pages.py": 1.0,
    "e2e/test_volatile.py": 1.0,
    "hostile/test_sql.py": 1.0,
    "hostile/test_bytes.py": 0.9,
    "e2e/test_ci.py": 0.9,
    "e2e/test_packs.py": 0.9,
    "e2e/test_parts.py": 0.9,
    "e2e/test_fold.py": 0.8,
    "e2e/test_expectations.py": 0.7,
    "e2e/test_failures.py": 0.7,
    "e2e/test_schema_age.py": 0.7,
    "e2e/test_schema_change.py": 0.7,
    "kafka/test_writing.py": 0.7,
    "cluster/test_pool.py": 0.6,
    "property/test_mutations.py": 0.6,
}


def minutes(file: str) -> float:
    """Of a file by its path below `tests`."""
    return MINUTES.get(file, 0.0)
