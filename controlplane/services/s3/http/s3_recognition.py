"""Which requests are for the S3 view. Apart from the view itself, which is loaded when there is
one."""

from __future__ import annotations

import re

from starlette.types import Scope

REGION = "headgate"  # any is taken; boto3 presigns by an older version for us-east-1
_SIGNED = re.compile(rb"AWS(4-HMAC-SHA256)?\s")
_PRESIGNED = re.compile(rb"(^|&)(X-Amz-Algorithm|AWSAccessKeyId)=")


def is_for_s3(scope: Scope) -> bool:
    """Whether a request is signed as those of S3 are; also by the older version, which is refused
    in S3's words."""
    if _PRESIGNED.search(scope["query_string"]):
        return True
    return any(
        name == b"authorization" and _SIGNED.match(value) for name, value in scope["headers"]
    )
