"""botocore signs random requests: each is accepted as it is, and refused with anything of it
changed.

It lives in an environment of its own, in a process of its own. Does not belong here: flaws of a
form (`unit.s3`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from time import time

import pytest

from controlplane.services.s3.http import sigv4
from controlplane.services.s3.http.s3_refusals import S3Refused
from controlplane.services.s3.http.sigv4 import SignedRequest
from dataplane.spark.wheels import installed
from tests.slices import sliced

REQUIREMENTS = Path(__file__).parents[1] / "s3_clients.requirements"
KEY, SECRET, HOST = (
    "3c1e0a7f5b9d42688e10",
    "a/secret+key=of-forty-characters-4711abcd",
    "127.0.0.1:8420",
)
EACH = 300  # requests of one case, half of them presigned
SIGN = """\
import json, random, sys
from urllib.parse import quote, urlsplit
from botocore.auth import S3SigV4Auth, S3SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

seed, number, key, secret, host = json.loads(sys.argv[1])
chance = random.Random(seed)
letters = "ab/ %+=&?#~@:ü漢😀._-'()!*,;$[]"

def word(least, most):
    return "".join(chance.choice(letters) for _ in range(chance.randint(least, most)))

for count in range(number):
    path = quote(word(1, 12).lstrip("/") or "x", safe="/~")
    query = {word(1, 3): word(0, 4) for _ in range(chance.randint(0, 3))}
    asked = "&".join(f"{quote(name, safe='')}={quote(value, safe='-_.~')}" for name, value in query.items())
    url = f"http://{host}/default/{path}" + (f"?{asked}" if asked else "")
    request = AWSRequest(chance.choice(["GET", "HEAD"]), url, headers={"Range": f"bytes={count}-"})
    credentials, region = Credentials(key, secret), chance.choice(["eu-west-1", "us-east-1", "headgate"])
    if count % 2:
        S3SigV4QueryAuth(credentials, "s3", region, expires=chance.randint(60, 604800)).add_auth(request)
    else:
        S3SigV4Auth(credentials, "s3", region).add_auth(request)
    sent = request.prepare()
    headers = {name.lower(): v.decode() if isinstance(v, bytes) else v for name, v in sent.headers.items()}
    split = urlsplit(sent.url)
    print(json.dumps([sent.method, split.path, split.query, {"host": host, **headers}]))
"""


@pytest.fixture(scope="module")
def botocore() -> Path:
    return installed(REQUIREMENTS)


@pytest.mark.parametrize("seed", sliced(range(10), of=10))  # each signs others in the same way
def test_what_botocore_signs_is_accepted_and_nothing_else(botocore: Path, seed: int) -> None:
    """`make soak`: 3,000 requests and 15,000 forgeries."""
    now, accepted, refused = time(), 0, 0
    for request in _signed(botocore, seed):
        assert sigv4.verify(request, {KEY: SECRET}.get, now) == KEY, request
        accepted += 1
        for forged, secrets in _forgeries(request):
            with pytest.raises(S3Refused):
                sigv4.verify(forged, secrets.get, now)
            refused += 1
    assert (accepted, refused) == (EACH, 5 * EACH)


def _signed(botocore: Path, seed: int) -> Iterator[SignedRequest]:
    asked = json.dumps([seed, EACH, KEY, SECRET, HOST])
    environment = {**os.environ, "PYTHONPATH": str(botocore)}
    done = subprocess.run(
        [sys.executable, "-S", "-c", SIGN, asked],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    for line in done.stdout.splitlines():
        method, path, query, headers = json.loads(line)
        yield SignedRequest(method, path, query, headers)


def _forgeries(request: SignedRequest) -> Iterator[tuple[SignedRequest, Mapping[str, str]]]:
    """With the secrets that the service has then."""
    ours = {KEY: SECRET}
    yield replace(request, method="HEAD" if request.method == "GET" else "GET"), ours
    yield replace(request, path=f"{request.path}x"), ours
    yield replace(request, query=f"{request.query}&z=1".removeprefix("&")), ours
    yield replace(request, headers={**request.headers, "host": "evil.example.com"}), ours
    yield request, {KEY: f"{SECRET}x"}
