"""The corpus of queries, those with verdicts, and ways to rewrite a query that must not change what
it is."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from controlplane.core.sql import OutputKeyPart
from controlplane.core.sql.lexer import tokenize

CORPUS: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "corpus.yaml").read_text())
VERDICTS: list[dict[str, Any]] = yaml.safe_load(
    (Path(__file__).parent / "verdicts.yaml").read_text()
)
TPCH: list[dict[str, Any]] = yaml.safe_load((Path(__file__).parent / "tpch.yaml").read_text())
TEXTS: list[str] = [entry["sql"] for entry in CORPUS]


def parts_of(known: Mapping[str, Any]) -> tuple[OutputKeyPart, ...]:
    """What the output of a query with verdicts is to be partitioned by."""
    found = [one if isinstance(one, dict) else {one: ""} for one in known.get("by", ())]
    return tuple(OutputKeyPart(name, granule) for one in found for name, granule in one.items())


_GAPS = st.sampled_from(
    [
        " ",
        "\n",
        "\t",
        "\r\n",
        " /* a 'b */ ",
        " -- it's\n",
        " /* /* in */ */",
        "\u00a0",
        " -- x\\\ny\n ",
    ]
)


@st.composite
def respaced(draw: st.DrawFn) -> tuple[str, str]:
    """A query of the corpus, and the same with other gaps between its tokens."""
    text = draw(st.sampled_from(TEXTS))
    tokens = tokenize(text)
    out = draw(st.one_of(st.just(""), _GAPS))
    for token, following in pairwise((*tokens, None)):
        assert token is not None
        needs_gap = following is not None and following.start > token.end
        out += token.text + draw(_GAPS if needs_gap else st.just(""))
    return text, out + draw(st.sampled_from(["", ";", " ; -- end", "\n;;"]))


_PIECES = """
SELECT FROM WHERE GROUP BY ORDER LIMIT JOIN LEFT ON USING AS WITH UNION ALL CASE WHEN END NOT NULL IN EXISTS OVER
LATERAL VIEW explode count sum f g a b.c * , ( ) . : :: -> => 1 .5 'x' "y" `z` /*+ */ /* -- ; $ { } [ ] | |> < =
TABLESAMPLE PIVOT VALUES INTERVAL DATE _metadata now() ${x} ? \\ ' ` é
"""


def soup() -> st.SearchStrategy[str]:
    """Text that looks like SQL for a while."""
    return st.lists(st.sampled_from(["\n", *_PIECES.split()]), max_size=25).map(" ".join)
