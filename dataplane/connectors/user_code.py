"""Code of users that connectors call: its arguments, and errors that name its lines."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from dataplane.task_failures import TaskFailure

if TYPE_CHECKING:
    from dataplane.transform.bundle import Bundle


@contextmanager
def telling(bundle: Bundle) -> Iterator[None]:
    """Raise exceptions of the user's code as a TaskFailure that names its lines."""
    try:
        yield
    except TaskFailure:
        raise
    except (Exception, SystemExit) as e:
        raise _failure(e, bundle) from e


def _failure(error: BaseException, bundle: Bundle) -> TaskFailure:
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename in bundle.files]
    places = [f"{bundle.files[f.filename]}:{f.lineno} in {f.name}" for f in frames]
    words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    file = bundle.files[frames[-1].filename] if frames else None
    return TaskFailure(type(error).__name__, " <- ".join([words, *reversed(places)]), file=file)
