"""The order of test files: those that take longest come first, so that no worker is left alone with
one at the end.

Does not belong here: what is tested.
"""

from __future__ import annotations

# Of `make test` on two cores, by path below `tests`; a file that is not named is a short one. They
# need to be right only about which file is longer than which, in a run in which they have their
# turn. `make test` tells today's at its end. Of a run of slice 661 on 2026-11-26, in which each run
# of the lake on S3 had a process of its own (estimated without that: 1.4); what had no turn then is
# older.
MINUTES = {
    "e2e/test_installed.py": 2.5,
    "e2e/test_tpch.py": 2.0,
    "kafka/test_writing.py": 2.0,
    "e2e/test_crashes.py": 1.9,
    "e2e/test_jdbc.py": 1.9,
    "e2e/test_kafka.py": 1.9,
    "e2e/test_on_clouds.py": 1.9,
    "e2e/test_s3_clients.py": 1.9,
    "e2e/test_kafka_avro.py": 1.8,
    "spark/test_connect.py": 1.7,
    "e2e/test_files_on_s3.py": 1.6,
    "e2e/test_first_run.py": 1.6,
    "e2e/test_on_hdfs.py": 1.5,
    "e2e/test_service.py": 1.5,
    "hostile/test_s3_load.py": 1.5,
    "property/test_loop.py": 1.5,
    "e2e/test_orders.py": 1.4,
    "e2e/test_thrift.py": 1.4,
    "store/test_kills.py": 1.4,
    "cluster/test_queries.py": 1.3,
    "e2e/test_earlier_home.py": 1.3,
    "spark/test_queries.py": 1.3,
    "e2e/test_on_s3.py": 1.2,
    "spark/test_by.py": 1.2,
    "spark/test_cdc.py": 1.2,
    "spark/test_delta_changes.py": 1.2,
    "e2e/test_debezium.py": 1.2,
    "spark/test_distinct.py": 0.5,
    "e2e/test_copies_on_s3.py": 1.1,
    "spark/test_oracle.py": 1.1,
    "e2e/test_branch_tables.py": 1.0,
    "e2e/test_namespaces.py": 1.0,
    "spark/test_on_s3.py": 1.0,
    "spark/test_process.py": 1.0,
    "spark/test_query_pod.py": 1.0,
    "e2e/test_delta.py": 0.9,
    "e2e/test_replicas.py": 0.9,
    "e2e/test_stopping.py": 0.9,
    "hostile/test_silent.py": 0.9,
    "spark/test_remote.py": 0.9,
    "browser/test_each_page.py": 0.8,
    "browser/test_query.py": 0.8,
    "cluster/test_dataflow.py": 0.8,
    "e2e/test_feeds.py": 0.8,
    "e2e/test_lost_files.py": 0.8,
    "e2e/test_notebook.py": 0.8,
    "property/test_arrivals.py": 0.8,
    "spark/test_parse.py": 0.8,
    "unit/profiles/test_along_tree.py": 0.8,
    "browser/test_much.py": 0.7,
    "e2e/test_by.py": 0.7,
    "e2e/test_promotion.py": 0.7,
    "hdfs/test_objects.py": 0.7,
    "store/test_collect.py": 0.7,
    "store/test_outage.py": 0.7,
    "unit/api/test_requests.py": 0.7,
    "unit/ui/test_budget.py": 0.7,
    "browser/test_use.py": 0.6,
    "cluster/test_pool.py": 0.6,
    "e2e/test_ci.py": 0.6,
    "e2e/test_expectations.py": 0.6,
    "e2e/test_failures.py": 0.6,
    "e2e/test_parts.py": 0.6,
    "property/test_branches.py": 0.6,
    "property/test_mutations.py": 0.6,
    "spark/test_branch_tables.py": 0.6,
    "spark/test_content.py": 0.6,
    "spark/test_file_types.py": 0.6,
    "spark/test_infer.py": 0.6,
    "spark/test_profiles.py": 0.6,
    "store/test_superseded.py": 0.6,
    "unit/branches/test_meeting.py": 0.6,
    "e2e/test_fold.py": 0.5,
    "e2e/test_volatile.py": 0.5,
    "hostile/test_logs.py": 0.5,
    "hostile/test_manifests.py": 0.5,
    "hostile/test_sql.py": 0.5,
    "spark/test_branches.py": 0.5,
    "spark/test_kafka_values.py": 0.5,
    "spark/test_parts.py": 0.5,
    "spark/test_query_escapes.py": 0.5,
    "spark/test_requirements_elsewhere.py": 0.5,
    "store/test_planning_cost.py": 0.5,
    "unit/queries/test_query_pod.py": 0.5,
}


def minutes(file: str) -> float:
    """Of a file by its path below `tests`."""
    return MINUTES.get(file, 0.0)
