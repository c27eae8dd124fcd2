"""The effect of an edit of blueprints on readers of the data, before anything is computed.

A review compares the nodes before an edit with those after it: texts, logic, columns, and what
breaks. Pure. Does not belong here: which tasks will run (plan), where facts come from
(operations.planning.edit_review).
"""

from __future__ import annotations

from controlplane.core.review.review import review
from controlplane.core.review.review_values import (
    NOTHING_CHANGED,
    AnalyseRequest,
    Break,
    ColumnChanges,
    ComponentReview,
    KnownFacts,
    Retyped,
    Review,
)

__all__ = [
    "NOTHING_CHANGED",
    "AnalyseRequest",
    "Break",
    "ColumnChanges",
    "ComponentReview",
    "KnownFacts",
    "Retyped",
    "Review",
    "review",
]
