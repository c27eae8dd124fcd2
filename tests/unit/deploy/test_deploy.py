"""What `deploy/` says, as far as it can be checked without a cluster."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.api.driver_services import Counters
from controlplane.api.metrics import render
from controlplane.drivers import pools
from controlplane.operations.failing_units import FailingUnits
from dataplane.contract.kinds import DRIVER_KINDS, WORKER_KINDS
from dataplane.spark.jars import CONNECTORS, coordinates
from tests.cluster import containerfile
from tests.stores import new_store

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
IMAGES = ("controlplane", "dataplane", "postgresql", "s3")
UP = {"up"}  # Prometheus' own


def alerts() -> list[dict[str, Any]]:
    groups = yaml.safe_load((DEPLOY / "prometheus" / "alerts.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def exported() -> set[str]:
    """Names of all metrics, with one count each, so that they are shown."""
    text = render(new_store(), Counters(), {"failed": 1}, FailingUnits()).decode()
    return set(re.findall(r"^# TYPE (headgate_\S+) ", text, re.MULTILINE))


@pytest.mark.parametrize("rule", alerts(), ids=lambda rule: rule["alert"])
def test_an_alert_looks_at_metrics_that_there_are_and_names_its_runbook(
    rule: dict[str, Any],
) -> None:
    named = set(re.findall(r"\b(headgate_\w+|up)\b", re.sub(r'"[^"]*"', "", rule["expr"])))
    assert named
    assert {name.removesuffix("_total") for name in named} <= {
        e.removesuffix("_total") for e in exported()
    } | UP
    page, _, anchor = rule["annotations"]["runbook"].partition("#")
    headings = re.findall(r"^#+ (.*)$", (ROOT / page).read_text(), re.MULTILINE)
    assert anchor in {
        re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings
    }


def test_what_alerts_add_up_is_a_number_also_where_there_is_nothing() -> None:
    shown = render(new_store(), Counters(), {}, FailingUnits()).decode().splitlines()
    kinds = {
        "headgate_attempts": DRIVER_KINDS | WORKER_KINDS,
        "headgate_drivers": {"driver", "worker"},
    }
    for name, of in kinds.items():
        assert {line for line in shown if line.startswith(f"{name}{{")} == {
            f'{name}{{kind="{k}"}} 0.0' for k in of
        }


@pytest.mark.parametrize("overlay", ["local", "production"])
def test_all_pools_at_their_largest_fit_into_the_quota(overlay: str) -> None:
    """Else executors could take the room of the drivers that others wait for."""
    cluster = pools.read((DEPLOY / "overlays" / overlay / "pools.json").read_text())
    quota = next(yaml.safe_load_all((DEPLOY / "base" / "limits.yaml").read_text()))["spec"]["hard"]
    cpu, memory, pods = 0.0, 0, 0
    for pool in cluster.pools.values():
        executors = pool.executors or pools.Executors(maximum=0)
        each = float(pool.cpu.removesuffix("m")) / (1000 if pool.cpu.endswith("m") else 1)
        cpu += pool.limits.maximum * (each + executors.maximum * executors.cpu)
        memory += pool.limits.maximum * (
            pool.memory_mib + executors.maximum * pools.mebibytes(executors.memory)
        )
        pods += pool.limits.maximum * (1 + executors.maximum)
    assert cluster.queries is not None
    cpu, memory, pods = (
        cpu + pools.cores(cluster.queries.cpu),
        memory + cluster.queries.memory_mib,
        pods + 1,
    )
    assert cpu <= float(quota["requests.cpu"])
    assert memory <= min(
        pools.mebibytes(quota[name]) for name in ("requests.memory", "limits.memory")
    )
    assert pods <= int(quota["pods"])


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_runs_as_somebody_without_privilege_who_exists_in_it(image: str) -> None:
    runs = containerfile.read(image)
    assert runs.user in containerfile.users(image).values()
    assert runs.user > 0
    assert runs.entrypoint[0] == "tini"


@pytest.mark.parametrize("image", IMAGES)
def test_a_base_image_is_named_by_its_content(image: str) -> None:
    text = (DEPLOY / "images" / f"{image}.Containerfile").read_text()
    bases = set(re.findall(r"\S+/debian:\S+", text))
    assert len(bases) == 1
    assert re.search(r"@sha256:[0-9a-f]{64}$", bases.pop())


@pytest.mark.parametrize("image", IMAGES)
def test_what_an_image_is_built_of_is_there(image: str) -> None:
    text = (DEPLOY / "images" / f"{image}.Containerfile").read_text()
    copies = [
        line.split()[1:-1]
        for line in text.splitlines()
        if line.startswith("COPY ") and "--from=" not in line
    ]
    sources = [word for words in copies for word in words if not word.startswith("--")]
    assert sources
    assert [source for source in sources if not (ROOT / source).exists()] == []


@pytest.mark.parametrize("plane", ["controlplane", "dataplane"])
def test_images_hold_the_versions_that_are_tested(plane: str) -> None:
    tested, held = (
        pinned(path) for path in (ROOT / "requirements.lock", DEPLOY / "images" / f"{plane}.lock")
    )
    assert held <= tested
    assert any(name.startswith("pyspark==") for name in held) is (plane == "dataplane")
    assert extras(plane) <= {name.partition("==")[0] for name in held}


def test_the_image_has_the_jars_that_connectors_are_tested_with() -> None:
    tested = [ROOT / "tests" / name for name in ("pom.xml", "spark-kafka.xml")]
    assert set(coordinates(CONNECTORS)) == {jar for pom in tested for jar in coordinates(pom)}


def extras(plane: str) -> set[str]:
    """Packages that connectors and pools need beside what everybody has; not those of people at
    their desks, none of the LGPL (paramiko, pymssql), and none whose service was never tried
    (botocore, oracledb, Snowflake's). Drivers sign nobody in; the control plane reads no sheets,
    and no rows of Iceberg tables."""
    others = {"connect", "lsp", "mcp", "notebook", "sftp", "sqlserver"}
    others |= {"aws", "oracle", "snowflake"}
    others.add("oidc" if plane == "dataplane" else "excel")
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    wanted = {package for name, group in groups.items() if name not in others for package in group}
    names = {re.split(r"[\[<>=]", package)[0] for package in wanted}
    return names - {"pyiceberg"} if plane == "controlplane" else names


def pinned(lock: Path) -> set[str]:
    return set(re.findall(r"^[a-z0-9-]+==[^ ;]+", lock.read_text(), re.MULTILINE))


def test_overlays_ask_for_pools_that_the_images_and_the_service_are_for() -> None:
    for overlay in ("local", "production"):
        pools = json.loads((DEPLOY / "overlays" / overlay / "pools.json").read_text())
        assert pools["namespace"] == "headgate-data"
        assert pools["url"] == "http://headgate.headgate.svc:8420"
        assert pools["image"].endswith("/headgate/dataplane:0.1.0")
