"""OCI image archives out of layers that are tar files, as `ctr images import` takes them.

Does not belong here: making layers (`layers.py`), or what images hold (`images.py`).
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LAYER = "application/vnd.oci.image.layer.v1.tar"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


@dataclass(frozen=True, slots=True)
class Image:
    """`layers` lie in the archive; `below` are layers that whoever imports it has already."""

    name: str
    below: Sequence[Path]
    layers: Sequence[Path]
    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    user: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)


def digest(layer: Path) -> str:
    """Of a file that never changes: kept beside it, since layers are large."""
    known = layer.with_name(f"{layer.name}.digest")
    if not known.exists():
        with layer.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        known.write_text(f"sha256:{found}")
    return known.read_text()


def write(image: Image, architecture: str, target: Path) -> None:
    """One archive with one image."""
    all_layers = [*image.below, *image.layers]
    digests = {layer: digest(layer) for layer in all_layers}
    with tarfile.open(target, "w") as archive:
        for layer in image.layers:
            archive.add(layer, f"blobs/sha256/{digests[layer][7:]}")
        config = _blob(
            archive, _config(image, architecture, [digests[layer] for layer in all_layers]), CONFIG
        )
        layers = [
            {"mediaType": LAYER, "digest": digests[x], "size": x.stat().st_size} for x in all_layers
        ]
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers}
        known = _blob(archive, manifest, MANIFEST)
        known["annotations"] = {
            "io.containerd.image.name": image.name,
            "org.opencontainers.image.ref.name": image.name,
        }
        _put(
            archive,
            "index.json",
            _json({"schemaVersion": 2, "mediaType": INDEX, "manifests": [known]}),
        )
        _put(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))


def _config(image: Image, architecture: str, digests: Sequence[str]) -> dict[str, Any]:
    environment = [
        f"{name}={value}" for name, value in ({"PATH": PATH} | dict(image.environment)).items()
    ]
    run = {"Env": environment, "WorkingDir": "/", "User": f"{image.user}:{image.user}"}
    run |= {"Entrypoint": list(image.entrypoint), "Cmd": list(image.command)}
    rootfs = {"type": "layers", "diff_ids": list(digests)}
    return {"architecture": architecture, "os": "linux", "config": run, "rootfs": rootfs}


def _blob(archive: tarfile.TarFile, value: Mapping[str, Any], media_type: str) -> dict[str, Any]:
    body = _json(value)
    name = hashlib.sha256(body).hexdigest()
    _put(archive, f"blobs/sha256/{name}", body)
    return {"mediaType": media_type, "digest": f"sha256:{name}", "size": len(body)}


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True).encode()


def _put(archive: tarfile.TarFile, name: str, body: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(body)
    archive.addfile(entry, io.BytesIO(body))
