"""What befalls the control plane while a task waits in a driver's pod: the replica that leads is
killed, also in the middle of a launch, or the cluster's own API server is away. The rows are right
all the same, come in one commit, and no Job is nobody's.

Does not belong here: what befalls pods of the data plane (`test_faults`).
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

from controlplane.client import Headgate
from controlplane.demo.data import lay_out
from controlplane.drivers.manifests import DRIVER
from tests.e2e.workspace import until
from tests.pods import node
from tests.pods.cluster import CONTROL, DATA, Cluster, Json, settled
from tests.pods.gated import BY_MONTH, OF_A_MONTH, Gated, assert_right, job_of

DRIVERS = "--selector=app.kubernetes.io/component=driver"
WORKERS = "--selector=app.kubernetes.io/component=worker"
SMALL = f"{DRIVERS},headgate.dev/size=small"
MONTHS = ("2013-01", "2013-02", "2013-03")


# --- in the middle of a launch --------------------------------------------------------------------


def dies_with_each_launch() -> Json:
    variable = {"name": "HEADGATE_FAILPOINTS", "value": "after-job-created"}
    return {"containers": [{"name": "headgate", "env": [variable]}]}


def kills(cluster: Cluster) -> int:
    """How often a replica was killed by signal 9, as far as its node has told."""
    found = [s for pod in cluster.replicas().values() for s in pod["status"]["containerStatuses"]]
    ends = [s["lastState"]["terminated"] for s in found if "terminated" in s["lastState"]]
    assert all(end["exitCode"] == 137 for end in ends), ends
    return sum(s["restartCount"] for s in found)


def test_killed_between_a_job_and_its_token_and_another_one_goes_on_with_it(
    installed: Cluster, airlines: pa.Table
) -> None:
    until(
        lambda: installed.get("jobs", "--namespace", DATA, WORKERS)["items"],
        lambda: "no worker is launched",
    )
    until(
        lambda: not installed.get("jobs", "--namespace", DATA, SMALL)["items"],
        lambda: "small drivers do not end",
    )
    with installed.changed(dies_with_each_launch()), installed.client() as client:
        flow = Gated(installed, client, "launching")
        flow.apply("small")
        pod = flow.unfinished()
        jobs = installed.get("jobs", "--namespace", DATA, SMALL)["items"]
        # Told once restarted
        until(lambda: kills(installed) >= len(jobs), lambda: f"{kills(installed)} were killed")
        assert kills(installed) == len(jobs), (
            "each launch killed somebody once, and nothing was launched twice"
        )
        assert job_of(pod) in {job["metadata"]["name"] for job in jobs}
        flow.open(pod)
        flow.assert_right(airlines)


# --- while a task runs ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def flights(tmp_path_factory: pytest.TempPathFactory) -> pa.Table:
    folder = tmp_path_factory.mktemp("flights")
    lay_out(folder)
    return pa.concat_tables([month(folder, name) for name in MONTHS])


def month(folder: Path, name: str) -> pa.Table:
    return pyarrow.csv.read_csv(folder / "flights" / f"{name}.csv").select(["carrier", "flight"])


def test_the_leader_is_killed_and_the_replica_that_waits_goes_on(
    installed: Cluster, flights: pa.Table
) -> None:
    with installed.client() as client:
        flow = Gated(installed, client, "led")
        flow.apply("standard", OF_A_MONTH, BY_MONTH)
        pod = flow.unfinished()
        killed, epoch = installed.leader()
        with node.closed(installed):  # nobody comes in its place
            lose(installed, killed)
            flow.open(pod)
            until(
                lambda: installed.leader()[0] not in ("", killed),
                lambda: f"{installed.leader()} leads",
            )
            assert installed.leader()[1] == epoch + 1
            flow.assert_right(flights)
        assert installed.query(
            "SELECT dataset, sum(n) FROM events WHERE kind = 'task.executed' AND dataset = 'led.named' GROUP BY dataset"
        ) == [("led.named", len(MONTHS))]


def lose(cluster: Cluster, replica: str) -> None:
    """Killed, and not started again in its place."""
    node.kill(cluster.replicas()[replica])
    cluster.kubectl("delete", "pod", replica, "--namespace", CONTROL, "--force", "--grace-period=0")


# --- without the cluster's API server -------------------------------------------------------------


def test_what_runs_goes_on_while_the_api_server_is_away_and_what_waits_begins_after(
    installed: Cluster, client: Headgate, airlines: pa.Table
) -> None:
    first, second = Gated(installed, client, "away"), Gated(installed, client, "later")
    first.apply("standard")
    pod = first.unfinished()
    installed.kubectl("delete", "jobs", SMALL, "--namespace", DATA, "--cascade=foreground")
    drivers = names(installed)
    with node.without_api_server(installed):
        second.apply("small")
        # As many seconds as it takes for something to be told, or that there is nothing
        next(client.events())
        first.open(pod)
        assert settled(client, first.name)["state"] == "up_to_date"
        assert pod["metadata"]["annotations"][DRIVER] in alive(client)
        assert not node.is_anywhere(f"{second.name}.begun")
    second.let_go()
    assert_right([first, second], airlines)
    assert drivers <= names(installed), "nothing was launched in the place of what was out of sight"


def names(cluster: Cluster) -> set[str]:
    """Of Jobs that are not over."""
    return {job["metadata"]["name"] for job in cluster.jobs()}


def alive(client: Headgate) -> set[str]:
    return {driver["id"] for driver in client.status()["drivers"] if driver["state"] != "ended"}
