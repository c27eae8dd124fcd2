"""The identity of the CI job that a command runs in, for a token of the service.

GitHub gives one on request, others put it into a variable.
"""

from __future__ import annotations

from urllib.parse import quote

import httpx2

from controlplane.client import ApiError, Headgate
from controlplane.core.errors import NoToken
from controlplane.settings import JobIdentity

TIMEOUT_S = 30.0


def token(url: str, job: JobIdentity) -> str:
    """A short-lived token of the service. Raises NoToken; but an error of httpx2 where the service
    does not answer."""
    audience = job.audience or url.rstrip("/")
    identity = job.text or _of_github(job, audience)
    with Headgate(url, "none") as client:
        try:
            return client.exchange(identity, job.namespace)["token"]
        except ApiError as e:
            hint = f"set HEADGATE_TOKEN, or have a rule of trust made (audience {audience})"
            raise NoToken(f"{url} takes no identity token of this job: {e}; {hint}") from e


def _of_github(job: JobIdentity, audience: str) -> str:
    """https://docs.github.com/actions/reference/security/oidc, "Methods for requesting the OIDC
    token"."""
    address = (
        f"{job.address}{'&' if '?' in job.address else '?'}audience={quote(audience, safe='')}"
    )
    headers = {
        "Authorization": f"Bearer {job.password}",
        "Accept": "application/json",
        "User-Agent": "headgate",
    }
    try:
        answer = httpx2.get(address, headers=headers, timeout=TIMEOUT_S)
        answer.raise_for_status()
        identity = answer.json().get("value")
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, AttributeError) as e:
        raise NoToken(
            f"the runner gives no identity token of this job: {type(e).__name__}; set HEADGATE_TOKEN"
        ) from e
    if not isinstance(identity, str):
        raise NoToken("the runner's answer has no identity token of this job; set HEADGATE_TOKEN")
    return identity
