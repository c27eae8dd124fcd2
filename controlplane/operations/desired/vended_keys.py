"""Keys of the S3 view that a catalogue gives with a table: for one dataset, for some hours.

Such a key is not stored. Its access key has the id of a token, a scope and the time at which it ends;
its secret is derived from that text, as of other keys, so only a service can make one. It ends with
the token, and reads no more than that token does.
"""

from __future__ import annotations

import binascii
import json
import re
from base64 import b32decode, b32encode

from controlplane.core import scopes
from controlplane.core.errors import BadScope
from controlplane.core.model import namespaces
from controlplane.core.model.access import Token
from controlplane.core.scopes import Scope
from controlplane.operations.desired import tokens
from controlplane.operations.desired.s3_keys import S3Key
from controlplane.ports.store import Store

PREFIX = "hgv1"  # other access keys begin with a hexadecimal digit
LONGEST = 1_000  # characters
_ID = re.compile(r"[a-z0-9-]{1,100}", re.ASCII)


def access_key(token: Token, scope: Scope, expires: float) -> str:
    """`expires`: seconds since 1970."""
    text = json.dumps([token.id, int(expires), str(scope)], separators=(",", ":"))
    return PREFIX + b32encode(text.encode()).decode("ascii").rstrip("=").lower()


def find(store: Store, key: str) -> S3Key | None:
    """The live key with this access key, or None. Its signature is still to be verified."""
    parts = _parts(key)
    if parts is None:
        return None
    id, expires, scope = parts
    namespace = namespaces.of_id(id)
    with store.read(namespace) as tx:
        token = tokens.live(tx, tx.access.token_by_id(id))
        if token is None or expires <= tx.now():
            return None
    standing = token.principal
    return S3Key(token.id, token.name, (scope,), namespace, standing, principal=standing)


def _parts(key: str) -> tuple[str, int, Scope] | None:
    if not key.startswith(PREFIX) or len(key) > LONGEST:
        return None
    text = key.removeprefix(PREFIX).upper()
    try:
        id, expires, scope = json.loads(b32decode(text + "=" * (-len(text) % 8)))
        if type(expires) is not int or not _ID.fullmatch(id):
            return None
        return id, expires, scopes.parse(scope)
    except (binascii.Error, ValueError, TypeError, BadScope, RecursionError):
        return None
