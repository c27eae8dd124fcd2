"""The Python SDK: one method per call of the REST API. Errors come as ApiError with the server's problem.

with Headgate("http://127.0.0.1:8420", token) as headgate:
    headgate.apply([{"name": "/data/flights.yaml", "text": text}])
    headgate.status()["state"]
"""

from __future__ import annotations

from controlplane.client.access import Access
from controlplane.client.branches import Branches
from controlplane.client.connection import ApiError
from controlplane.client.dataflows import Dataflows, Document
from controlplane.client.datasets import Datasets
from controlplane.client.exploring import Exploring
from controlplane.client.operating import Operating
from controlplane.client.queries import Queries
from controlplane.client.records import ChangeStream, Records
from controlplane.client.requests import Time
from controlplane.client.sharing import Sharing
from controlplane.client.work import Work

__all__ = ["ApiError", "ChangeStream", "Document", "Headgate", "Time"]


class Headgate(Dataflows, Branches, Datasets, Work, Exploring, Records, Queries, Sharing, Operating, Access):
    """A connection to one control plane. Safe to use from several threads."""
