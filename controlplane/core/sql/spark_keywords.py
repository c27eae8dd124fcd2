"""Spark's keywords, as phrases, by where they may stand. Frozen: digests rest on these tables.

Almost every keyword of Spark may also name a column, and the case of a name counts. So a phrase is
taken for keywords only where it stands between tokens that leave no other reading. Not here: how
that is decided (`scan`).
"""

from __future__ import annotations

from typing import Final


def _phrases(text: str) -> frozenset[str]:
    """Phrases between bars or on lines of their own."""
    return frozenset(
        phrase for line in text.split("\n") if line.strip() for phrase in line.strip().split("|")
    )


# After an operand, with another to follow.
INFIX: Final = _phrases(
    """
    FROM|WHERE|GROUP BY|ORDER BY|SORT BY|CLUSTER BY|DISTRIBUTE BY|HAVING|LIMIT|OFFSET|ON|USING|AS|AND|OR|IN|NOT IN
    LIKE|NOT LIKE|RLIKE|NOT RLIKE|ILIKE|NOT ILIKE|REGEXP|NOT REGEXP|BETWEEN|NOT BETWEEN
    IS DISTINCT FROM|IS NOT DISTINCT FROM|WHEN|THEN|ELSE|OVER|LATERAL VIEW|LATERAL VIEW OUTER|TABLESAMPLE
    PIVOT|UNPIVOT|FOR|QUALIFY|WINDOW|DIV|FILTER|WITHIN GROUP
    JOIN|INNER JOIN|CROSS JOIN|LEFT JOIN|LEFT OUTER JOIN|LEFT SEMI JOIN|LEFT ANTI JOIN|SEMI JOIN|ANTI JOIN
    RIGHT JOIN|RIGHT OUTER JOIN|FULL JOIN|FULL OUTER JOIN|NATURAL JOIN|NATURAL LEFT JOIN|NATURAL INNER JOIN
    UNION|UNION ALL|UNION DISTINCT|EXCEPT|EXCEPT ALL|EXCEPT DISTINCT|INTERSECT|INTERSECT ALL|INTERSECT DISTINCT
    MINUS|MINUS ALL|ROWS BETWEEN|RANGE BETWEEN|SELECT|SELECT DISTINCT
    """
)

# In place of an operand, with one to follow.
PREFIX: Final = _phrases(
    """
    SELECT|SELECT DISTINCT|DISTINCT|NOT|NOT EXISTS|EXISTS|CASE|CASE WHEN|PARTITION BY|ORDER BY|SORT BY
    WITH|WITH RECURSIVE|LATERAL|VALUES|ROWS BETWEEN|RANGE BETWEEN|GROUPING SETS|CUBE|ROLLUP
    """
)

# In place of an operand, before a literal only.
TYPED: Final = _phrases("DATE|TIMESTAMP|TIMESTAMP_NTZ|TIMESTAMP_LTZ|INTERVAL")

# An operand.
ATOM: Final = _phrases("NULL|TRUE|FALSE|CURRENT ROW|UNBOUNDED PRECEDING|UNBOUNDED FOLLOWING")

# After an operand, and the two together are one.
SORTING: Final = _phrases(
    "ASC|ASC NULLS FIRST|ASC NULLS LAST|DESC|DESC NULLS FIRST|DESC NULLS LAST|NULLS FIRST|NULLS LAST"
)
POSTFIX: Final = SORTING | _phrases(
    """
    IS NULL|IS NOT NULL|IS TRUE|IS NOT TRUE|IS FALSE|IS NOT FALSE|IS UNKNOWN|IS NOT UNKNOWN
    END|WITH ROLLUP|WITH CUBE
    """
)

PHRASES: Final = INFIX | PREFIX | TYPED | ATOM | POSTFIX
LEADS: Final = INFIX | PREFIX  # a name that is one of these leaves open what follows it
LONGEST: Final = max(phrase.count(" ") + 1 for phrase in PHRASES)

CLAUSES: Final = _phrases(
    """
    SELECT|SELECT DISTINCT|FROM|WHERE|GROUP BY|ORDER BY|SORT BY|CLUSTER BY|DISTRIBUTE BY|HAVING|LIMIT|OFFSET
    WITH|WITH RECURSIVE|LATERAL VIEW|LATERAL VIEW OUTER|WINDOW|QUALIFY|PARTITION BY
    """
)
# They hold lists of names
NAMING: Final = _phrases("WITH|WITH RECURSIVE|LATERAL VIEW|LATERAL VIEW OUTER|WINDOW")

NAMERS: Final = _phrases("WITH|RECURSIVE|WINDOW")  # the next word is always a name

# No operand begins with these, so the word before one of them is a name.
STOPS: Final = _phrases(
    """
    FROM|WHERE|GROUP|ORDER|SORT|CLUSTER|DISTRIBUTE|HAVING|LIMIT|OFFSET|UNION|EXCEPT|INTERSECT|MINUS
    AS|ON|USING|JOIN|AND|OR|IS|IN|LIKE|BETWEEN|THEN|WHEN|ELSE|END
    """
)

# After AS in a cast, and after `::`.
TYPES: Final = _phrases(
    """
    ARRAY|BIGINT|BINARY|BOOLEAN|BYTE|CHAR|CHARACTER|DATE|DEC|DECIMAL|DOUBLE|FLOAT|INT|INTEGER|INTERVAL|LONG|MAP
    NUMERIC|REAL|SHORT|SMALLINT|STRING|STRUCT|TIMESTAMP|TIMESTAMP_LTZ|TIMESTAMP_NTZ|TINYINT|VARCHAR|VARIANT
    """
)
