"""Regular expressions that users write, in an engine whose time is linear in the text: RE2."""

from __future__ import annotations

from collections.abc import Callable

from dataplane.contract.limits import REGEX_BYTES
from dataplane.task_failures import TaskFailure


def full_matcher(text: str) -> Callable[[str], bool]:
    """Whether the whole of a name matches. A name that is not UTF-8 never does. TaskFailure for a
    bad expression."""
    import re2

    options = re2.Options()
    options.max_mem, options.log_errors = REGEX_BYTES, False
    try:
        fullmatch = re2.compile(text, options).fullmatch
    except (re2.error, UnicodeEncodeError) as e:
        raise TaskFailure("invalid-value", f"no regular expression: {text}: {e}") from e

    def is_match(name: str) -> bool:
        try:
            return fullmatch(name) is not None
        except UnicodeEncodeError:
            return False

    return is_match
