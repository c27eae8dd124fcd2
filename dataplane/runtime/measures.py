"""The resources that an attempt took, for its report."""

from __future__ import annotations

from dataplane.contract.claims import Claim
from dataplane.contract.results import Measures


def measured(claim: Claim, seconds: float) -> Measures:
    """An earlier control plane does not say how much a claim reads."""
    measures: Measures = {"seconds": round(seconds, 3)}
    if "reads_bytes" in claim:
        measures["bytes_read"] = claim["reads_bytes"]
    return measures
