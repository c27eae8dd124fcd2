"""What the soak of streams calls growth. Does not belong here: a service under load."""

from __future__ import annotations

from benchmarks.stream_soak import MEMORY_BOUND, Samples

SAMPLES = 40


def samples(first_mb: float, growth_mb: float) -> Samples:
    """Memory of a worker that grows by so much with each sample."""
    rows = [{"worker MB": first_mb + growth_mb * number} for number in range(SAMPLES)]
    return Samples(rows)


def test_steady_memory_is_no_growth() -> None:
    assert list(samples(200.0, 0.0).growths()) == []


def test_growth_in_the_first_half_is_a_start() -> None:
    steady = samples(400.0, 0.0)
    for number, row in enumerate(steady.rows[: SAMPLES // 2]):
        row["worker MB"] = 20.0 * number
    assert list(steady.growths()) == []


def test_growth_beyond_the_bound_is_told_with_its_figures() -> None:
    step_mb = 1.5 * MEMORY_BOUND.amount / (SAMPLES / 4)
    (sentence,) = samples(200.0, step_mb).growths()
    assert sentence.startswith("worker MB grows from 317.6 to 365.6 over the second half")


def test_a_table_has_a_row_for_each_sample() -> None:
    lines = list(samples(1_234.5, 0.0).table())
    assert lines[0] == "| worker MB |"
    assert lines[2:] == ["| 1,234.5 |"] * SAMPLES
