"""Sessions of browsers beside tokens of programs: a user shows a token once at sign-in, and has a
random text from then on.

The text is in the browser's cookie only; its SHA-256 is stored, with the id of the token. A session
is over 12 hours after it was last used, 7 days after it began, and as soon as its token is.
"""

from __future__ import annotations

import secrets
from dataclasses import replace
from hashlib import sha256

from controlplane.core.model import namespaces
from controlplane.core.model.access import Token
from controlplane.core.model.browser_sessions import BrowserSession, SessionKind
from controlplane.operations.change_audit import note_change
from controlplane.operations.context import Context
from controlplane.operations.desired import tokens
from controlplane.ports.store import Store, Tx

IDLE_S = 12 * 3600.0
LONGEST_S = 7 * 86_400.0
LINK_S = 300.0
# A session that is used is noted so often; looks at pages should not each write
SEEN_AGAIN_S = 300.0


def begin(store: Store, token: Token) -> str:
    """A new session of this token: the text that opens it, which is never seen again."""
    with store.begin(token.namespace) as tx:
        return _put(tx, token, "session", LONGEST_S)


def link(ctx: Context, token: Token) -> tuple[str, float]:
    """The text that opens a session of this token once, within five minutes, and when it ends. The
    audit says who."""
    with ctx.begin() as tx:
        text = _put(tx, token, "link", LINK_S)
        expires = tx.now() + LINK_S
        after = {"name": token.name, "expires": expires}
        note_change(ctx, tx, "session.link", token.id, after=after)
    return text, expires


def _put(tx: Tx, token: Token, kind: SessionKind, longest_s: float) -> str:
    """Store a new session and drop expired ones, so that the table holds only sessions in use.
    Returns the session's text."""
    text, now = namespaces.text_in(token.namespace, secrets.token_urlsafe(32)), tx.now()
    tx.access.drop_browser_sessions(now)
    ends = now + longest_s if token.expires is None else min(now + longest_s, token.expires)
    tx.access.put_browser_session(
        BrowserSession(_hash(text), token.id, kind, at=now, seen=now, ends=ends)
    )
    return text


def follow(store: Store, text: str) -> Token | None:
    """Use a link up: the token that a session may begin with; None where it is over or was used
    before."""
    with store.begin(namespaces.of_text(text)) as tx:
        token = _token_of(tx, text, "link")
        return token if token is not None and tx.access.drop_browser_session(_hash(text)) else None


def token_of_link(store: Store, text: str) -> Token | None:
    """Whose link this is, without using it up."""
    with store.read(namespaces.of_text(text)) as tx:
        return _token_of(tx, text, "link")


def authenticate(store: Store, text: str) -> Token | None:
    """The live token of the session that this text opens, or None."""
    with store.read(namespaces.of_text(text)) as tx:
        token = _token_of(tx, text, "session")
        session = tx.access.browser_session(_hash(text))
        is_due = session is not None and tx.now() - session.seen > SEEN_AGAIN_S
    if token is not None and is_due:
        _note_seen(store, text)
    return token


def _note_seen(store: Store, text: str) -> None:
    """It may have been ended since."""
    with store.begin(namespaces.of_text(text)) as tx:
        if (session := tx.access.browser_session(_hash(text))) is not None:
            tx.access.put_browser_session(replace(session, seen=tx.now()))


def _token_of(tx: Tx, text: str, kind: SessionKind) -> Token | None:
    session, now = tx.access.browser_session(_hash(text)), tx.now()
    if (
        session is None
        or session.kind != kind
        or session.ends <= now
        or session.seen + IDLE_S <= now
    ):
        return None
    return tokens.live(tx, tx.access.token_by_id(session.token))


def end(store: Store, text: str) -> None:
    """End a session now; nothing happens if it is over. A token from a sign-in at an issuer belongs
    to this session alone, and ends with it."""
    with store.begin(namespaces.of_text(text)) as tx:
        session = tx.access.browser_session(_hash(text))
        token = tx.access.token_by_id(session.token) if session is not None else None
        if token is not None and token.parent.startswith(tokens.LOGIN):
            tx.access.put_token(replace(token, revoked=True))
        tx.access.drop_browser_session(_hash(text))


def use_up(store: Store, text: str, longest_s: float) -> bool:
    """Whether this text, which opens nothing, is used for the first time. It is remembered for so
    long."""
    with store.begin(namespaces.DEFAULT) as tx:
        if tx.access.browser_session(_hash(text)) is not None:
            return False
        now = tx.now()
        tx.access.put_browser_session(
            BrowserSession(_hash(text), "", "used", at=now, seen=now, ends=now + longest_s)
        )
        return True


def _hash(text: str) -> bytes:
    return sha256(text.encode("utf-8", "replace")).digest()
