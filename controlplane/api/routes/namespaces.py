"""Making, listing and deleting namespaces. For administrators of the installation: their tokens are
of `default`."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Response
from pydantic import Field

from controlplane.api import auth
from controlplane.api.calls import Called, ClosedBody, JsonAnswer, answer
from controlplane.core import rest
from controlplane.core.model.answers.namespaces import NamespaceEntry, NamespacesAnswer
from controlplane.operations.desired import namespaces

router = auth.router("admin")
Name = Annotated[str, Path(max_length=100)]


class NewNamespace(ClosedBody):
    """One without dataflows."""

    name: str = Field(min_length=1, max_length=100)


@router.answers(rest.CREATE_NAMESPACE)
def create(call: Called, new: NewNamespace) -> JsonAnswer[NamespaceEntry]:
    """Make a namespace. Its first token is made by `POST /v1/tokens` with `namespace`."""
    return call.once(lambda: answer(namespaces.create(call.context, new.name), 201))


@router.answers(rest.NAMESPACES)
def listing(call: Called) -> JsonAnswer[NamespacesAnswer]:
    """All namespaces, `default` first."""
    return answer({"items": namespaces.listing(call.context), "next": None})


@router.answers(rest.NAMESPACE)
def show(call: Called, namespace: Name) -> JsonAnswer[NamespaceEntry]:
    """One namespace."""
    return answer(namespaces.show(call.context, namespace))


@router.responds(rest.DELETE_NAMESPACE)
def delete(call: Called, namespace: Name) -> Response:
    """End a namespace without dataflows: its tokens, its audit, and what it has in the lake."""
    namespaces.delete(call.context, namespace, call.services.lake)
    return Response(status_code=204)
