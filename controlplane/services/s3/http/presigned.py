"""URLs that we sign ourselves: each reads one object of the S3 view, for some time."""

from __future__ import annotations

from datetime import UTC, datetime
from urllib.parse import urlencode, urlsplit

from controlplane.services.s3.http import sigv4
from controlplane.services.s3.http.s3_recognition import REGION


def url(base: str, path: str, access_key: str, secret: str, now: float, expires_s: int) -> str:
    """To GET `path`, which begins with the bucket. `base`: the address of this service without a
    path; `now`: seconds since 1970."""
    at = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    parameters = {
        "X-Amz-Algorithm": sigv4.ALGORITHM,
        "X-Amz-Credential": f"{access_key}/{at[:8]}/{REGION}/s3/aws4_request",
        "X-Amz-Date": at,
        "X-Amz-Expires": str(expires_s),
        "X-Amz-SignedHeaders": "host",
    }
    full_path = f"/{sigv4.encoded(path.encode(), '/')}"
    request = sigv4.SignedRequest(
        "GET", full_path, urlencode(parameters), {"host": urlsplit(base).netloc}
    )
    return f"{base}{full_path}?{request.query}&X-Amz-Signature={sigv4.sign(request, secret)}"
