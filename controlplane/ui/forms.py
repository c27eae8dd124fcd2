"""What a form of a page brings. Does not belong here: what is done about it."""

from __future__ import annotations

from urllib.parse import parse_qs

from starlette.requests import Request

FORM_BYTES = 10_000
MOST_FIELDS = 20


async def fields_of(request: Request, most_bytes: int = FORM_BYTES) -> dict[str, str]:
    """Of an urlencoded form; of a larger body nothing. What it says stays known as `request.state.form`."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > most_bytes:
            return {}
    try:
        found = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError:
        return {}
    fields = {name: values[0] for name, values in found.items()}
    request.state.form = " ".join(fields.values())
    return fields


def own_path(text: str) -> str:
    """A path of our own to go on to; anything else is home. A browser reads `//` and a backslash as another host."""
    is_own = text.startswith("/") and not text.startswith("//") and "\\" not in text and text.isprintable()
    return text if is_own and len(text) < 2000 else "/"
