"""The Python SDK: one method per call of the REST API. Errors come as ApiError with the server's
problem.

with Headgate("http://127.0.0.1:8420", token) as headgate:
    headgate.apply([{"name": "/data/flights.yaml", "text": text}])
    headgate.status()["state"]
"""

from __future__ import annotations

from controlplane.client.access import AccessCalls
from controlplane.client.branches import BranchCalls
from controlplane.client.connection import ApiError
from controlplane.client.dataflows import DataflowCalls, Document
from controlplane.client.datasets import DatasetCalls
from controlplane.client.exploring import ExploreCalls
from controlplane.client.operating import OperateCalls
from controlplane.client.queries import QueryCalls
from controlplane.client.records import ChangeStream, RecordCalls
from controlplane.client.requests import Time
from controlplane.client.sharing import SharingCalls
from controlplane.client.work import WorkCalls

__all__ = ["ApiError", "ChangeStream", "Document", "Headgate", "Time"]


class Headgate(
    DataflowCalls,
    BranchCalls,
    DatasetCalls,
    WorkCalls,
    ExploreCalls,
    RecordCalls,
    QueryCalls,
    SharingCalls,
    OperateCalls,
    AccessCalls,
):
    """A connection to one control plane. Safe to use from several threads."""
