"""The pulling side of docs/protocol.md over HTTP: claim, heartbeat, report; patient while the
control plane is away."""

from __future__ import annotations

import contextlib
import os
import ssl
import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from dataplane.contract.claims import CONTRACT, Claim
from dataplane.contract.kinds import Kind
from dataplane.contract.results import Measures, TaskResult
from dataplane.secrets import remember, without_secrets
from dataplane.secrets import token as token_of_pipe

WAIT_S = 20.0  # how long the control plane may hold a claim that finds nothing
ANSWER_S = 60.0
# Trusts nothing; the system's take 40 ms to read
NO_CERTIFICATES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 5.0


class Ended(Exception):
    """The control plane does not, or no longer, take this process for one of its own, or the client
    was closed."""


class AttemptFenced(Exception):
    """The attempt no longer belongs to this process: stop, delete nothing."""


class CallRefused(Exception):
    """The control plane found a request wrong: a mistake of ours that a repetition does not
    mend."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """Attempts to give up, and whether to finish what runs and end."""

    fenced: tuple[str, ...] = ()
    drain: bool = False


@dataclass(frozen=True, slots=True)
class Reported:
    """Task keys (hex) whose results were taken, and those whose tasks belong to another driver by
    now."""

    accepted: tuple[str, ...]
    fenced: tuple[str, ...]


class Client:
    """Safe to use from several threads. Every call is repeated until it is answered or the client
    is closed."""

    def __init__(
        self, url: str, token: str, sizes: Sequence[str] = (), calls: Path | None = None
    ) -> None:
        """`sizes` of the tasks to claim; all by default. `calls` is a file that is touched with
        each call."""
        self._sizes = {"sizes": list(sizes)} if sizes else {}
        self._calls = calls
        self._closed = threading.Event()
        self._http = httpx2.Client(
            base_url=url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx2.Timeout(ANSWER_S, connect=5.0),
            trust_env=False,  # no proxy of the environment stands between the planes
            verify=NO_CERTIFICATES if url.startswith("http:") else True,
        )

    @classmethod
    def from_environment(cls) -> Client:
        """By HEADGATE_URL, the token of the driver's descriptor or of HEADGATE_TOKEN_FILE, and, if
        they are set, HEADGATE_SIZES (separated by commas) and HEADGATE_CALLS_FILE."""
        token = (
            token_of_pipe()
            or Path(os.environ["HEADGATE_TOKEN_FILE"]).read_text(encoding="utf-8").strip()
        )
        remember(token)
        sizes = [size for size in os.environ.get("HEADGATE_SIZES", "").split(",") if size]
        calls = os.environ.get("HEADGATE_CALLS_FILE")
        return cls(os.environ["HEADGATE_URL"], token, sizes, Path(calls) if calls else None)

    def claim(
        self,
        kinds: Iterable[Kind],
        wait_s: float = WAIT_S,
        without: Collection[str] = (),
        *,
        takes_packages: bool = True,
    ) -> Claim | None:
        """The next attempt of one of these kinds, and of none of the dataflows `without`; of a
        source with packages only if `takes_packages`. None if there was none within `wait_s`.
        Raises Ended."""
        body = {"contract": CONTRACT, "kinds": sorted(kinds), "wait_s": wait_s, **self._sizes}
        if without:
            body["without"] = sorted(without)
        if not takes_packages:
            body["takes_packages"] = False
        answer = self._post("claim", body)
        claim: Claim | None = None if answer.status_code == 204 else answer.json()
        return claim

    def heartbeat(self, attempts: Iterable[str], *, spark: bool = False) -> Heartbeat:
        """Keep the leases of these attempts. `spark`: the start of Spark is over. Raises Ended."""
        message = {"attempts": sorted(attempts)} | ({"spark": True} if spark else {})
        body = self._post("heartbeat", message).json()
        return Heartbeat(tuple(body["fenced"]), bool(body["drain"]))

    def report(
        self, attempt: str, results: Sequence[TaskResult], measures: Measures | None = None
    ) -> Reported:
        """Hand in results; repeating it is harmless. Raises Fenced if the whole attempt is, Ended,
        Refused."""
        message = {
            "attempt": attempt,
            "results": without_secrets(results),
            "measures": measures or {},
        }
        body = self._post("report", message).json()
        return Reported(tuple(body["accepted"]), tuple(body["fenced"]))

    def close(self) -> None:
        """Calls under way, and later ones, raise Ended as soon as they would wait."""
        self._closed.set()

    def _post(self, call: str, body: dict[str, Any]) -> httpx2.Response:
        pause_s = FIRST_PAUSE_S
        while not self._closed.is_set():
            self._note_call()
            try:
                answer = self._http.post(f"/v1/driver/{call}", json=body)
            except httpx2.TransportError:
                answer = None
            if answer is not None and answer.status_code < 500 and answer.status_code != 429:
                return _checked(answer)
            self._closed.wait(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
        raise Ended("closed")

    def _note_call(self) -> None:
        """A process that no longer calls is seen by the age of this file (a liveness probe),
        answered or not."""
        if self._calls is not None:
            # A full disk must not keep results from being reported
            with contextlib.suppress(OSError):
                self._calls.touch()


def _checked(answer: httpx2.Response) -> httpx2.Response:
    match answer.status_code:
        case 200 | 204:
            return answer
        case 401 | 426:
            raise Ended(f"{answer.status_code}: {answer.text[:300]}")
        case 409:
            raise AttemptFenced(answer.text[:300])
        case status:
            raise CallRefused(f"{status}: {answer.text[:300]}")
