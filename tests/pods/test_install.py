"""The overlay `local` on a real cluster: all of it comes up under the restricted Pod Security
Standard."""

from __future__ import annotations

import json

import obstore
import pytest
from obstore.store import S3Store

from tests.pods.cluster import CONTROL, DATA, Cluster

PRIVILEGED = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "privileged"},
    "spec": {"containers": [{"name": "c", "image": "x", "securityContext": {"privileged": True}}]},
}


def test_the_api_answers(installed: Cluster) -> None:
    with installed.client() as client:
        assert client.is_ready()
        assert "admin" in {token["name"] for token in client.tokens()}


def test_the_database_is_the_one_in_the_cluster(installed: Cluster) -> None:
    assert installed.query("SELECT count(*) FROM tokens WHERE name = 'admin'") == [(1,)]


def test_the_object_store_takes_what_is_signed_and_puts_if_absent(installed: Cluster) -> None:
    given = {
        name: installed.secret("headgate-lake", name)
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
    }
    store = S3Store(
        "headgate",
        endpoint=f"http://{installed.address('s3')}",
        region="us-east-1",
        access_key_id=given["AWS_ACCESS_KEY_ID"],
        secret_access_key=given["AWS_SECRET_ACCESS_KEY"],
        client_options={"allow_http": True},
    )
    obstore.put(store, "test/once", b"1", mode="create")
    with pytest.raises(obstore.exceptions.AlreadyExistsError):
        obstore.put(store, "test/once", b"2", mode="create")
    assert bytes(obstore.get(store, "test/once").bytes()) == b"1"


@pytest.mark.parametrize("namespace", [CONTROL, DATA])
def test_a_pod_with_privileges_is_refused(installed: Cluster, namespace: str) -> None:
    refusal = installed.refusal(
        "create", "--namespace", namespace, "--filename=-", stdin=json.dumps(PRIVILEGED)
    )
    assert 'violates PodSecurity "restricted' in refusal


def test_every_container_runs_as_somebody_and_cannot_write_its_image(installed: Cluster) -> None:
    pods = installed.get("pods", "--namespace", CONTROL)["items"]
    contexts = [c["securityContext"] for pod in pods for c in pod["spec"]["containers"]]
    assert len(contexts) >= 4
    assert all(context["readOnlyRootFilesystem"] for context in contexts)
    assert all(pod["spec"]["securityContext"]["runAsNonRoot"] for pod in pods)
