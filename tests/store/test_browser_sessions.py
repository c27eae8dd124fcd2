"""Sessions of browsers, in every store."""

from __future__ import annotations

from dataclasses import replace

from tests.store.conftest import World
from tests.store.examples import browser_session, d


def test_a_session_is_there_until_it_is_dropped(world: World) -> None:
    used = replace(browser_session(1), seen=1500.0)
    with world.begin() as tx:
        tx.access.put_browser_session(browser_session(1))
        tx.access.put_browser_session(browser_session(2, kind="link"))
        tx.access.put_browser_session(used)
    with world.begin() as tx:
        assert tx.access.browser_session(d(1)) == used
        assert tx.access.browser_session(d(3)) is None
        assert tx.access.drop_browser_session(d(1))
        assert not tx.access.drop_browser_session(d(1))
    with world.read() as tx:
        assert tx.access.browser_session(d(1)) is None
        assert tx.access.browser_session(d(2)) == browser_session(2, kind="link")


def test_only_what_ended_before_goes(world: World) -> None:
    with world.begin() as tx:
        tx.access.put_browser_session(browser_session(1, ends=1000.0))
        tx.access.put_browser_session(browser_session(2, ends=999.0))
        tx.access.drop_browser_sessions(1000.0)
    with world.read() as tx:
        assert tx.access.browser_session(d(1)) is not None
        assert tx.access.browser_session(d(2)) is None
