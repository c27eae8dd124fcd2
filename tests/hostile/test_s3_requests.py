"""Requests of the S3 view that are signed as they should be, and ask for what nobody should: each
is refused in words of S3, or answered with what is there. Does not belong here: forged signatures
(`unit.s3.test_sigv4`), many clients."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.api.services import Services
from controlplane.operations.context import Context
from controlplane.operations.desired import s3_keys
from controlplane.services.s3.http import sigv4
from controlplane.services.s3.http.s3_app import S3App
from controlplane.services.s3.http.s3_recognition import REGION
from tests.unit.api.world import TellingWake, render
from tests.unit.s3.world import World

HOST = "127.0.0.1:9"
FOLDER = "main/shop/a/"
SECRET = b"what nobody may read"
CODE = re.compile(rb"<Code>([A-Za-z]+)</Code>")


@dataclass
class Answer:
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def code(self) -> str:
        found = CODE.search(self.body)
        return found[1].decode() if found else ""


class Place:
    """A view of one dataset, with a file beside it that is none of its own, and a key for all of
    it."""

    def __init__(self, root: Path) -> None:
        self.world = World(root / "lake")
        self.world.commit("shop.a", {"day=1/x": [{"k": 1, "v": "a"}], "ü": [{"k": 2, "v": "b"}]})
        for path in (
            "_frags/00/lost.parquet",
            "../secret",
            "_delta_log/00000000000000000000.json.tmp",
        ):
            file = root / "lake" / "default" / "shop" / "a" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(SECRET)
        (root / "secret").write_bytes(SECRET)
        services = Services(
            self.world.store,
            self.world.lake,
            TellingWake(),
            render,
            lambda *_: "",
            stopping=threading.Event(),
        )
        self.app = S3App(services)
        self.key = s3_keys.create(Context(self.world.store), "one", ["*"]).id
        self._secret = s3_keys.secret_key(services.s3_secret, "default", self.key)
        self.names = self.world.names(FOLDER)

    def ask(self, path: str, query: str = "", method: str = "GET", **headers: str) -> Answer:
        """`path` and `query` as they go over the wire, in Latin 1; they are signed so."""
        signed = {
            "host": HOST,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        at = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        signing = {
            "X-Amz-Algorithm": sigv4.ALGORITHM,
            "X-Amz-Credential": f"{self.key}/{at[:8]}/{REGION}/s3/aws4_request",
            "X-Amz-Date": at,
            "X-Amz-Expires": "600",
            "X-Amz-SignedHeaders": "host",
        }
        query = "&".join(
            [
                *filter(None, [query]),
                *(f"{name}={quote(value, '')}" for name, value in signing.items()),
            ]
        )
        request = sigv4.SignedRequest(method, path, query, signed)
        query = f"{query}&X-Amz-Signature={sigv4.sign(request, self._secret)}"
        scope = {
            "type": "http",
            "method": method,
            "raw_path": path.encode("latin-1"),
            "query_string": query.encode("latin-1"),
            "headers": [(name.encode(), value.encode("latin-1")) for name, value in signed.items()],
            "headgate.request_id": "r",
            "asgi": {"spec_version": "2.4"},
        }
        return self._answer(scope)

    def _answer(self, scope: dict[str, Any]) -> Answer:
        answer = Answer()

        async def receive() -> dict[str, Any]:
            return {"type": "http.request"}

        async def send(message: dict[str, Any]) -> None:
            answer.status = message.get("status", answer.status)
            answer.headers |= {
                name.decode(): value.decode() for name, value in message.get("headers", ())
            }
            answer.body += message.get("body", b"")

        anyio.run(self.app, scope, receive, send)  # type: ignore[arg-type]  # messages are plain dictionaries
        return answer


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("place"))


@pytest.mark.parametrize(
    "path",
    [
        f"{FOLDER}../secret",
        "..%2f..%2fsecret",
        f"{FOLDER}..%2fsecret",
        f"{FOLDER}%2e%2e/secret",
        f"{FOLDER}_frags/../../secret",
        f"{FOLDER}_frags/00/lost.parquet",
        f"{FOLDER}_frags/links/00/{'0' * 32}-1/lost.parquet",
        f"{FOLDER}_delta_log/../../secret",
        f"{FOLDER}_delta_log/00000000000000000000.json.tmp%00",
        f"{FOLDER}/etc/passwd",
        "main/../../secret",
        "main/shop/../secret",
        "main/shop.a/_frags/00/lost.parquet",
        "/etc/passwd",
        "..%5c..%5csecret",
        f"{FOLDER}{'x' * 60_000}",
        f"{'a/' * 20_000}x",
        f"{FOLDER}%00",
        f"{FOLDER}ü!0-{'0' * 32}.parquet".encode().decode("latin-1"),
        "main@99999999T999999Z/shop/a/x",
        "main/shop/a@99999999999999999999/x",
        "main/shop/a@0/x",
        "main@/shop/a/x",
    ],
)
def test_no_path_leads_elsewhere(place: Place, path: str) -> None:
    answer = place.ask(f"/default/{path}")
    assert (answer.status, answer.code) == (404, "NoSuchKey")
    assert SECRET not in answer.body


@pytest.mark.parametrize("path", ["/default/%ff%fe", "/default/main/%c3%28/x", "/%80"])
def test_what_is_no_text_is_no_address(place: Place, path: str) -> None:
    assert (place.ask(path).status, place.ask(path).code) == (400, "InvalidURI")


@pytest.mark.parametrize("path", ["/", "//", "/other/x", "/Default/x", "/..", "/default/"])
def test_buckets_are_the_one_that_there_is(place: Place, path: str) -> None:
    answer = place.ask(path)
    assert (answer.status, answer.code) in [(200, ""), (404, "NoSuchBucket")]
    assert SECRET not in answer.body


@pytest.mark.parametrize(
    ("value", "status", "part"),
    [
        ("bytes=0-0", 206, slice(0, 1)),
        ("bytes=-1", 206, slice(-1, None)),
        ("bytes=-999999999999999999", 206, slice(None)),
        ("bytes=0-999999999999999999", 206, slice(None)),
        ("bytes=1-0", 200, slice(None)),
        ("bytes=0-1,3-4", 200, slice(None)),
        ("bytes=-", 200, slice(None)),
        ("bytes=--1", 200, slice(None)),
        ("bytes=+1-2", 200, slice(None)),
        ("bytes=1.0-2", 200, slice(None)),
        ("bytes=\xb2-3", 200, slice(None)),
        ("rows=0-1", 200, slice(None)),
        (f"bytes={'9' * 5000}-", 200, slice(None)),
        ("bytes=-0", 416, None),
        ("bytes=999999999999999999-", 416, None),
    ],
)
def test_ranges_are_parts_of_the_object_or_nothing(
    place: Place, value: str, status: int, part: slice | None
) -> None:
    name = place.names[0]
    whole, answer = place.world.body(name), place.ask(f"/default/{quote(name)}", range=value)
    assert answer.status == status
    if part is None:
        assert answer.code == "InvalidRange"
    else:
        assert answer.body == whole[part]
        assert answer.headers["content-length"] == str(len(answer.body))


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("list-type=2&max-keys=-1", 400, "InvalidArgument"),
        ("list-type=2&max-keys=%D9%A3", 400, "InvalidArgument"),
        ("list-type=2&max-keys=1e9", 400, "InvalidArgument"),
        (f"list-type=2&max-keys={'9' * 5000}", 400, "InvalidArgument"),
        ("list-type=2&continuation-token=x", 400, "InvalidArgument"),
        ("list-type=2&continuation-token=W10=", 400, "InvalidArgument"),
        ("list-type=2&continuation-token=WzksImEiLC0xXQ==", 400, "InvalidArgument"),
        (f"list-type=2&continuation-token={'W1tb' * 20_000}", 400, "InvalidArgument"),
        ("acl", 501, "NotImplemented"),
        ("versions&prefix=x", 501, "NotImplemented"),
        ("list-type=2&max-keys=999999999", 200, ""),
        ("list-type=2&max-keys=0", 200, ""),
        ("list-type=3&prefix=%00%01%ef%bf%bf", 200, ""),
        (f"list-type=2&prefix={'a/' * 20_000}", 200, ""),
        (f"list-type=2&delimiter={'x' * 50_000}", 200, ""),
        ("list-type=2&delimiter=%00&start-after=%f4%8f%bf%bf", 200, ""),
        ("list-type=2&encoding-type=rot13&prefix=main/", 200, ""),
        ("list-type=2&prefix=main/&prefix=dev/", 200, ""),
        (f"{'a=b&' * 5000}list-type=2", 200, ""),
    ],
)
def test_listings_of_whatever_is_asked(place: Place, query: str, status: int, code: str) -> None:
    answer = place.ask("/default", query)
    assert (answer.status, answer.code) == (status, code)


def test_a_token_of_ours_that_was_changed_shows_no_more(place: Place) -> None:
    """Its parts are no secret: a time that has not come is as now, and what is not there begins
    nothing."""
    for token in (
        "Wzk5OTk5OTk5OTk5OTksICJ6IiwgMF0=",
        "WzAsICIiLCAwXQ==",
        "WzAsICJtYWluL3Nob3AvYS94IiwgOTk5XQ==",
    ):
        answer = place.ask("/default", f"list-type=2&continuation-token={token}")
        assert answer.status in (200, 400)
        assert SECRET not in answer.body


@pytest.mark.parametrize(
    "method", ["PUT", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE", "X" * 1000]
)
def test_nothing_but_reading_is_known(place: Place, method: str) -> None:
    for path in ("/", "/default", f"/default/{quote(place.names[0])}"):
        assert place.ask(path, method=method).code == "AccessDenied"


@pytest.mark.property
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.sampled_from(
            [
                *"/.%@!~=&?\x00ü",
                "..",
                "main",
                "shop",
                "a",
                "_frags",
                "_delta_log",
                "%2e",
                "%2f",
                "@1",
            ]
        )
    ),
    st.lists(
        st.tuples(
            st.sampled_from(
                [
                    "list-type",
                    "prefix",
                    "delimiter",
                    "max-keys",
                    "start-after",
                    "marker",
                    "encoding-type",
                ]
            ),
            st.sampled_from(
                ["", "2", "url", "/", "main/", "main/shop/a/", "!", "ü", "\x00", "-", "\U0010ffff"]
            ),
        )
    ),
    st.one_of(st.none(), st.text(st.sampled_from("bytes=-0123456789,"), max_size=12)),
    st.sampled_from(["GET", "HEAD"]),
)
def test_whatever_is_asked_is_answered_in_words_of_s3(
    place: Place, parts: list[str], asked: list[tuple[str, str]], value: str | None, method: str
) -> None:
    path = quote(f"/default/{''.join(parts)}", safe="/%.@!~=&")
    query = "&".join(f"{name}={quote(text, '')}" for name, text in asked)
    answer = place.ask(path, query, method, **({} if value is None else {"range": value}))
    assert answer.status in (200, 206, 304, 400, 403, 404, 412, 416)
    assert SECRET not in answer.body
    assert answer.status in (200, 206) or method == "HEAD" or answer.code
