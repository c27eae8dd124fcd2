"""Files in an object store as a source, with a lake of its own on disk: whatever happens to them,
the dataset follows.

Steps of one story, told to one service. Credentials are secrets of the read components, and nobody
has others.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import obstore
import pytest

from controlplane.client import Headgate
from tests.e2e.conftest import closing
from tests.e2e.served import Served
from tests.e2e.workspace import Service, Workspace
from tests.servers.s3 import CREDENTIALS, S3
from tests.slices import in_turn
from tests.there import there

# Takes turns with copies on S3, orders and TPC-H: the store and the listing of objects have suites
# of their own (tests/s3, unit/listing), and other stories read files.
pytestmark = in_turn(2, 8)

STORAGE = """storage: {{endpoint: "{url}", region: us-east-1, access_key_id: "secret://shop/id",
      secret_access_key: "secret://shop/key"}}"""
BLUEPRINT = f"""\
dataflow: shop
components:
  sales:
    read:
      connector: files
      path: s3://lake/sales/*.csv*
      regex: "[^.]+[.]csv([.]gz)?"
      format: csv
      options: {{{{header: true}}}}
      schema: "day INT, amount INT"
      refresh: manual
      {STORAGE}
  notes:
    read:
      connector: files
      path: s3://lake/notes/**/*.json
      format: json
      metadata: [name]
      refresh: manual
      {STORAGE}
  large:
    transform: {{{{sql: "SELECT * FROM sales WHERE amount > 10"}}}}
  total:
    transform: {{{{sql: "SELECT count(*) AS n, sum(amount) AS amount FROM sales"}}}}
"""
SECRET = CREDENTIALS["AWS_SECRET_ACCESS_KEY"]


class Story(Served):
    """The server, objects on it as they are expected, a service that reads them, and the work done
    so far."""

    def __init__(self, s3: S3, workspace: Workspace, service: Service, api: Headgate) -> None:
        super().__init__(workspace, service, api, "shop", reads=2)
        self.s3, self.store = s3, s3.bucket("lake")
        self.expected: dict[str, list[tuple[int, int]]] = {}

    def put(self, name: str, *rows: tuple[int, int]) -> None:
        self.expected[name] = list(rows)
        text = "day,amount\n" + "".join(f"{day},{amount}\n" for day, amount in rows)
        self.put_text(
            f"sales/{name}", gzip.compress(text.encode()) if name.endswith(".gz") else text.encode()
        )

    def put_text(self, name: str, body: bytes) -> None:
        obstore.put(self.store, name, body, use_multipart=False)

    def delete(self, name: str) -> None:
        del self.expected[name]
        obstore.delete(self.store, f"sales/{name}")

    def refreshed(self, *, code: int = 0) -> str:
        self.refresh(code=code)
        return self.state("sales")

    def assert_true(self) -> None:
        wanted = sorted(row for rows in self.expected.values() for row in rows)
        assert sorted((r["day"], r["amount"]) for r in self.rows("sales")) == wanted
        assert sorted((r["day"], r["amount"]) for r in self.rows("large")) == [
            r for r in wanted if r[1] > 10
        ]
        amounts = [amount for _, amount in wanted]
        assert self.rows("total") == [
            {"n": len(wanted), "amount": sum(amounts) if wanted else None}
        ]

    def condition(self, dataset: str) -> str:
        return str(there(self.api.why(f"shop.{dataset}")["error"])["condition"])


@pytest.fixture(scope="module")
def server() -> Iterator[S3]:
    found = S3().start()
    yield found
    found.remove()


@pytest.fixture(scope="module")
def secrets(module_folder: Path) -> Path:
    folder = module_folder / "mounted" / "shop"
    folder.mkdir(parents=True)
    (folder / "id").write_text(CREDENTIALS["AWS_ACCESS_KEY_ID"])
    (folder / "key").write_text(SECRET)
    return folder


@pytest.fixture(scope="module")
def story(module_folder: Path, server: S3, secrets: Path) -> Iterator[Story]:
    (module_folder / "events").mkdir()
    conf = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": str(module_folder / "events")}
    environment = {"HEADGATE_SECRETS": str(secrets.parent), "HEADGATE_SPARK_CONF": json.dumps(conf)}
    (module_folder / "shop").mkdir()
    with closing(Workspace(module_folder / "shop", environment=environment)) as workspace:
        workspace.write("shop.yaml", BLUEPRINT.format(url=server.url))
        with workspace.serving() as service:
            workspace.ask("apply", "shop.yaml", "--wait")
            with service.client() as api:
                yield Story(server, workspace, service, api)


def test_nothing_there_is_an_empty_dataset(story: Story) -> None:
    story.assert_true()
    story.work()


def test_objects_are_read_once(story: Story) -> None:
    story.put("1.csv", (1, 5), (1, 20))
    story.put("2 b+c%.csv", (2, 30))
    story.put("3.csv.gz", (3, 40))
    story.put_text("sales/_hidden.csv", b"day,amount\n9,9\n")
    story.put_text("sales/x.old.csv", b"day,amount\n9,9\n")
    story.put_text("sales/deeper/4.csv", b"day,amount\n9,9\n")
    story.put_text("notes/a/b/1.json", b'{"text": "x"}\n')
    assert story.refreshed() == "up_to_date"
    story.assert_true()
    assert story.work() == 3 + 3 + 1 + 1
    assert story.rows("notes") == [{"text": "x", "_source_name": "a/b/1.json"}]


def test_nothing_changed(story: Story) -> None:
    story.put("1.csv", (1, 5), (1, 20))  # the same bytes again
    story.refreshed()
    assert story.work() == 0


def test_a_late_a_changed_and_a_withdrawn_object(story: Story) -> None:
    story.put("4.csv", (4, 50))
    story.put("1.csv", (1, 6), (1, 21))
    story.delete("2 b+c%.csv")
    story.refreshed()
    story.assert_true()
    assert story.work() == 2 + 2 + 1


def test_a_renamed_object_is_read_again_and_nothing_after_it(story: Story) -> None:
    obstore.rename(story.store, "sales/4.csv", "sales/5.csv")
    story.expected["5.csv"] = story.expected.pop("4.csv")
    story.refreshed()
    story.assert_true()
    assert story.work() == 1


def test_a_new_column_is_seen_in_the_listing(story: Story) -> None:
    story.put_text("notes/a/2.json", b'{"text": "y", "stars": 3}\n')
    story.refreshed()
    found = sorted(story.rows("notes"), key=lambda row: row["text"])
    assert [row["stars"] for row in found] == [None, 3]
    assert story.work() == 1


def test_a_bad_record_fails_its_object_and_is_named(story: Story) -> None:
    before = story.rows("sales")
    story.put_text("sales/6.csv", b"day,amount\nsix,1\n")
    assert story.refreshed(code=1) == "failed"
    error = there(story.api.why("shop.sales")["error"])
    assert error["message"].startswith("s3://lake/sales/6.csv")
    assert story.rows("sales") == before
    story.put("6.csv", (6, 60))
    assert story.refreshed() == "up_to_date"
    story.assert_true()


def test_wrong_credentials_lose_nothing(story: Story, secrets: Path) -> None:
    (secrets / "key").write_text("wrong")
    assert story.refreshed(code=1) == "failed"
    assert story.condition("sales") == "credentials-refused"
    story.assert_true()
    (secrets / "key").write_text(SECRET)
    assert story.refreshed() == "up_to_date"


def test_a_server_that_is_away_loses_nothing(story: Story) -> None:
    story.s3.stop()
    assert story.refreshed(code=1) == "failed"
    assert story.condition("sales") == "unreachable"
    story.assert_true()
    story.s3.start()
    story.put("7.csv", (7, 70))
    assert story.refreshed() == "up_to_date"
    story.assert_true()


def test_connections_are_tried(story: Story) -> None:
    text = (story.workspace.folder / "shop.yaml").read_text()
    wrong = text.replace("s3://lake/sales", "s3://nowhere/sales").replace(
        "secret://shop/id", "secret://shop/other", 1
    )
    story.workspace.write("wrong.yaml", wrong)
    assert story.workspace.call(
        "validate", "shop.yaml", "--connect", "--home", story.workspace.home
    )
    told = story.workspace.call(
        "validate", "wrong.yaml", "--connect", "--home", story.workspace.home, code=1
    )
    assert "secret-missing" in told
    story.workspace.write("wrong.yaml", text.replace("s3://lake/sales", "s3://nowhere/sales"))
    told = story.workspace.call(
        "validate", "wrong.yaml", "--connect", "--home", story.workspace.home, code=1
    )
    assert "bucket-missing" in told


def test_all_objects_are_withdrawn(story: Story) -> None:
    for name in list(story.expected):
        story.delete(name)
    story.refreshed()
    story.assert_true()
    assert story.rows("sales") == []


def test_no_secret_is_written_down(story: Story, module_folder: Path) -> None:
    kept = [
        f
        for folder in ("shop", "events")
        for f in (module_folder / folder).rglob("*")
        if f.is_file()
    ]
    assert any(module_folder / "events" in f.parents for f in kept)
    assert [f for f in kept if SECRET.encode() in f.read_bytes()] == []
