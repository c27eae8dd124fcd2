"""Layers and archives of images: equal bytes for equal content, links and modes as they were."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

from tests.cluster import images, oci
from tests.cluster.layers import Layer


def made(target: Path, source: Path) -> Path:
    layer = Layer(target)
    layer.tree(source, "opt/app", skip=lambda path: path == "no")
    layer.text("opt/app/one", "not this one")
    layer.close()
    return target


def source(folder: Path) -> Path:
    (folder / "app" / "sub").mkdir(parents=True)
    (folder / "app" / "one").write_text("1")
    (folder / "app" / "no").write_text("no")
    (folder / "app" / "sub" / "run").write_text("#!/bin/sh\n")
    (folder / "app" / "sub" / "run").chmod(0o700)
    (folder / "app" / "link").symlink_to("one")
    return folder / "app"


def test_a_layer_holds_a_folder_with_its_parents_once_and_without_owner_or_time(
    tmp_path: Path,
) -> None:
    with tarfile.open(made(tmp_path / "a.tar", source(tmp_path))) as tar:
        found = {m.name: m for m in tar.getmembers()}
        body = tar.extractfile("opt/app/one")
        assert body is not None
        assert body.read() == b"1"
    assert list(found) == [
        "opt",
        "opt/app",
        "opt/app/link",
        "opt/app/one",
        "opt/app/sub",
        "opt/app/sub/run",
    ]
    assert found["opt/app/link"].linkname == "one"
    assert {m.mode for m in found.values() if m.isfile()} == {0o644, 0o755}
    assert {(m.uid, m.gid, m.mtime) for m in found.values()} == {(0, 0, 0)}


def test_equal_content_is_an_equal_layer(tmp_path: Path) -> None:
    app = source(tmp_path)
    first, second = made(tmp_path / "a.tar", app), made(tmp_path / "b.tar", app)
    assert oci.digest(first) == oci.digest(second)


def test_an_archive_names_layers_below_it_without_holding_them(tmp_path: Path) -> None:
    below, own = made(tmp_path / "a.tar", source(tmp_path)), tmp_path / "own.tar"
    layer = Layer(own)
    layer.text("etc/own", "own")
    layer.close()
    image = oci.Image("localhost/x:1", [below], [own], ["/x"], user=7, environment={"A": "b"})
    oci.write(image, "amd64", tmp_path / "image.tar")
    with tarfile.open(tmp_path / "image.tar") as tar:
        bodies = {m.name: tar.extractfile(m) for m in tar.getmembers()}
        texts = {name: body.read() for name, body in bodies.items() if body is not None}
    index = json.loads(texts["index.json"])["manifests"][0]
    manifest = json.loads(texts["blobs/sha256/" + index["digest"][7:]])
    assert [entry["digest"] for entry in manifest["layers"]] == [oci.digest(below), oci.digest(own)]
    held = {name.rpartition("/")[2] for name in texts}
    assert oci.digest(own)[7:] in held
    assert oci.digest(below)[7:] not in held
    config = json.loads(texts["blobs/sha256/" + manifest["config"]["digest"][7:]])
    assert config["config"]["User"] == "7:7"
    assert "A=b" in config["config"]["Env"]


def test_the_code_that_makes_the_archive_of_classes_is_there() -> None:
    assert [path for path in images.CLASSES_CODE if not path.is_file()] == []
