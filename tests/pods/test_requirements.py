"""A package that a transform requires: the driver's pod installs it, and executors' pods are sent
it."""

from __future__ import annotations

from textwrap import indent

import pyarrow as pa

from controlplane.client import Headgate
from controlplane.drivers.manifests import HOME
from tests.pods.cluster import Cluster, settled
from tests.pods.gated import FLOW

REQUIRING = FLOW.replace("inputs:", "requirements: [hgpodpkg==1.0]\n      inputs:")
USING = """
import hgpodpkg
from pyspark.sql.functions import lit, udf

def transform(airlines):
    return airlines.select("carrier", udf(hgpodpkg.told)("name").alias("there"), lit(hgpodpkg.told("")).alias("here"))
"""


def test_executors_have_the_packages_that_their_driver_installed(
    installed: Cluster, client: Headgate, airlines: pa.Table
) -> None:
    text = REQUIRING.format(name="requiring", size="large", code=indent(USING, " " * 8))
    client.apply([{"name": "/requiring.yaml", "text": text}])
    flow = settled(client, "requiring")
    assert flow["state"] == "up_to_date", flow
    (named,) = (d for d in flow["datasets"] if d["name"] == "requiring.named")
    rows = installed.rows(named["table"]).to_pylist()
    names = dict(zip(airlines["carrier"].to_pylist(), airlines["name"].to_pylist(), strict=True))
    assert {row["carrier"]: row["there"].partition(", by /tmp/")[0] for row in rows} == names, rows
    assert {row["here"].startswith(f", by {HOME}/packages/") for row in rows} == {True}, rows
    installed.assert_tidy()
