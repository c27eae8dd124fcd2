"""What each account may do, and that it may do nothing else: asked of the API server about the
project's own roles."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from kubernetes import client

from tests.cluster.site import Site

VERBS = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
RESOURCES = (
    ("batch", "jobs", ""),
    ("batch", "cronjobs", ""),
    ("", "pods", ""),
    ("", "pods", "exec"),
    ("", "pods", "log"),
    ("", "pods", "portforward"),
    ("", "pods", "ephemeralcontainers"),
    ("", "events", ""),
    ("", "secrets", ""),
    ("", "configmaps", ""),
    ("", "services", ""),
    ("", "persistentvolumeclaims", ""),
    ("", "serviceaccounts", ""),
    ("", "serviceaccounts", "token"),
    ("", "nodes", ""),
    ("", "namespaces", ""),
    ("apps", "deployments", ""),
    ("rbac.authorization.k8s.io", "roles", ""),
    ("rbac.authorization.k8s.io", "rolebindings", ""),
)
MAY = {
    "headgate-controlplane": {
        "jobs": {"create", "list", "watch", "delete"},
        "pods": {"list", "watch"},
        "pods/log": {"get"},
        "events": {"list", "watch"},
        "secrets": {"create", "delete"},
    },
    "headgate-driver": {
        "pods": {"create", "get", "list", "watch", "patch", "delete", "deletecollection"},
        "persistentvolumeclaims": {"list", "deletecollection"},
    },
    "default": dict[str, set[str]](),
}


def allowed(site: Site, account: str, namespace: str) -> dict[str, set[str]]:
    """Resource -> verbs, of an account in a namespace, as the API server decides."""
    home = site.home if account == "headgate-controlplane" else site.namespace
    user = f"system:serviceaccount:{home}:{account}"
    found: dict[str, set[str]] = {}
    asks: Any = client.AuthorizationV1Api(site.core.api_client)
    for (group, resource, part), verb in product(RESOURCES, VERBS):
        wanted = {
            "group": group,
            "resource": resource,
            "subresource": part,
            "verb": verb,
            "namespace": namespace,
        }
        review = asks.create_subject_access_review(
            {"spec": {"user": user, "resourceAttributes": wanted}}
        )
        if review.status.allowed:
            found.setdefault("/".join(filter(None, (resource, part))), set()).add(verb)
    return found


@pytest.mark.parametrize("account", MAY)
def test_each_may_do_just_this(site: Site, account: str) -> None:
    assert allowed(site, account, site.namespace) == MAY[account]


@pytest.mark.parametrize("account", MAY)
def test_nobody_may_do_anything_elsewhere(site: Site, account: str) -> None:
    for namespace in (site.home, "kube-system"):
        assert allowed(site, account, namespace) == {}
