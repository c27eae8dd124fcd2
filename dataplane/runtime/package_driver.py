"""The driver process of one claim whose source lists packages (`package_claims`)."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Sequence
from contextlib import ExitStack

from dataplane.contract.claims import Claim
from dataplane.runtime import claim_child, process_group
from dataplane.runtime.driver import refusal
from dataplane.runtime.executor import Executor
from dataplane.runtime.package_claims import PackageAnswer, packages_of
from dataplane.secrets import log_lines, without_secrets
from dataplane.spark.java import NoSpark, provide_java
from dataplane.spark.job_counts import counts
from dataplane.spark.scratch import open_scratch
from dataplane.spark.source_packages import package_jars
from dataplane.spark.spark_session import start, stop
from dataplane.spark.warmup import spark_conf
from dataplane.storage.lake import open_lake

log = logging.getLogger("headgate.packages")


def _answered(claim: Claim) -> PackageAnswer:
    """The results of all tasks. A Spark that does not start is the outcome of each of them."""
    log_lines()
    scratch, _lock = open_scratch()
    with ExitStack() as until_the_end:
        until_the_end.callback(shutil.rmtree, scratch, ignore_errors=True)
        try:
            provide_java()
            spark = start(scratch, _conf(packages_of(claim)))
        except NoSpark as e:
            results = [refusal(task, e) for task in claim["tasks"]]
            return {"results": without_secrets(results), "measures": {}}
        until_the_end.callback(stop, spark)
        executor = Executor(spark, open_lake(claim["lake"]), scratch)
        until_the_end.callback(executor.close)
        results = without_secrets(executor.run(claim))
        return {"results": results, "measures": counts(spark, claim["attempt"])}


def _conf(packages: Sequence[str]) -> dict[str, str]:
    """Spark's settings with the packages. Spark looks into them after its own classes. Raises
    NoJars."""
    conf, jars = spark_conf(), package_jars(packages)
    checksums = {jar.name: checksum for jar, checksum in jars.items()}
    log.info("event=packages sha256=%s", json.dumps(checksums))
    paths = [conf.get("spark.jars", ""), *map(str, jars)]
    return conf | {"spark.master": "local[*]", "spark.jars": ",".join(filter(None, paths))}


if __name__ == "__main__":
    process_group.end_with_leader()
    claim_child.serve(_answered)
