"""Pools with real Spark in them: a driver that needs more memory than its pod may have, and as many
drivers as the work is worth.

Does not belong here: the same of processes that only start and end (`tests/cluster`).
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from controlplane.client import Headgate
from controlplane.drivers.manifests import DRIVER
from dataplane.runtime.driver import CLAIMERS
from tests.e2e.workspace import until
from tests.pods.cluster import Cluster, Json, settled
from tests.pods.gated import FLOW, IN_THE_DRIVER, Gated
from tests.there import there

GREEDY = """
def transform(airlines):
    if not airlines.isEmpty():
        held = b"x" * (3 << 30)
    return airlines.select("carrier", "name")
"""
SOURCE, NAMED = FLOW.split("  named:\n")
MORE = 2 * CLAIMERS + 1  # than two drivers do at a time
MANY = SOURCE + "".join(f"  named{number}:\n{NAMED}" for number in range(MORE))


def test_a_task_whose_drivers_are_killed_for_their_memory_goes_to_larger_ones(
    installed: Cluster, client: Headgate, airlines: pa.Table
) -> None:
    """Twice in a small one, once in a standard one of equal memory, and then in a large one."""
    flow = Gated(installed, client, "greedy")
    flow.apply("small", GREEDY)
    flow.ended("ran out of memory: killed at its limit of 1536Mi")
    error = there(client.why(f"{flow.name}.named")["error"])
    assert error["condition"] == "driver-out-of-memory"
    # What it said is there for a while
    assert "event=spark-started" in client.log(there(error["attempt"]))
    flow.assert_right(airlines, drivers=2)
    assert "its tasks count as large" in client.why(f"{flow.name}.named")["resources"]


def test_a_pool_grows_to_its_maximum_while_more_waits_and_has_no_driver_once_it_is_idle(
    installed: Cluster, client: Headgate, airlines: pa.Table
) -> None:
    before = lost(installed)
    flow = Gated(installed, client, "many")
    flow.apply("small", IN_THE_DRIVER, MANY)
    until(
        lambda: sorted(busy(installed).values()) == [CLAIMERS, CLAIMERS],
        lambda: f"busy: {busy(installed)}",
    )
    assert len(small(installed.jobs())) == 2
    pods = small(installed.pods("driver"))
    assert {pod["metadata"]["annotations"][DRIVER] for pod in pods} == set(busy(installed))
    until(lambda: all(map(flow.is_started, pods)), lambda: f"not all begin: {busy(installed)}")
    for pod in pods:
        flow.open(pod)
    found = settled(client, flow.name)
    assert found["state"] == "up_to_date"
    tables = [installed.rows(d["table"]) for d in found["datasets"] if ".named" in d["name"]]
    assert [table.sort_by("carrier") for table in tables] == [airlines.sort_by("carrier")] * MORE
    until(lambda: not small(installed.jobs()), lambda: f"there are {small(installed.jobs())}")
    installed.assert_tidy()
    assert lost(installed) == before


def lost(cluster: Cluster) -> int:
    """Small drivers that ended otherwise than they were asked to."""
    sql = (
        "SELECT count(*) FROM events WHERE kind = 'driver.ended' AND body::json->>'size' = 'small'"
    )
    ((found,),) = cluster.query(sql)
    return int(found)


def busy(cluster: Cluster) -> dict[str, int]:
    """What each driver has under way."""
    return dict(
        cluster.query(
            "SELECT driver, count(*)::int FROM attempts WHERE driver LIKE 'driver-%' GROUP BY driver"
        )
    )


def small(found: Sequence[Json]) -> list[Json]:
    return [item for item in found if item["metadata"]["labels"]["headgate.dev/size"] == "small"]
