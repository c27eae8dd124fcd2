"""Who reads what is shared, and nothing else, and until when."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlsplit

import anyio
import httpx2
import pytest

from controlplane.api.app import create_app
from controlplane.operations.desired import recipients
from controlplane.services.sharing.http.sharing_app import SharingApp
from tests.unit.api.test_access import flat
from tests.unit.records.world import ORDERS, RecordWorld
from tests.unit.sharing.world import TABLE, Sharing, names, partitions, rows, rows_of, sharing

DAY_S = 86_400.0
SECRET = "shop.secret"


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Sharing]:
    world = RecordWorld(tmp_path)
    world.commit(partitions([1], [2]))
    world.commit(partitions([3]), SECRET)
    with sharing(world) as found:
        yield found


def url_of(shared: Sharing) -> str:
    found: str = shared.lines("POST", f"{TABLE}/query", {})[2]["file"]["url"]
    return found


def status(url: str, method: str = "GET") -> int:
    return httpx2.request(method, url, trust_env=False).status_code


def test_what_is_not_shared_is_not_there(shared: Sharing) -> None:
    with shared.place.client() as client:
        client.create_share("others")
        client.add_to_share("others", SECRET)
    assert names(shared.get("/shares")) == ["sales"]
    for path in (
        "/shares/others",
        "/shares/others/all-tables",
        "/shares/others/schemas/shop/tables/secret/metadata",
        "/shares/sales/schemas/shop/tables/secret/metadata",
    ):
        assert shared.error("GET", path) == (404, "RESOURCE_DOES_NOT_EXIST")
    hidden = "/shares/others/schemas/shop/tables/secret/query"
    assert shared.error("POST", hidden, {}) == (404, "RESOURCE_DOES_NOT_EXIST")


def test_a_recipient_opens_no_other_route(shared: Sharing) -> None:
    """All of the API, drivers' routes among them, and the S3 view."""
    url = shared.place.url
    routes = [
        (m, r.path) for r in flat(create_app(shared.place.services).routes) for m in r.methods
    ]
    assert len(routes) > 60
    fill = {
        "branch": "main",
        "dataset": ORDERS,
        "dataflow": "shop",
        "format": "csv",
        "share": "sales",
    }
    open_to_all = {
        "/livez",
        "/readyz",
        "/openapi.json",
        "/schema/blueprint-v1.json",
        "/v1/links/{link}/{file}",
        "/v1/tokens/exchange",
    }
    with shared.place.http(shared.token) as http:
        for method, path in routes:
            if path in open_to_all:
                continue
            named = path
            for part in [
                part[1:-1] for part in path.replace(".", "/").split("/") if part.startswith("{")
            ]:
                named = named.replace(f"{{{part}}}", fill.get(part, "x"))
            assert http.request(method, named, json={}).status_code == 403, (method, named)
        assert http.post("/v1/driver/claim", json={}).status_code in (401, 403, 404)
    assert status(f"{url}/default/main/shop/orders/") == 404  # without a signature


def test_only_recipients_are_let_in(shared: Sharing) -> None:
    with shared.place.client() as client:
        reader, key = (
            client.create_token("eve", ["data"])["token"],
            client.create_s3_key("eve")["secret_key"],
        )
    for token in (shared.place.token, reader, key, "hg_nothing"):
        assert shared.error("GET", "/shares", token=token) == (401, "UNAUTHENTICATED")
        assert shared.get("/shares", token=token).headers["www-authenticate"].startswith("Bearer")


def test_a_url_reads_one_file_and_can_be_made_to_read_no_other(shared: Sharing) -> None:
    url = url_of(shared)
    assert rows_of(url) == rows(1)
    assert httpx2.get(url, headers={"Range": "bytes=0-3"}, trust_env=False).content == b"PAR1"
    other = shared.lines("POST", f"{TABLE}/query", {})[3]["file"]["url"]
    mixed = url.replace(urlsplit(url).path, urlsplit(other).path)
    listing = url.replace(urlsplit(url).path, "/default")
    elsewhere, longer = (
        url.replace("/orders%401/", "/secret%401/"),
        url.replace("Expires=900", "Expires=901"),
    )
    for forged in (mixed, listing, elsewhere, longer):
        assert forged != url
        assert status(forged) == 403
    assert status(url, "PUT") == status(url, "DELETE") == 403


def test_behind_a_proxy_urls_have_its_scheme(shared: Sharing) -> None:
    line = shared.lines("POST", f"{TABLE}/query", {}, **{"X-Forwarded-Proto": "https"})[2]
    url: str = line["file"]["url"]
    assert url.startswith("https://127.0.0.1:")
    assert rows_of(url.replace("https://", "http://", 1)) == rows(1)  # as the proxy asks


def test_a_url_ends_by_itself(shared: Sharing, monkeypatch: pytest.MonkeyPatch) -> None:
    line = shared.lines("POST", f"{TABLE}/query", {})[2]["file"]
    now = line["expirationTimestamp"] / 1000
    for later, expected in ((now - 5, 200), (now + 5, 403)):
        monkeypatch.setattr(
            "controlplane.services.s3.http.s3_app.time",
            SimpleNamespace(time=lambda later=later: later),
        )
        assert status(line["url"]) == expected


def test_revoking_ends_a_recipient_and_its_urls_at_once(shared: Sharing) -> None:
    url = url_of(shared)
    with shared.place.client() as client:
        other = client.create_recipient("ann", ["sales"])["profile"]["bearerToken"]
        client.revoke_recipient("bob")
        assert [(r["name"], r["revoked"]) for r in client.recipients()] == [
            ("ann", False),
            ("bob", True),
        ]
    assert shared.error("GET", "/shares") == (401, "UNAUTHENTICATED")
    assert status(url) == 403
    assert names(shared.get("/shares", token=other)) == ["sales"]


def test_a_recipient_ends_at_its_time(shared: Sharing) -> None:
    with shared.place.client() as client:
        made = client.create_recipient("ann", ["sales"], ttl_s=DAY_S)
    token, url = made["profile"]["bearerToken"], url_of(shared)
    assert made["profile"]["expirationTime"] == "2025-11-26T12:00:00.000Z"
    shared.world.now += DAY_S - 1
    assert shared.get("/shares", token=token).status_code == 200
    shared.world.now += 2
    assert shared.error("GET", "/shares", token=token) == (401, "UNAUTHENTICATED")
    shared.world.now += 90 * DAY_S
    assert status(url) == 403


def test_taking_a_table_out_ends_its_urls_at_once(shared: Sharing) -> None:
    url = url_of(shared)
    with shared.place.client() as client:
        assert client.remove_from_share("sales", "shop.orders")["tables"] == []
        assert status(url) == 403
        assert shared.error("POST", f"{TABLE}/query", {})[0] == 404
        client.add_to_share("sales", ORDERS)
        assert status(url) == 200
        client.delete_share("sales")
    assert status(url) == 403
    assert names(shared.get("/shares")) == []


def test_a_share_of_the_same_name_is_another_one(shared: Sharing) -> None:
    with shared.place.client() as client:
        client.delete_share("sales")
        client.create_share("sales")
        client.add_to_share("sales", SECRET)
        assert client.share("sales")["recipients"] == []
    assert names(shared.get("/shares")) == []
    assert shared.error("GET", "/shares/sales") == (404, "RESOURCE_DOES_NOT_EXIST")


def test_who_reads_is_in_the_audit(shared: Sharing) -> None:
    rows_of(url_of(shared))
    shared.changes("startingVersion=1")
    shared.get(f"{TABLE}/metadata")
    shared.place.services.reads.flush()
    with shared.place.http() as http:
        found = [r for r in http.get("/v1/audit/reads").json()["items"] if r["how"] == "sharing"]
        fetched = [r for r in http.get("/v1/audit/reads").json()["items"] if r["how"] == "s3"]
    assert [r["what"] for r in found] == [
        {"table": "shop.orders", "from": 1, "to": 1},
        {"table": "shop.orders", "version": 1},
    ]
    assert {(r["actor"], r["dataset"]) for r in [*found, *fetched]} == {("recipient bob", ORDERS)}


def test_a_recipient_is_no_token_of_people(shared: Sharing) -> None:
    with shared.place.http() as http, shared.place.client() as client:
        client.create_recipient("recipient", ["sales"])
        assert [t["name"] for t in http.get("/v1/tokens").json()["items"]] == ["test"]
        assert http.get("/v1/s3/keys").json()["items"] == []
        taken = http.post("/v1/recipients", json={"name": "bob", "shares": ["sales"]})
        assert (taken.status_code, taken.json()["type"]) == (409, "urn:headgate:name-taken")


def test_names_that_are_taken_or_not_there_are_refused(shared: Sharing) -> None:
    with shared.place.http() as http:

        def told(method: str, path: str, body: object = None) -> int:
            return http.request(method, path, json=body).status_code

        assert told("POST", "/v1/shares", {"name": "sales"}) == 409
        assert told("POST", "/v1/shares", {"name": "Sales"}) == 422
        tables = "/v1/shares/sales/tables"
        assert told("POST", tables, {"dataset": SECRET, "as": "shop.orders"}) == 409
        assert told("POST", tables, {"dataset": "shop.none"}) == 404
        assert told("POST", tables, {"dataset": ORDERS, "branch": "none"}) == 404
        assert told("POST", "/v1/shares/none/tables", {"dataset": ORDERS}) == 404
        assert told("DELETE", f"{tables}/shop.none") == 404
        assert told("POST", "/v1/recipients", {"name": "x", "shares": ["none"]}) == 404
        assert told("DELETE", "/v1/recipients/none") == 404
        assert told("DELETE", "/v1/shares/none") == 404


def test_a_recipient_has_so_many_requests_at_a_time(shared: Sharing) -> None:
    app = SharingApp(shared.place.services, per_recipient=0)
    scope: dict[str, object] = {
        "type": "http",
        "method": "GET",
        "path": "/delta-sharing/shares",
        "query_string": b"",
        "headers": [(b"authorization", f"Bearer {shared.token}".encode())],
        "headgate.request_id": "r",
    }
    assert _status_of(app, scope) == 429


def test_what_is_stored_signs_nothing(shared: Sharing) -> None:
    with shared.world.store.read() as tx:
        stored = repr(tx.access.tokens())
    assert shared.token not in stored
    assert recipients.s3_key(shared.world.store, "nobody") is None


def _status_of(app: SharingApp, scope: dict[str, object]) -> int:
    sent: list[dict[str, object]] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: object) -> None:
        assert isinstance(message, dict)
        sent.append(message)

    async def run() -> None:
        await app(scope, receive, send)

    anyio.run(run)
    found = sent[0]["status"]
    assert isinstance(found, int)
    return found
