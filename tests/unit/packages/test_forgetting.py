"""Packages that no blueprint requires any more go; whoever uses some, or is about to, finds
them."""

from __future__ import annotations

import importlib.metadata
import os
import signal
import subprocess
import sys
import threading
import uuid
from pathlib import Path

import pytest

from controlplane.drivers.package_folders import GRACE_S, forget
from controlplane.operations.upkeep.collect import collect
from dataplane.transform import packages
from tests.store.examples import revision
from tests.stores import new_store
from tests.wheels import only_from, wheel

OLD = 10 * GRACE_S
HERE = f"pyyaml=={importlib.metadata.version('PyYAML')}"  # nothing has to be installed for it
ALSO = f"pyarrow=={importlib.metadata.version('pyarrow')}"


def used(home: Path, *requirements: str) -> Path:
    with packages.held(requirements, home) as folder:
        (folder / "module.py").write_text("")
    return folder


def at(folder: Path, later_s: float = OLD) -> float:
    return folder.with_suffix(".sets").stat().st_mtime + later_s


def test_what_nobody_requires_goes(tmp_path: Path) -> None:
    folder = used(tmp_path, HERE)
    assert forget(tmp_path, [], at(folder, GRACE_S - 1)) == 0
    assert forget(tmp_path, [HERE], at(folder)) == 0
    assert folder.is_dir()
    assert forget(tmp_path, [f"{HERE} {ALSO}", ""], at(folder)) == 1
    assert [p.suffix for p in folder.parent.iterdir()] == [".lock"]
    assert forget(tmp_path, [], at(used(tmp_path, HERE), 0)) == 0


def test_a_folder_may_be_of_several_sets(tmp_path: Path) -> None:
    folder = used(tmp_path, HERE)
    assert used(tmp_path, HERE, ALSO) == used(tmp_path, ALSO, HERE) == folder
    assert forget(tmp_path, [" ".join(sorted([HERE, ALSO]))], at(folder)) == 0
    assert forget(tmp_path, [ALSO], at(folder)) == 1


def test_what_is_held_stays(tmp_path: Path) -> None:
    with packages.held([HERE], tmp_path) as folder:
        assert forget(tmp_path, [], at(folder)) == 0
        assert folder.is_dir()
    assert forget(tmp_path, [], at(folder)) == 1


def test_what_was_left_by_a_crash_goes(tmp_path: Path) -> None:
    folder = used(tmp_path, HERE)
    folder.rename(folder.with_suffix(".gone"))
    folder.with_suffix(".new").mkdir()
    forget(tmp_path, [], at(folder))
    assert [p.suffix for p in folder.parent.iterdir()] == [".lock"]
    assert forget(tmp_path, [], 0.0) == 0
    assert forget(tmp_path / "none", [], 0.0) == 0


def test_a_file_of_the_sets_alone_goes(tmp_path: Path) -> None:
    """Somebody deleted the folder by hand."""
    folder = used(tmp_path, HERE)
    (folder / "module.py").unlink()
    folder.rmdir()
    assert forget(tmp_path, [], at(folder)) == 1


FORGET = """
import sys, time
from controlplane.drivers.package_folders import forget
from pathlib import Path
print("here", flush=True)
while True:
    forget(Path(sys.argv[1]), [], time.time() + 1e6)
"""


def test_users_never_miss_a_folder_while_others_forget_and_are_killed(tmp_path: Path) -> None:
    """Each finds its file from the beginning of its use to the end, also where the one before was
    just deleted."""
    made: list[str] = []

    def use(number: int) -> None:
        for n in range(60):
            with packages.held([HERE], tmp_path) as folder:
                mine = folder / f"{number}-{n}-{uuid.uuid4().hex}"
                mine.write_text("")
                os.sched_yield()
                assert mine.exists()
                made.append(mine.name)

    threads = [threading.Thread(target=use, args=(n,)) for n in range(3)]
    child = subprocess.Popen([sys.executable, "-c", FORGET, str(tmp_path)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    assert child.stdout.readline() == b"here\n"
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert len(made) == 180  # nobody failed
    folder = used(tmp_path, HERE)
    assert forget(tmp_path, [], at(folder)) == 1
    assert [p.suffix for p in folder.parent.iterdir()] == [".lock"]


FLOW = """\
dataflow: shop
components:
  raw: {{read: {{connector: files, path: /data/*.csv, format: csv, schema: "id INT"}}}}
  made:
    transform:
      python: |
        def transform(raw):
            return raw
      inputs: {{raw: each}}
      requirements: [{required}]
"""


def test_a_collection_says_what_live_blueprints_require() -> None:
    store = new_store()
    told: list[set[str]] = []

    def packages(needed: object) -> int:
        told.append(set(needed))  # type: ignore[call-overload]  # a collection of texts
        return 3

    for number, required in ((1, "humanize==4.9.0, attrs==23.1.0"), (2, "humanize==4.9.1")):
        with store.begin() as tx:
            tx.blueprints.put(
                revision(number, "shop", text=FLOW.format(required=required), files={}, uids={}),
                number - 1,
            )
        assert collect(store, "default", packages=packages).packages == 3
    assert told == [{"attrs==23.1.0 humanize==4.9.0"}, {"humanize==4.9.1"}]
    with store.begin() as tx:
        tx.blueprints.put(revision(3, "shop", text="dataflow: [", files={}, uids={}), 2)
    assert collect(store, "default", packages=packages).packages == 0
    assert len(told) == 2


@pytest.mark.slow
def test_what_was_installed_is_installed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel(tmp_path / "wheels", "hgforgotten", "1.0", "")
    only_from(tmp_path / "wheels", tmp_path / "home", monkeypatch)
    for _ in range(2):
        with packages.held(["hgforgotten==1.0"], tmp_path / "home") as folder:
            assert (folder / "hgforgotten.py").is_file()
        assert forget(tmp_path / "home", [HERE], at(folder)) == 1
        assert not folder.exists()
