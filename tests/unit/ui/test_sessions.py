"""How long a session of a browser lives, and that a link opens one once."""

from __future__ import annotations

import pytest

from controlplane.core.model.access import Token
from controlplane.operations.context import Context
from controlplane.operations.desired import browser_sessions as sessions
from controlplane.operations.desired import tokens
from controlplane.ports.store import Store
from tests.stores import new_store


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> Store:
    return new_store(clock)


@pytest.fixture
def token(store: Store) -> Token:
    _, made = tokens.create(Context(store), "ada", ("admin",))
    return made


def test_a_session_is_that_of_its_token_and_ends_with_it(store: Store, token: Token) -> None:
    text = sessions.begin(store, token)
    assert sessions.authenticate(store, text) == token
    assert sessions.authenticate(store, text[:-1]) is None
    tokens.revoke(Context(store), token.id)
    assert sessions.authenticate(store, text) is None


def test_a_session_ends_when_it_is_ended(store: Store, token: Token) -> None:
    text, other = sessions.begin(store, token), sessions.begin(store, token)
    sessions.end(store, text)
    assert sessions.authenticate(store, text) is None
    assert sessions.authenticate(store, other) == token


def test_a_session_that_is_not_used_ends_after_twelve_hours(
    store: Store, token: Token, clock: Clock
) -> None:
    text = sessions.begin(store, token)
    for _ in range(3):
        clock.now += sessions.IDLE_S - 1
        assert sessions.authenticate(store, text) == token
    clock.now += sessions.IDLE_S
    assert sessions.authenticate(store, text) is None


def test_a_session_that_is_used_ends_after_seven_days(
    store: Store, token: Token, clock: Clock
) -> None:
    text, began = sessions.begin(store, token), clock.now
    while clock.now + sessions.IDLE_S / 2 < began + sessions.LONGEST_S:
        clock.now += sessions.IDLE_S / 2
        assert sessions.authenticate(store, text) == token
    clock.now = began + sessions.LONGEST_S
    assert sessions.authenticate(store, text) is None


def test_a_session_lives_no_longer_than_its_token(store: Store, clock: Clock) -> None:
    _, brief = tokens.create(Context(store), "brief", ("admin",), ttl_s=60)
    text = sessions.begin(store, brief)
    clock.now += 60
    assert sessions.authenticate(store, text) is None


def test_what_is_over_is_not_kept(store: Store, token: Token, clock: Clock) -> None:
    text = sessions.begin(store, token)
    clock.now += sessions.LONGEST_S + 1
    sessions.begin(store, token)
    with store.read() as tx:
        assert tx.access.browser_session(sessions._hash(text)) is None


def test_a_link_opens_one_session_within_five_minutes(
    store: Store, token: Token, clock: Clock
) -> None:
    ctx = Context(store)
    (text, ends), (late, _) = sessions.link(ctx, token), sessions.link(ctx, token)
    assert ends == clock.now + 300.0
    assert sessions.token_of_link(store, text) == token
    assert sessions.authenticate(store, text) is None, "a link is no session"
    assert sessions.follow(store, text) == token
    assert sessions.follow(store, text) is None
    clock.now += sessions.LINK_S
    assert sessions.follow(store, late) is None


def test_a_link_ends_with_its_token_and_is_in_the_audit(store: Store, token: Token) -> None:
    ctx = Context(store)
    text, _ = sessions.link(ctx, token)
    tokens.revoke(ctx, token.id)
    assert sessions.follow(store, text) is None
    with store.read() as tx:
        assert "session.link" in [change.action for change in tx.audit.changes("main", 10)]
