"""The flights example with drivers and workers as Jobs: real Spark in the pods' processes, the
control plane killed."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from controlplane.demo.data import lay_out
from tests.cluster.kubelet import Image
from tests.cluster.site import IMAGE, Site
from tests.e2e.conftest import closing
from tests.e2e.tables import Truth
from tests.e2e.workspace import HANGS_S, Run, Workspace, add_days, ended, example
from tests.servers.ports import free_port

SPARK = {"spark.master": "local[2]", "spark.sql.shuffle.partitions": "2"}


@pytest.fixture(scope="module")
def monthly(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("monthly")
    lay_out(folder, "month")
    return folder


def settings(site: Site, folder: Path) -> dict[str, str]:
    place = {"site": {"selector": {"site": site.name}}}
    pool = {"cpu": "100m", "memory": "2Gi", "place": "site"}
    said: dict[str, Any] = {
        "namespace": site.namespace,
        "image": IMAGE,
        "places": place,
        "conf": SPARK,
    }
    said["pools"] = {"worker": pool, "standard": pool}
    (folder / "pools.json").write_text(json.dumps(said))
    return {
        "HEADGATE_POOL": "kubernetes",
        "HEADGATE_POOLS": str(folder / "pools.json"),
        "HEADGATE_KUBECONFIG": str(site.kubeconfig(folder)),
    }


def dies(workspace: Workspace, port: int, environment: dict[str, str]) -> None:
    """Between a Job and the token of its pod."""
    given = environment | {"HEADGATE_FAILPOINTS": "after-job-created"}
    with ended(
        workspace.start("serve", "--home", workspace.home, "--port", port, **given)
    ) as process:
        _, err = process.communicate(timeout=HANGS_S)
    assert process.returncode == -signal.SIGKILL, err.decode()


def test_killed_after_a_job_was_made_and_then_on_to_the_right_tables(
    site: Site, monthly: Path, tmp_path: Path
) -> None:
    site.node(images={IMAGE: Image((sys.executable, "-P", "-m", "dataplane"))})
    with closing(example(tmp_path / "flights")) as workspace:
        add_days(workspace, monthly, 1, 2)
        environment, port = settings(site, tmp_path), free_port()
        dies(workspace, port, environment)
        assert (site.jobs(), site.secrets()) == (["headgate-worker-0-1"], {})
        with workspace.serving(port, **environment) as service:  # where pods go on calling it
            found = Run(workspace.ask("apply", "flights.yaml", "--wait"))
            assert found.value["state"] == "up_to_date", found.value
            assert site.jobs() == ["headgate-driver-standard-0-1", "headgate-worker-0-1"]
            Truth(workspace.folder / "data").assert_all(workspace.lake / "default" / "flights")
            with service.client() as client:
                claims: list[Any] = [
                    e for e in client.events(0, follow=False) if e and e["kind"] == "task.claimed"
                ]
                attempt = next(e["attempt"] for e in claims if e["driver"].startswith("driver-"))
                assert f"event=attempt attempt={attempt} " in client.log(attempt, tail=10_000)
            service.stop(signal.SIGTERM)
        workspace.assert_tidy()
        assert len(site.pods()) == 2, "they outlive who started them"
