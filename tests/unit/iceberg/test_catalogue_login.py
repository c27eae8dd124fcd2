"""Catalogues that ask for a token of a token server, or for a signature of AWS."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from dataplane.connectors.iceberg.iceberg_listing import partitions
from dataplane.secrets import LONGEST_LENT, hidden
from dataplane.task_failures import TaskFailure
from tests.iceberg_tables import IcebergTables, rows_of
from tests.servers.web import Web, web_server
from tests.unit.iceberg.reading import rows_of_job
from tests.unit.iceberg.rest_catalogue import TABLE_PATH, rest_job, serve

CLIENT, SECRET, TOKEN = "a-client-of-tests", "a-secret-of-the-client", "a-token-of-an-hour"
KEYS = Credentials("AKIATESTS", "a-secret-key-of-tests", "a-session-token")
OAUTH = {"catalog.client_id": "secret://shop/client", "catalog.client_secret": "secret://shop/key"}
AWS = {
    "catalog.signing": "glue",
    "catalog.region": "eu-central-1",
    "storage.access_key_id": "secret://shop/id",
    "storage.secret_access_key": "secret://shop/aws",
    "storage.session_token": "secret://shop/session",
}


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    """A server with one table, for clients that it knows."""
    secrets = {"CLIENT": CLIENT, "KEY": SECRET, "ID": KEYS.access_key, "AWS": KEYS.secret_key}
    for name, text in {**secrets, "SESSION": KEYS.token}.items():
        monkeypatch.setenv(f"HEADGATE_SECRET_SHOP_{name}", text)
    tables = IcebergTables(tmp_path)
    tables.create(rows_of(1))
    with web_server() as server:
        serve(server, tables)
        yield server
    tables.close()


def failure(job: Any) -> TaskFailure:
    with pytest.raises(TaskFailure) as caught:
        list(partitions(job))
    return caught.value


def give_token(web: Web, path: str = "/v1/oauth/tokens", scope: str = "catalog") -> None:
    web.token = f"Bearer {TOKEN}"
    login = {"client_id": CLIENT, "client_secret": SECRET, "scope": scope}
    web.forms[path] = {"grant_type": "client_credentials", **login}
    web.files[path] = json.dumps({"access_token": TOKEN, "token_type": "bearer"}).encode()


def test_a_client_gets_a_token_and_reads_with_it(web: Web) -> None:
    give_token(web)
    assert failure(rest_job(web)).condition == "permission-denied"
    assert rows_of_job(rest_job(web, **OAUTH)) == [{"id": 1, "name": "n1"}]
    assert TOKEN not in hidden(f"the token {TOKEN}")


def test_a_token_server_of_its_own_and_a_scope(web: Web) -> None:
    give_token(web, "/oauth", "PRINCIPAL_ROLE:ALL")
    named = {"catalog.oauth_uri": f"{web.url}/oauth", "catalog.scope": "PRINCIPAL_ROLE:ALL"}
    assert rows_of_job(rest_job(web, **OAUTH, **named)) == [{"id": 1, "name": "n1"}]


def test_a_client_that_is_refused_is_told_which_keys_to_correct(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_token(web)
    monkeypatch.setenv("HEADGATE_SECRET_SHOP_KEY", "another-secret")
    error = failure(rest_job(web, **OAUTH))
    assert error.condition == "credentials-refused"
    assert "`client_secret`" in str(error)
    assert "another-secret" not in str(error)


@pytest.mark.parametrize(
    "answer",
    [
        b"{}",
        b"[]",
        b"no JSON",
        b'{"access_token": 1}',
        b'{"access_token": "a-token\\r\\nHost: other"}',
        json.dumps({"access_token": "t" * (LONGEST_LENT + 1)}).encode(),
    ],
)
def test_an_answer_without_a_token_is_a_clear_error(web: Web, answer: bytes) -> None:
    give_token(web)
    web.files["/v1/oauth/tokens"] = answer
    assert failure(rest_job(web, **OAUTH)).condition == "unreadable"


def test_a_short_token_hides_no_words_of_others(web: Web) -> None:
    give_token(web)
    web.token = "Bearer table"
    web.files["/v1/oauth/tokens"] = b'{"access_token": "table"}'
    assert rows_of_job(rest_job(web, **OAUTH)) == [{"id": 1, "name": "n1"}]
    assert hidden("a table") == "a table"


@pytest.mark.parametrize(
    "settings",
    [
        {"catalog.uri": "http://8.8.8.8", "catalog.token": "secret://shop/key"},
        {"catalog.uri": "http://8.8.8.8", **OAUTH},
        {"catalog.oauth_uri": "http://0x08080808/token", **OAUTH},
        {"catalog.uri": "http://[2001:4860:4860::8888]", **AWS},
    ],
)
def test_no_login_goes_through_the_internet_as_plain_text(
    web: Web, settings: dict[str, str]
) -> None:
    error = failure(rest_job(web, **settings))
    assert error.condition == "place-refused"
    assert "write https://" in str(error)
    assert web.requests == []


def test_a_signature_follows_no_redirect_to_another_host(web: Web) -> None:
    web.is_signed = lambda path, headers: is_signed(web, path, headers)
    with web_server() as other:
        other.files[TABLE_PATH] = web.files[TABLE_PATH]
        web.redirects[TABLE_PATH] = f"{other.url}{TABLE_PATH}"
        assert rows_of_job(rest_job(web, **AWS)) == [{"id": 1, "name": "n1"}]
        secrets = {"authorization", "x-amz-date", "x-amz-security-token"}
        assert not secrets & other.headers.keys()


def test_the_secret_of_a_client_follows_no_redirect(web: Web) -> None:
    give_token(web)
    with web_server() as other:
        web.redirects["/v1/oauth/tokens"] = f"{other.url}/v1/oauth/tokens"
        assert failure(rest_job(web, **OAUTH)).condition == "credentials-refused"
        assert other.requests == []


def is_signed(web: Web, path: str, headers: Mapping[str, str]) -> bool:
    """Whether the client signed this request, by botocore."""
    request = AWSRequest(method="GET", url=f"{web.url}{path}")
    request.context["timestamp"] = headers.get("x-amz-date", "")
    signer = SigV4Auth(KEYS, "glue", "eu-central-1")
    request.headers["X-Amz-Date"] = headers.get("x-amz-date", "")
    request.headers["X-Amz-Security-Token"] = KEYS.token
    canonical = signer.canonical_request(request)
    signature = signer.signature(signer.string_to_sign(request, canonical), request)
    return headers.get("authorization", "").endswith(f"Signature={signature}")


def test_requests_are_signed_with_the_keys_of_the_component(web: Web) -> None:
    web.is_signed = lambda path, headers: is_signed(web, path, headers)
    web.files["/v1/config?warehouse=1234"] = b'{"overrides": {"prefix": "catalogs/1234"}}'
    web.files["/v1/catalogs/1234/namespaces/shop/tables/orders"] = web.files.pop(
        "/v1/namespaces/shop/tables/orders"
    )
    job = rest_job(web, **AWS, **{"catalog.warehouse": "1234"})
    assert rows_of_job(job) == [{"id": 1, "name": "n1"}]
    other = rest_job(web, **{**AWS, "catalog.region": "us-east-1"})
    assert failure(other).condition == "permission-denied"


def test_keys_of_the_worker_sign_for_no_other_server(
    web: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAWORKER")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret-key-of-the-worker")
    catalog = {name: text for name, text in AWS.items() if name.startswith("catalog.")}
    error = failure(rest_job(web, **catalog))
    assert error.condition == "place-refused"
    assert "https://glue.eu-central-1.amazonaws.com" in str(error)
    assert web.requests == []
