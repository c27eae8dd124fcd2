"""How requests are written: paths, names in them, and parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias, cast
from urllib.parse import quote

from controlplane.core.model.addresses import Generation, Moment, named

if TYPE_CHECKING:
    from controlplane.core.rest import Route

PARAMETER = re.compile(r"\{(\w+)\}")
Query: TypeAlias = Mapping[str, str | int | Sequence[str]]
Time: TypeAlias = str | datetime  # with a zone


def request_parts(
    route: Route[Any], arguments: Mapping[str, object]
) -> tuple[str, Query, Mapping[str, object] | None]:
    """Path, query and body of a request. None in a query is left out; in a body it is sent. POST
    and PUT always have a body."""
    body = dict(arguments)
    path = PARAMETER.sub(lambda match: segment(str(body.pop(match[1]))), route.path)
    query = {name: body.pop(name) for name in route.query if name in body}
    takes_body = route.method in ("POST", "PUT")
    if body and not takes_body:
        raise TypeError(f"{route.method} {route.path} takes no {', '.join(body)}")
    parameters = {name: _query_value(value) for name, value in query.items() if value is not None}
    return path, parameters, body if takes_body else None


def _query_value(value: object) -> str | int | Sequence[str]:
    match value:
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case _:
            return cast("str | int | Sequence[str]", value)


def refreshing(timeout_s: float | None) -> dict[str, str | int]:
    return {} if timeout_s is None else {"refresh": "true", "timeout_s": f"{timeout_s:g}"}


def match_of(revision: int | None) -> dict[str, str]:
    if revision is None:
        return {}
    return {"If-Match": f'"{revision}"'} if revision else {"If-None-Match": "*"}


def state_of(name: str, generation: int | None, at: Time | None) -> dict[str, str | int]:
    """Arguments of a route for a dataset that an address may name, and the state of it that is
    meant."""
    address = named(name, generation, at)
    match address.point:
        case Generation(number):
            return {"dataset": address.name, "generation": number}
        case Moment() as moment:
            return {"dataset": address.name, "at": str(moment)}
        case None:
            return {"dataset": address.name}


def segment(text: str) -> str:
    """One segment of a path, from any text."""
    return quote(text, safe="").replace(".", "%2E") if text in (".", "..") else quote(text, safe="")
