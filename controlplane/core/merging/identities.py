"""Which uid each component of a new revision has. Pure.

A component keeps its uid for life: while it is there, when it comes back under its name, and when
it gets another name and says the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from controlplane.core.merging.spans import Meaning
from controlplane.core.model.revisions import edition_of, without_edition


def assigned(
    names: Iterable[str],
    live: Mapping[str, str],
    earlier: Mapping[str, str],
    renames: Mapping[str, str],
    *,
    brought: Mapping[str, str],
    new: Callable[[], str],
) -> dict[str, str]:
    """Uids by name. `live`: of the revision before; `earlier`: of all that there ever were;
    `renames`: new names to old ones; `brought`: those that a merge assigned. No two components have
    the same."""
    components = list(names)
    uids = {name: brought.get(name) or live.get(name, "") for name in components}
    for name in components:
        uid = earlier.get(name, "")
        if not uids[name] and uid not in uids.values():
            uids[name] = uid
    for name in components:
        uid = live.get(renames.get(name, ""), "")
        if not uids[name] and uid not in uids.values():
            uids[name] = uid
    return {name: uid or new() for name, uid in uids.items()}


def is_raised(before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    """Whether a component that stays is of a later edition afterwards."""
    common = [(uid, after[name]) for name, uid in before.items() if name in after]
    return any(
        edition_of(new) > edition_of(uid)
        for uid, new in common
        if without_edition(new) == without_edition(uid)
    )


def newest(*sides: Mapping[str, str]) -> dict[str, str]:
    """Uids by their part without edition, each in the newest edition that a side has."""
    uids = sorted((uid for side in sides for uid in side.values()), key=edition_of)
    return {without_edition(uid): uid for uid in uids}


def renames(before: Mapping[str, Meaning], after: Mapping[str, Meaning]) -> dict[str, str]:
    """New names to old ones, of components that say the same under both. What could be two renames
    is none."""
    removed = {name: meaning for name, meaning in before.items() if name not in after}
    come = {name: meaning for name, meaning in after.items() if name not in before}
    if not removed or not come:
        return {}
    pairs = [
        (new, old)
        for new, meaning in come.items()
        for old, other in removed.items()
        if meaning == other
    ]
    olds, news = [old for _, old in pairs], [new for new, _ in pairs]
    return {new: old for new, old in pairs if olds.count(old) == 1 and news.count(new) == 1}
