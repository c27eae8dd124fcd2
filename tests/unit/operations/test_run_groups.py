"""Which commits are one run: by what started them, whenever they came."""

from __future__ import annotations

from itertools import count

from controlplane.core.model.states import Consumed, State
from controlplane.core.runs import Run, RunCommit, commits_of, runs
from tests.store.examples import d, state

ORDER = {
    name: place for place, name in enumerate(("a.left", "a.right", "a.both", "a.all", "b.more"))
}


class History:
    """States as they come to be, one a second."""

    def __init__(self) -> None:
        self.states: dict[str, list[State]] = {}
        self._clock = count(1000)

    def commit(self, dataset: str, root: int, *reads: str, code: int = 1, **other: object) -> None:
        """With the present roots of what it reads."""
        inputs = {name: Consumed(name, self.states[name][0].root, b"") for name in reads}
        known = self.states.setdefault(dataset, [])
        made = state(
            len(known) + 1, dataset, root=d(root), inputs=inputs, revision=code, lineage=d(code)
        )
        fields: dict[str, object] = {"at": float(next(self._clock)), **other}
        known.insert(0, State(**{name: getattr(made, name) for name in made.__slots__} | fields))

    def first(self) -> None:
        self.commit("a.left", 1)
        self.commit("a.right", 2)
        self.commit("a.both", 3, "a.left", "a.right")
        self.commit("a.all", 4, "a.both")

    def runs(self) -> list[Run]:
        return runs(commits_of(self.states), ORDER)

    def told(self) -> dict[str, list[str]]:
        return {run.id: [f"{c.dataset}:{c.seq}" for c in run.commits] for run in self.runs()}


def test_a_first_run_is_one_for_all_that_the_revision_brought() -> None:
    past = History()
    past.first()
    assert past.told() == {"a.rev1": ["a.left:1", "a.right:1", "a.both:1", "a.all:1"]}


def test_a_late_file_has_what_it_reached() -> None:
    past = History()
    past.first()
    past.commit("a.left", 11)
    past.commit("a.both", 13, "a.left", "a.right")
    assert past.told()["a.left:2"] == ["a.left:2", "a.both:2"]


def test_two_files_at_a_time_are_two_runs_until_something_reads_both() -> None:
    past = History()
    past.first()
    past.commit("a.left", 11)
    past.commit("a.right", 12)
    assert list(past.told()) == ["a.rev1", "a.left:2", "a.right:2"]
    past.commit("a.both", 13, "a.left", "a.right")
    assert past.told()["a.left:2"] == ["a.left:2", "a.right:2", "a.both:2"]
    assert list(past.told()) == ["a.rev1", "a.left:2"]


def test_a_slow_dataset_belongs_to_what_it_read_last() -> None:
    past = History()
    past.first()
    past.commit("a.left", 11)
    past.commit("a.left", 12)
    past.commit("a.both", 13, "a.left", "a.right")
    assert past.told()["a.left:2"] == ["a.left:2"]
    assert past.told()["a.left:3"] == ["a.left:3", "a.both:2"]


def test_what_a_run_leads_to_twice_is_in_it_twice() -> None:
    past = History()
    past.first()
    past.commit("a.left", 11)
    past.commit("a.all", 14, "a.both", "a.left")
    past.commit("a.both", 13, "a.left", "a.right")
    past.commit("a.all", 15, "a.both", "a.left")
    assert past.told()["a.left:2"] == ["a.left:2", "a.all:2", "a.both:2", "a.all:3"]


def test_what_arrives_while_a_run_is_under_way_is_one_run() -> None:
    past = History()
    past.first()
    past.commit("a.left", 11)
    past.commit("a.left", 12)
    past.commit("a.right", 21)
    before = {
        **past.states,
        "a.left": past.states["a.left"][1:],
        "a.right": past.states["a.right"][1:],
    }
    now, past.states = past.states, before
    past.commit("a.both", 13, "a.left", "a.right")  # of the first of them
    past.states = {**now, "a.both": past.states["a.both"]}
    past.commit("a.left", 14)
    past.commit("a.both", 15, "a.left", "a.right")
    assert past.told()["a.left:2"] == ["a.left:2", "a.both:2"]
    assert past.told()["a.left:3"] == ["a.left:3", "a.right:2", "a.left:4", "a.both:3"]
    [last] = [run for run in past.runs() if run.id == "a.left:3"]
    assert [f"{c.dataset}:{c.seq}" for c in last.started_by] == [
        "a.left:3",
        "a.right:2",
        "a.left:4",
    ]


def test_rows_that_were_taken_out_belong_to_the_run_of_their_dataset() -> None:
    past = History()
    past.first()
    listing = {"objects": Consumed("", d(90), b"")}
    past.commit("a.left", 11, inputs=listing)
    past.commit("a.left__quarantine", 1, inputs={"objects": Consumed("", d(80), b"")})
    past.commit("a.left__quarantine", 12, inputs=listing)
    assert past.told()["a.left:2"] == ["a.left:2", "a.left__quarantine:2"]


def test_an_edit_of_another_dataflow_is_not_that_of_a_reader() -> None:
    past = History()
    past.first()
    past.commit("b.more", 21, "a.all")
    past.commit("a.all", 14, "a.both", code=2)
    past.commit("b.more", 22, "a.all", lineage=d(9))
    assert past.told()["b.rev1"] == ["b.more:1"]
    assert past.told()["a.rev2"] == ["a.all:2", "b.more:2"]


def test_what_an_operator_asked_for_at_a_time_is_one_run() -> None:
    past = History()
    past.first()
    past.commit("a.left", 1, cause="forced")
    past.commit("a.right", 2, cause="forced")
    past.commit("a.all", 4, "a.both", cause="forced")
    asked = [past.states["a.left"][0].at - 0.5, past.states["a.all"][0].at - 0.5]
    found = runs(commits_of(past.states, asked), ORDER)
    assert [run.id for run in found] == ["a.rev1", "a.left:2", "a.all:2"]


def test_what_is_committed_with_equal_rows_brings_its_readers_along() -> None:
    """As after a forced run: nothing that they read has another root."""
    past = History()
    past.first()
    past.commit("a.left", 1, cause="forced")
    past.commit("a.both", 3, "a.left", "a.right")
    past.commit("a.all", 4, "a.both")
    assert past.told()["a.left:2"] == ["a.left:2", "a.both:2", "a.all:2"]


def test_an_edit_and_what_followed_however_late() -> None:
    past = History()
    past.first()
    past.commit("a.both", 13, "a.left", "a.right", code=2)
    past.commit("a.left", 11)
    past.commit("a.all", 14, "a.both", code=2)
    assert past.told()["a.rev2"] == ["a.both:2", "a.all:2"]
    assert past.told()["a.left:2"] == ["a.left:2"]


def test_a_revert_is_a_run_of_its_own() -> None:
    past = History()
    past.first()
    past.commit("a.both", 13, "a.left", "a.right", code=2)
    past.commit("a.both", 3, "a.left", "a.right", code=3)
    past.commit("a.all", 4, "a.both", code=3)
    assert past.told()["a.rev2"] == ["a.both:2"]
    assert past.told()["a.rev3"] == ["a.both:3", "a.all:2"]


def test_a_new_reader_of_another_dataflow_does_not_join_an_old_run() -> None:
    past = History()
    past.first()
    past.commit("b.more", 21, "a.all")
    assert past.told()["b.rev1"] == ["b.more:1"]


def test_what_follows_in_another_dataflow_belongs_to_the_run() -> None:
    past = History()
    past.first()
    past.commit("b.more", 21, "a.all")
    past.commit("a.left", 11)
    past.commit("a.both", 13, "a.left", "a.right")
    past.commit("a.all", 14, "a.both")
    past.commit("b.more", 22, "a.all")
    assert past.told()["a.left:2"] == ["a.left:2", "a.both:2", "a.all:2", "b.more:2"]


def test_a_run_whose_beginning_is_not_kept_is_left_out() -> None:
    past = History()
    past.first()
    past.commit("a.left", 11)
    past.commit("a.both", 13, "a.left", "a.right")
    del past.states["a.left"][1:]
    assert list(past.told()) == ["a.rev1"]


def test_work_under_way_belongs_to_the_run_that_asked_for_it() -> None:
    past = History()
    past.first()
    past.commit("a.left", 11)
    left = past.states["a.left"][0]
    asked = RunCommit(
        dataset="a.both",
        seq=2,
        at=9999.0,
        cause="input",
        revision=1,
        root=None,
        has_new_code=False,
        changed=(("a.left", left.root),),
    )
    *_, last = runs([*commits_of(past.states), asked], ORDER)
    assert [c.dataset for c in last.commits] == ["a.left", "a.both"]
