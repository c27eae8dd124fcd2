"""The fields of a form, and addresses of ours made from those of a request."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import parse_qs, quote, urlencode

from starlette.requests import Request

FORM_BYTES = 10_000
MOST_FIELDS = 20


async def fields_of(request: Request, most_bytes: int = FORM_BYTES) -> dict[str, str]:
    """The fields of an urlencoded form; none of a larger body. Their texts are kept as
    `request.state.form`."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > most_bytes:
            return {}
    try:
        values_by_name = parse_qs(
            body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MOST_FIELDS
        )
    except ValueError:
        return {}
    fields = {name: values[0] for name, values in values_by_name.items()}
    request.state.form = " ".join(fields.values())
    return fields


def own_path(text: str) -> str:
    """A path of our own to go on to; anything else is home. A browser reads `//` and a backslash as
    another host."""
    is_own = (
        text.startswith("/")
        and not text.startswith("//")
        and "\\" not in text
        and text.isprintable()
    )
    return text if is_own and len(text) < 2000 else "/"


def own_address(request: Request, *, without: Collection[str] = (), **fields: str) -> str:
    """The path and query of a request for a link, without some fields of the query and with others.
    Whatever the path is, a browser reads no other host in it: it begins with one slash, and its
    characters are encoded."""
    path = "/" + quote(request.scope["path"].lstrip("/"))
    query = [(k, v) for k, v in request.query_params.multi_items() if k not in {*without, *fields}]
    text = urlencode([*query, *fields.items()])
    return f"{path}?{text}" if text else path
