"""Addresses of stores that a component declares: which are read, and for which of them the own keys
of this process sign."""

from __future__ import annotations

import os
import re

from dataplane.contract.jobs import ConnectorJob
from dataplane.lakes.lake_addresses import endpoint_of
from dataplane.storage.refused_places import SOURCES, Places
from dataplane.storage.source_stores import StoreAccess
from dataplane.task_failures import TaskFailure

# No other name below amazonaws.com: a customer chooses those of load balancers
_REGION = r"[a-z]{2}(?:-[a-z]+)+-[0-9]"
_AWS_S3 = re.compile(
    rf"https://s3(?:-fips)?(?:\.dualstack)?(?:\.{_REGION})?\.amazonaws\.com(?:\.cn)?"
)


def access_of(job: ConnectorJob) -> StoreAccess:
    """As a component declares it. TaskFailure for a secret without a value, and as
    `check_own_keys`."""
    access = StoreAccess.declared(job)
    if not access.access_key_id:
        check_own_keys(access.endpoint)
    return access


def check_own_keys(endpoint: str) -> None:
    """TaskFailure where keys of this process would sign for a server that an author or a catalogue
    chose: it would see the session token."""
    if _is_of_the_operator(endpoint):
        return
    message = f"the own keys of this worker sign for no store at {endpoint}"
    hint = f"give keys in `storage`, or have the operator add the address to {SOURCES}"
    raise TaskFailure("place-refused", f"{message}: {hint}")


def check_address(endpoint: str) -> None:
    """TaskFailure for a server that the operator's allow list does not name, where there is one."""
    if Places.of(os.environ).allowed is None or _is_of_the_operator(endpoint):
        return
    message = f"{SOURCES} does not name the store at {endpoint}"
    raise TaskFailure("place-refused", f"{message}: ask the operator to add it there")


def _is_of_the_operator(endpoint: str) -> bool:
    address = endpoint.rstrip("/")
    if address in ("", endpoint_of(os.environ).rstrip("/")) or _AWS_S3.fullmatch(address):
        return True
    return Places.of(os.environ).names_address(address)
