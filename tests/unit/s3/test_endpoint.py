"""The S3 view as clients see it: obstore, deltalake and polars over a real server, and single
requests by hand."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx2
import obstore
import polars
import pytest
from deltalake import DeltaTable
from obstore.exceptions import BaseError
from obstore.store import S3Store

from controlplane.api.services import Services
from controlplane.client import Headgate
from controlplane.core.model.projections import TableContent
from controlplane.core.rights import TokenScope
from controlplane.lake.publisher import DeltaPublisher
from controlplane.operations.context import Context
from controlplane.operations.desired import tokens
from tests.stores import damage_node
from tests.unit.api.world import TellingWake, render, serving
from tests.unit.s3.world import SCHEMA, World

ROWS = [{"k": 1, "v": "a"}, {"k": 2, "v": "ü"}]
MORE = [{"k": 3, "v": "c"}]
FOLDER = "main/shop/a/"


@dataclass(frozen=True)
class Served:
    """A server of the view, and a key for all of main."""

    world: World
    services: Services
    url: str
    key: dict[str, str]

    def store(self, **other: Any) -> S3Store:
        return S3Store(
            "default",
            endpoint=self.url,
            access_key_id=self.key["access_key"],
            secret_access_key=self.key["secret_key"],
            region=self.key["region"],
            client_options={"allow_http": True},
            retry_config={"max_retries": 0},
            **other,
        )

    @property
    def options(self) -> dict[str, str]:
        """Of deltalake and polars."""
        return {
            "aws_endpoint_url": self.url,
            "aws_access_key_id": self.key["access_key"],
            "aws_secret_access_key": self.key["secret_key"],
            "aws_region": "us-east-1",  # any
            "aws_allow_http": "true",
        }

    def url_of(self, path: str, method: str = "GET") -> str:
        return obstore.sign(self.store(), method, path, timedelta(seconds=60))  # type: ignore[call-overload]  # any method

    def names(self, prefix: str = FOLDER) -> list[str]:
        return [found["path"] for found in obstore.list(self.store(), prefix=prefix).collect()]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serve(tmp_path, "main/shop") as found:
        yield found


@contextmanager
def serve(folder: Path, *read: str) -> Iterator[Served]:
    """`read`: what the key reads."""
    world = World(folder)
    services = Services(
        world.store,
        world.lake,
        TellingWake(),
        render,
        lambda driver, lines: "",
        stopping=threading.Event(),
        checkpoint=world.checkpoint,
    )
    admin, _ = tokens.create(Context(world.store), "test", ("admin",))
    with serving(services) as url, Headgate(url, admin) as client:
        made = client.create_s3_key("notebooks", read)
        assert made["endpoint"] == url
        yield Served(world, services, url, {k: str(v) for k, v in made.items()})


def test_files_are_listed_and_read_whole_and_in_ranges(served: Served) -> None:
    _, fragments = served.world.commit("shop.a", {"day=2013-02": ROWS, "x/y": MORE})
    store = served.store()
    assert obstore.list_with_delimiter(store)["common_prefixes"] == ["main"]
    names = served.names()
    assert [name.partition("!")[0] for name in names] == [f"{FOLDER}day@2013-02", f"{FOLDER}x.~y"]
    for name, fragment in zip(names, fragments, strict=True):
        body = (served.world.root / fragment.files[0]["path"]).read_bytes()
        assert bytes(obstore.get(store, name).bytes()) == body
        assert bytes(obstore.get_range(store, name, start=3, end=20)) == body[3:20]
        assert obstore.head(store, name)["size"] == len(body)
        assert (
            bytes(obstore.get(store, name, options={"range": {"suffix": 4}}).bytes()) == body[-4:]
        )
        etag = obstore.head(store, name)["e_tag"]
        assert etag is not None
        with pytest.raises(BaseError, match=r"304|NotModified"):
            obstore.get(store, name, options={"if_none_match": etag})
        with pytest.raises(BaseError, match=r"412|Precondition"):
            obstore.get(store, name, options={"if_match": '"other"'})


def test_parquet_and_delta_are_read_by_polars_and_deltalake(served: Served) -> None:
    """The newest by the published log; a generation and a time by one that is made."""
    world = served.world
    state, old = world.commit("shop.a", {"x": ROWS})
    world.now[0] += 10
    _, new = world.commit("shop.a", {"x": ROWS + MORE, "y": MORE})
    publisher = DeltaPublisher(world.lake.uri)
    for generation, fragments in ((1, old), (2, new)):
        publisher.publish(
            TableContent("default/shop/a", SCHEMA, tuple(fragments), generation, "shop.a")
        )
    publisher.close()
    files = polars.read_parquet(f"s3://default/{FOLDER}*.parquet", storage_options=served.options)
    assert files.height == 4
    for address, version, rows in (
        ("main/shop/a", None, 4),
        ("main/shop/a", 0, 2),
        ("main/shop/a@1", None, 2),
        ("main/shop/a@2", None, 4),
        ("main@20251125T120005Z/shop/a", None, 2),
    ):
        table = DeltaTable(
            f"s3://default/{address}", version=version, storage_options=served.options
        )
        assert table.to_pyarrow_table().num_rows == rows, address
    read = polars.read_delta("s3://default/main/shop/a@1", storage_options=served.options)
    assert read.to_dicts() == ROWS
    assert state.generation == 1


def test_a_presigned_url_needs_nothing_else(served: Served) -> None:
    served.world.commit("shop.a", {"x": ROWS})
    (name,) = served.names()
    with httpx2.Client(trust_env=False) as http:
        answer = http.get(served.url_of(name), headers={"Range": "bytes=0-3"})
        assert (answer.status_code, answer.content, answer.headers["accept-ranges"]) == (
            206,
            b"PAR1",
            "bytes",
        )
        forged = http.get(served.url_of(name).replace("Expires=60", "Expires=600"))
        assert (forged.status_code, "<Code>SignatureDoesNotMatch</Code>" in forged.text) == (
            403,
            True,
        )
        beyond = http.get(served.url_of(name), headers={"Range": "bytes=999999-"})
        assert (beyond.status_code, "<Code>InvalidRange</Code>" in beyond.text) == (416, True)


def test_nothing_can_be_written_and_the_connection_is_closed(served: Served) -> None:
    """What is left unread of a body is not taken for the next request."""
    served.world.commit("shop.a", {"x": ROWS})
    (name,) = served.names()
    with httpx2.Client(trust_env=False) as http:
        for method in ("PUT", "POST", "DELETE"):
            refused = http.request(method, served.url_of(name, method), content=b"x" * 100_000)
            assert (refused.status_code, "<Code>AccessDenied</Code>" in refused.text) == (403, True)
            assert refused.headers["connection"] == "close"
            assert http.get(served.url_of(name)).status_code == 200
    with pytest.raises(BaseError):
        obstore.put(served.store(), name, b"x")
    assert served.names() == [name]


def test_each_refusal_has_a_code_of_s3(served: Served) -> None:
    served.world.commit("shop.a", {"x": ROWS})
    served.world.commit("air.a", {"x": ROWS})
    (name,) = served.names()
    wanted = {
        f"{FOLDER}none": (404, "NoSuchKey"),
        f"{FOLDER}_delta_log/_last_checkpoint": (404, "NoSuchKey"),
        name.replace("shop", "air"): (403, "AccessDenied"),
        "main/none/none/none": (403, "AccessDenied"),
    }
    with httpx2.Client(trust_env=False) as http:
        found = {path: http.get(served.url_of(path)) for path in wanted}
        assert {
            p: (a.status_code, a.text.split("Code>")[1][:-2]) for p, a in found.items()
        } == wanted
        assert [http.head(served.url_of(path, "HEAD")).content for path in wanted] == [b""] * 4
        other = served.url_of(name).replace("/default/", "/other/")
        assert "SignatureDoesNotMatch" in http.get(other).text


def test_a_revoked_key_reads_nothing(served: Served) -> None:
    served.world.commit("shop.a", {"x": ROWS})
    (name,) = served.names()
    url = served.url_of(name)
    admin, _ = tokens.create(Context(served.world.store), "second", ("admin",))
    with Headgate(served.url, admin) as client, httpx2.Client(trust_env=False) as http:
        assert http.get(url).status_code == 200
        client.revoke_s3_key("notebooks")
        assert http.get(url).status_code == 403
        assert [key["revoked"] for key in client.s3_keys()] == [True]
        metrics = http.get(
            f"{served.url}/metrics", headers={"Authorization": f"Bearer {admin}"}
        ).text
    assert 'headgate_s3_answers_total{code="SignatureDoesNotMatch"} 1.0' in metrics
    assert 'headgate_s3_answers_total{code="200"}' in metrics


def test_a_collected_file_is_no_such_key(served: Served) -> None:
    _, [gone] = served.world.commit("shop.a", {"x": ROWS})
    (name,) = served.names()
    served.world.lake.delete_prefix(gone.files[0]["path"])
    with pytest.raises(FileNotFoundError):
        obstore.get(served.store(), name)


def test_a_damaged_tree_is_an_error_that_says_what_to_do(served: Served) -> None:
    """A listing without its objects would have clients delete theirs. Other datasets are listed."""
    damaged, _ = served.world.commit("shop.a", {"x": ROWS})
    served.world.commit("shop.b", {"x": MORE})
    damage_node(served.world.store, damaged.root)
    with pytest.raises(BaseError, match=r"InternalError.*headgate fsck"):
        served.names()
    assert len(served.names("main/shop/b/")) == 1


def test_what_is_not_signed_is_the_apis(served: Served) -> None:
    with httpx2.Client(trust_env=False, base_url=served.url) as http:
        assert http.get("/livez").status_code == 200
        assert http.get(f"/default/{FOLDER}").json()["type"] == "urn:headgate:not-found"
        older = http.get(f"/default/{FOLDER}", headers={"Authorization": "AWS key:signature"})
        assert "<Code>AuthorizationHeaderMalformed</Code>" in older.text


def test_a_key_of_a_narrowed_token_sees_its_datasets_alone_and_its_reads_are_in_the_audit(
    served: Served,
) -> None:
    served.world.commit("shop.a", {"x": ROWS})
    served.world.commit("shop.b", {"x": MORE})
    served.world.commit("payroll.a", {"x": MORE})
    within = TokenScope(datasets=("shop.a",), branches=("main",))
    text, token = tokens.create(Context(served.world.store), "analyst", ("data",), within=within)
    with Headgate(served.url, text) as client:
        made = client.create_s3_key("mine", ["*"])
    mine = Served(served.world, served.services, served.url, {k: str(v) for k, v in made.items()})
    (name,) = mine.names("")
    assert name.startswith("main/shop/a/")
    assert obstore.list_with_delimiter(mine.store(), prefix="main/")["common_prefixes"] == [
        "main/shop"
    ]
    (hidden,) = served.names("main/shop/b/")
    for path in (hidden, "main/payroll/a/x!1.parquet", "main/nosuch/a/x!1.parquet"):
        with pytest.raises(BaseError, match=r"403|PermissionDenied"):
            obstore.get(mine.store(), path)
    size = len(bytes(obstore.get(mine.store(), name).bytes()))
    obstore.head(mine.store(), name)  # once it is answered, the request before it is over
    served.services.reads.flush()
    with served.world.store.read() as tx:
        (read,) = tx.audit.reads(None, 9)
    assert (read.actor, read.how, read.dataset, read.times, read.bytes) == (
        "mine",
        "s3",
        "shop.a",
        1,
        size,
    )
    tokens.revoke(Context(served.world.store), token.id)
    with pytest.raises(BaseError, match=r"403|PermissionDenied"):
        obstore.get(mine.store(), name)
