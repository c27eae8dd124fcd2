"""Rules of trust, and the tokens that they opened."""

from __future__ import annotations

from tests.store.conftest import World
from tests.store.examples import token, trust_rule


def test_rules_are_kept_as_they_were_put(world: World) -> None:
    with world.begin() as tx:
        tx.access.put_trust_rule(trust_rule("b"))
        tx.access.put_trust_rule(trust_rule("a"))
        tx.access.put_trust_rule(trust_rule("b", id="another", use="login", audience=""))
    with world.read() as tx:
        assert tx.access.trust_rules() == (
            trust_rule("a"),
            trust_rule("b", id="another", use="login", audience=""),
        )
        assert [tx.access.has_trust_rule(id) for id in ("id of a", "id of b", "another", "a")] == [
            True,
            False,
            True,
            False,
        ]
    with world.begin() as tx:
        tx.access.drop_trust_rule(trust_rule("a"))
    with world.read() as tx:
        assert [rule.name for rule in tx.access.trust_rules()] == ["b"]
        assert not tx.access.has_trust_rule("id of a")


def test_tokens_of_one_kind_of_parent_go_after_their_end(world: World) -> None:
    children = {
        "over": token("over", parent="trust:x", expires=9.0),
        "of another rule": token("of another rule", parent="trust:y", expires=9.0),
        "later": token("later", parent="trust:x", expires=10.0),
        "of people": token("of people", parent="login:x", expires=9.0),
        "without an end": token("without an end", parent="trust:x", expires=None),
        "alone": token("alone", expires=9.0),
    }
    with world.begin() as tx:
        for one in children.values():
            tx.access.put_token(one)
        tx.access.drop_children("trust:", 10.0)
    with world.read() as tx:
        assert {one.id for one in tx.access.tokens()} == set(children) - {"over", "of another rule"}
