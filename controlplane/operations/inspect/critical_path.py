"""The critical path of a run: the datasets whose work decided when the run ended. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def critical_path(ends: Mapping[str, float], inputs: Mapping[str, Iterable[str]]) -> list[str]:
    """Datasets in the order of their work. The last one is the dataset that ended last. Before each
    dataset stands the input that it waited for: of its inputs with work, the one that ended last.

    `ends`: when the work of each dataset ended. `inputs`: the datasets that each of them reads.
    """
    if not ends:
        return []
    path = [_last(ends, ends)]
    while earlier := _earlier(path, ends, inputs):
        path.append(_last(ends, earlier))
    return path[::-1]


def _earlier(
    path: list[str], ends: Mapping[str, float], inputs: Mapping[str, Iterable[str]]
) -> list[str]:
    """Inputs of the last dataset of the path that had work, and ended before it did."""
    dataset = path[-1]
    read = [name for name in inputs.get(dataset, ()) if name in ends and name not in path]
    return [name for name in read if ends[name] <= ends[dataset]]


def _last(ends: Mapping[str, float], names: Iterable[str]) -> str:
    return max(sorted(names), key=ends.__getitem__)
