"""How a REST catalogue knows its client: a bearer token, one that a token server gives for a client
and its secret, or a signature of AWS.

https://datatracker.ietf.org/doc/html/rfc6749#section-4.4 ;
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import TypeAlias
from urllib.parse import urlsplit

from dataplane.connectors.iceberg.answer_bytes import body_of
from dataplane.contract.jobs import ConnectorJob, ConnectorSettings
from dataplane.secrets import LONGEST_LENT, remember_lent, resolved
from dataplane.storage.http_files import posted
from dataplane.storage.service_hosts import leads_to_public
from dataplane.storage.source_stores import StoreAccess
from dataplane.task_failures import TaskFailure

# The headers of a request by its address
Login: TypeAlias = Callable[[str], Mapping[str, str]]
LOGINS = ("catalog.signing", "catalog.client_id", "catalog.token")
SCOPE = "catalog"  # of a token, as the protocol of Iceberg has it
TOKENS = "/v1/oauth/tokens"  # below the address of a catalogue
# https://datatracker.ietf.org/doc/html/rfc6749#appendix-A.12 ; a header holds no longer one
_TOKEN = re.compile(rf"[\x21-\x7e]{{1,{LONGEST_LENT}}}")


def login_of(job: ConnectorJob, uri: str) -> Login:
    """`uri`: of the catalogue. TaskFailure where the token server gives no token, no keys of AWS
    are there, or the login would be readable on its way."""
    settings = job["settings"]
    if any(name in settings for name in LOGINS):
        _check_encrypted(uri)
    if "catalog.signing" in settings:
        return _signature(job, uri)
    token = resolved(settings.get("catalog.token", ""))
    if "catalog.client_id" in settings:
        token = _given_token(settings, uri)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return lambda _: headers


def _given_token(settings: ConnectorSettings, catalogue: str) -> str:
    uri = settings.get("catalog.oauth_uri", catalogue + TOKENS)
    form = {
        "grant_type": "client_credentials",
        "client_id": resolved(settings["catalog.client_id"]),
        "client_secret": resolved(settings["catalog.client_secret"]),
        "scope": settings.get("catalog.scope", SCOPE),
    }
    _check_encrypted(uri)
    with posted(uri, form) as answer:
        if answer.status_code >= 500:
            message = f"{uri}: the token server answers {answer.status_code}"
            raise TaskFailure("unreachable", message, "infrastructure")
        if answer.status_code != 200:
            message = f"{uri} gives no token and answers {answer.status_code}"
            hint = "correct `client_id`, `client_secret`, `scope` or `oauth_uri`"
            raise TaskFailure("credentials-refused", f"{message}: {hint}")
        token = json.loads(body_of(uri, answer)).get("access_token")
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        message = f"{uri} answers without an `access_token` that a header can hold"
        raise TaskFailure("unreadable", message)
    remember_lent(token)
    return token


def _check_encrypted(uri: str) -> None:
    """TaskFailure for plain HTTP through the public internet. A service of the same network, as of
    a cluster, may have no certificate."""
    host = urlsplit(uri).hostname or ""
    if uri.startswith("http://") and leads_to_public(host):
        message = f"{uri}: logins go to hosts of the public internet by https:// alone"
        raise TaskFailure("place-refused", f"{message}: write https://{host}")


def _signature(job: ConnectorJob, catalogue: str) -> Login:
    """The keys are those of `storage`, else those of the environment or the machine, which sign for
    AWS alone."""
    service, region = job["settings"]["catalog.signing"], job["settings"]["catalog.region"]
    try:
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.credentials import Credentials
        from botocore.session import Session
    except ModuleNotFoundError as e:
        message = "a catalogue of AWS needs: pip install 'headgate[aws]'"
        raise TaskFailure("missing-package", message, "infrastructure") from e
    access = StoreAccess.declared(job)
    if access.access_key_id:
        token = access.session_token or None
        keys = Credentials(access.access_key_id, access.secret_access_key, token)
    else:
        _check_is_aws(catalogue, f"{service}.{region}.amazonaws.com")
        keys = Session().get_credentials()
    if keys is None:
        message = "no keys of AWS are in the environment of this worker"
        raise TaskFailure("credentials-refused", f"{message}: give them in `storage`")

    def headers(uri: str) -> Mapping[str, str]:
        request = AWSRequest(method="GET", url=uri)
        SigV4Auth(keys, service, region).add_auth(request)
        return dict(request.headers.items())

    return headers


def _check_is_aws(catalogue: str, host: str) -> None:
    """TaskFailure for another server, which would see what the worker's own keys sign."""
    parts = urlsplit(catalogue)
    if parts.scheme != "https" or parts.netloc not in (host, f"{host}.cn"):
        message = f"{catalogue} is not https://{host}, for which alone keys of this worker sign"
        raise TaskFailure("place-refused", f"{message}: give keys in `storage`")
