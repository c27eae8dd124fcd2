"""Blueprints in a repository: the steps of the example workflow, and the hook, as users copy
them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.conftest import closing
from tests.e2e.workspace import Service, Workspace
from tests.slices import takes_turns

ROOT = Path(__file__).parents[2]
WORKFLOW: dict[str, Any] = yaml.safe_load(
    (ROOT / "docs" / "ci" / "github-actions.yaml").read_text()
)
BRANCHES: dict[str, Any] = yaml.safe_load(
    (ROOT / "docs" / "ci" / "github-branches.yaml").read_text()
)
SHOP = """\
dataflow: shop
components:
  orders:
    read: {connector: files, path: /data/orders/*.csv, format: csv, options: {header: true}, schema: id BIGINT}
  dear:
    transform: {sql: SELECT id FROM orders WHERE id > 100}
"""


@pytest.fixture(scope="module")
def place(module_folder: Path) -> Iterator[Workspace]:
    with closing(Workspace(module_folder)) as workspace:
        yield workspace


@pytest.fixture(scope="module")
def service(place: Workspace) -> Iterator[Service]:
    with place.serving(HEADGATE_POOL="none") as found:
        yield found


class Checkout:
    """A folder of its own, in which steps of the workflow are run as its system does."""

    def __init__(self, folder: Path, service: Service, workflow: dict[str, Any] = WORKFLOW) -> None:
        self.workflow = workflow
        self.folder, self.summary, self.outputs = folder, folder / "summary.md", folder / "outputs"
        (folder / "blueprints").mkdir(parents=True)
        self.write(SHOP)
        self._environment = {
            # The code that is tested, also where the command is of another folder
            "PYTHONPATH": str(ROOT),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder),
            "HEADGATE_URL": service.url,
            "HEADGATE_TOKEN": service.token,
            "BLUEPRINTS": workflow["env"]["BLUEPRINTS"],
            "BRANCH": "pr-7",
            "GITHUB_STEP_SUMMARY": str(self.summary),
            "GITHUB_OUTPUT": str(self.outputs),
        }

    def write(self, text: str) -> None:
        (self.folder / "blueprints" / "shop.yaml").write_text(text)

    def step(self, job: str, name: str) -> subprocess.CompletedProcess[str]:
        (step,) = (s for s in self.workflow["jobs"][job]["steps"] if s.get("name") == name)
        script = step["run"]
        if self.workflow is WORKFLOW:
            # It has no workers
            script = script.replace("headgate plan ", "headgate plan --timeout 0 ")
        return self.shell(script)

    def steps(self, job: str, *names: str) -> None:
        for name in names:
            done = self.step(job, name)
            assert done.returncode == 0, f"{name}: {done.stdout}{done.stderr}"

    def shell(self, script: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
        )


@pytest.fixture
def checkout(tmp_path: Path, service: Service) -> Checkout:
    return Checkout(tmp_path / "checkout", service)


def test_a_pull_request_shows_what_it_would_do_and_a_merge_does_it(
    checkout: Checkout, service: Service
) -> None:
    assert checkout.step("plan", "Validate").returncode == 0
    planned = checkout.step("plan", "Plan")
    assert planned.returncode == 0, planned.stderr
    assert checkout.outputs.read_text() == "comment=true\n"
    plan = (checkout.folder / "plan.md").read_text()
    assert plan == checkout.summary.read_text()
    assert plan.startswith("### Headgate: ✅ 2 edits, columns stay as they are; 0 tasks certain")
    assert "| `shop.orders` | new | neutral |" in plan
    with service.client() as client:
        assert client.dataflows() == [], "a plan stores nothing"
    applied = checkout.step("apply", "Apply")
    assert applied.returncode == 0, applied.stderr
    assert "shop is at revision 1" in checkout.summary.read_text()
    again = checkout.step("apply", "Apply")
    assert again.returncode == 0, again.stderr
    with service.client() as client:
        assert [f["revision"] for f in client.dataflows()] == [1]


def test_a_pull_request_with_a_mistake_fails_and_says_where(checkout: Checkout) -> None:
    checkout.write(SHOP.replace("FROM orders", "FROM order"))
    for name in ("Validate", "Plan"):
        refused = checkout.step("plan", name)
        assert refused.returncode == 1
        assert "blueprints/shop.yaml:6:" in refused.stdout + refused.stderr
    assert checkout.outputs.read_text() == "comment=false\n"


def test_a_pull_request_that_breaks_a_reader_fails_with_a_comment(
    checkout: Checkout, service: Service
) -> None:
    shop = SHOP.replace(
        "schema: id BIGINT", "schema_change: fail, schema: 'id BIGINT, price INT'"
    ).replace("SELECT id FROM orders WHERE id > 100", "'SELECT id, price FROM orders'")
    checkout.write(shop + "  spent: {transform: {sql: SELECT sum(price) AS price FROM dear}}\n")
    assert checkout.step("apply", "Apply").returncode == 0
    checkout.write(
        (checkout.folder / "blueprints" / "shop.yaml")
        .read_text()
        .replace("SELECT id, price", "SELECT id")
    )
    planned = checkout.step("plan", "Plan")
    assert planned.returncode == 1
    assert checkout.outputs.read_text() == "comment=true\n"
    plan = (checkout.folder / "plan.md").read_text()
    assert plan.startswith("### Headgate: ❌ breaks 1 component; ")
    assert (
        "- `blueprints/shop.yaml:7:39` shop.spent reads sum(price) of shop.dear, which has it no more"
        in plan
    )


# Each command of the workflow is asked of unit/cli and unit/branches, and branches by processes of
# test_thrift.
@takes_turns(1, 3)
def test_a_pull_request_has_a_branch_that_is_computed_compared_and_merged(tmp_path: Path) -> None:
    """With a real driver: the edit is computed in the branch, and main adopts the results."""
    orders = tmp_path / "orders"
    orders.mkdir()
    (orders / "a.csv").write_text("id,price\n1,50\n2,150\n3,250\n")
    (orders / "b.csv").write_text("id,price\n4,50\n")
    shop = f"""\
dataflow: shop
components:
  orders:
    read:
      connector: files
      path: {orders}/*.csv
      format: csv
      options: {{header: true}}
      schema: id INT, price INT
  dear:
    transform: {{sql: 'SELECT id, price FROM orders WHERE price > 100'}}
"""
    with closing(Workspace(tmp_path / "service")) as place:
        place.folder.mkdir()
        with place.serving() as service:
            checkout = Checkout(tmp_path / "checkout", service, BRANCHES)
            checkout.write(shop)
            applied = checkout.shell("headgate apply --wait $BLUEPRINTS")
            assert applied.returncode == 0, applied.stderr
            checkout.write(shop.replace("price > 100", "price > 200"))
            for _ in range(2):  # a second push finds the branch
                checkout.steps(
                    "compare", "Validate", "Plan", "Branch", "Compute", "Compare", "Summary"
                )
            comment = (checkout.folder / "comment.md").read_text()
            assert comment.startswith("### Headgate: ")
            assert "| `shop.dear` | logic edited |" in comment
            assert "### Headgate: data of 1 dataset differs; rows -1" in comment
            assert "| `shop.dear` | changed | 1 changed | +0 -1 | " in comment
            assert "| - | 2 | 150 |" in comment
            asked = ("shop.dear@1", "--branch", "pr-7", "--key", "id", "--output", "json")
            told = checkout.shell(f"headgate diff {' '.join(asked)}")
            assert told.returncode == 0, told.stderr
            by_key = json.loads(told.stdout)["row_changes"]["by_key"]
            assert (by_key["removed"], by_key["changed"], by_key["ambiguous"]) == (1, 0, 0)
            with service.client() as client:
                before = len(client.attempts("shop.dear")["items"])
                checkout.steps("merge", "Merge", "Apply")
                waited = checkout.shell("headgate apply --wait $BLUEPRINTS")
                assert waited.returncode == 0, waited.stderr
                with client.records("shop.dear") as parts:
                    assert [row["id"] for row in json.loads(b"".join(parts))] == [3]
                assert len(client.attempts("shop.dear")["items"]) == before, (
                    "main adopts what the branch computed"
                )
                assert client.branch("pr-7")["expires_at"], "it ends by itself"


def test_a_service_that_is_away_fails_a_plan(checkout: Checkout) -> None:
    refused = checkout.shell(
        "HEADGATE_URL=http://127.0.0.1:1 headgate plan --detailed-exitcode $BLUEPRINTS"
    )
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "unreachable" in refused.stderr


def test_the_hook_looks_at_every_blueprint_that_it_is_given(checkout: Checkout) -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["language"] == "python"
    assert (
        checkout.shell(f"unset HEADGATE_URL; {hook['entry']} blueprints/shop.yaml").returncode == 0
    )
    checkout.write(SHOP.replace("format: csv", "format: cvs"))
    refused = checkout.shell(f"unset HEADGATE_URL; {hook['entry']} blueprints/shop.yaml")
    assert refused.returncode == 1
    assert "blueprints/shop.yaml:4:" in refused.stdout
