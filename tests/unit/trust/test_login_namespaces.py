"""People sign in to namespaces of their own, and see nothing of others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from controlplane.operations.desired import namespaces, tokens, trust
from controlplane.ui import gate, sign_on
from tests.unit.trust.test_login import ADA, ADMINS, arrived, is_in
from tests.unit.trust.world import Trusting


@pytest.fixture
def browser(place: Trusting) -> Iterator[httpx2.Client]:
    place.issuer.person = ADA
    for name in ("team-a", "team-b"):
        namespaces.create(place.context, name)
    with place.http() as http:
        yield http


def unfinished(http: httpx2.Client, **asked: str) -> httpx2.Response:
    """There and back."""
    answer = http.get("/login/start", params=asked)
    return http.get(arrived(answer.headers["location"]))


def tokens_seen(http: httpx2.Client) -> list[str]:
    return [one["name"] for one in http.get("/v1/tokens").json()["items"]]


def test_a_session_is_of_the_namespace_that_was_chosen(
    place: Trusting, browser: httpx2.Client
) -> None:
    place.trust("admins", "login", ADMINS, ["admin"], namespace="team-a")
    answer = unfinished(browser, next="/settings/tokens", namespace="team-a")
    assert (answer.status_code, answer.headers["location"]) == (303, "/settings/tokens")
    assert tokens_seen(browser) == ["ada@acme.com"], "and not the administrator of default"
    page = browser.get("/settings/tokens")
    assert (page.status_code, "ada@acme.com" in page.text, ">ada<" in page.text) == (
        200,
        True,
        False,
    )
    assert browser.get("/v1/namespaces").status_code == 403
    with place.services.store.read("team-a") as tx:
        assert [(c.actor, c.action) for c in tx.audit.changes("main", 1)] == [
            ("ada@acme.com", "session.login")
        ]
    assert place.audit("session.login") == []


@pytest.mark.hostile
@pytest.mark.parametrize(
    "namespace", ["", "default", "team-b", "team-z", "../team-a", "TEAM-A", "team-a.x", "x" * 500]
)
def test_a_rule_opens_its_own_namespace_alone(
    place: Trusting, browser: httpx2.Client, namespace: str
) -> None:
    """And whether there is another one is not told."""
    place.trust("admins", "login", ADMINS, ["admin"], namespace="team-a")
    answer = unfinished(browser, namespace=namespace)
    assert answer.status_code == 403
    assert "no rule gives a role" in answer.text
    assert not is_in(browser)
    for name in ("team-b", "team-z"):
        with place.services.store.read(name) as tx:
            assert not tx.access.tokens()


@pytest.mark.hostile
def test_an_answer_of_the_issuer_opens_the_namespace_that_it_was_asked_for(
    place: Trusting, browser: httpx2.Client
) -> None:
    for name in ("team-a", "team-b"):
        place.trust("admins", "login", ADMINS, ["admin"], namespace=name)
    address = arrived(
        browser.get("/login/start", params={"namespace": "team-a"}).headers["location"]
    )
    kept = browser.cookies[sign_on.COOKIE]
    browser.cookies.clear()
    browser.cookies.set(sign_on.COOKIE, kept.replace("team-a", "team-b"))
    assert browser.get(address).status_code == 400
    assert not is_in(browser)


def test_the_page_asks_for_the_namespace_where_there_are_several(
    place: Trusting, browser: httpx2.Client
) -> None:
    plain, chosen = (
        browser.get("/login", params=asked).text
        for asked in ({"next": "/flows"}, {"namespace": "team-b"})
    )
    assert 'name="namespace" value="default"' in plain
    assert "/login/start?next=%2Fflows" in plain
    assert 'name="namespace" value="team-b"' in chosen
    assert "Sign in with Acme ID to team-b" in chosen
    assert "/login/start?next=%2F&amp;namespace=team-b" in chosen
    assert all("team-a" not in page for page in (plain, chosen)), "nobody is told which there are"
    odd = browser.get("/login", params={"namespace": '"><script>'}).text
    assert 'name="namespace" value="default"' in odd


def test_a_service_with_one_namespace_asks_for_none(place: Trusting) -> None:
    with place.http() as http:
        assert 'name="namespace"' not in http.get("/login").text


def test_the_namespace_of_the_last_session_is_proposed(
    place: Trusting, browser: httpx2.Client
) -> None:
    place.trust("admins", "login", ADMINS, ["admin"], namespace="team-a")
    unfinished(browser, namespace="team-a")
    tokens.revoke(replace(place.context, namespace="team-a"), "ada@acme.com")
    assert not is_in(browser)
    page = browser.get("/login").text
    assert 'name="namespace" value="team-a"' in page
    (start,) = [part for part in page.split('"') if part.startswith("/login/start")]
    assert parse_qs(urlsplit(start.replace("&amp;", "&")).query)["namespace"] == ["team-a"]
    assert browser.get(arrived(browser.get("/login/start").headers["location"])).status_code == 303
    assert is_in(browser)


def test_a_session_ends_with_the_rule_of_its_namespace(
    place: Trusting, browser: httpx2.Client
) -> None:
    for name in ("default", "team-a"):
        place.trust("admins", "login", ADMINS, ["admin"], namespace=name)
    unfinished(browser, namespace="team-a")
    trust.delete(place.context, "admins")
    assert is_in(browser), "the rule of default is another one"
    trust.delete(replace(place.context, namespace="team-a"), "admins")
    assert not is_in(browser)


def test_who_is_refused_is_asked_again_for_the_same_namespace(
    place: Trusting, browser: httpx2.Client
) -> None:
    answer = unfinished(browser, next="/flows", namespace="team-b")
    assert (answer.status_code, "no rule gives a role in namespace team-b" in answer.text) == (
        403,
        True,
    )
    assert "/login/start?next=%2Fflows&amp;namespace=team-b" in answer.text
    assert gate.COOKIE not in browser.cookies
