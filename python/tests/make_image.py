#!/usr/bin/env python3
"""Makes the images of the lane, of one root directory, as an OCI layout.

make_image.py ROOTFS LAYOUT: the image `plain` has a default user that is not root, as Inspect's conformance suite wants
it; `tasks` is what the Dockerfiles of the tasks from inspect_evals would make of a Debian.
"""

import gzip
import hashlib
import io
import json
import platform
import sys
import tarfile
from pathlib import Path
from typing import Any

IMAGES = {
    "plain": {"User": "agent", "WorkingDir": "/home/agent"},
    "tasks": {"User": "root", "WorkingDir": "/workspace"},
}
# These are the sandbox's own.
LEFT_OUT = ("dev", "proc", "sys", "run", "tmp")


def blob(layout: Path, content: bytes, kind: str) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    (layout / "blobs/sha256" / digest).write_bytes(content)
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}


def directory(tar: tarfile.TarFile, name: str, mode: int) -> None:
    info = tarfile.TarInfo(name)
    info.type, info.mode = tarfile.DIRTYPE, mode
    tar.addfile(info)


def base(root: Path) -> bytes:
    """The directory as a layer."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for child in sorted(root.iterdir()):
            if child.name not in LEFT_OUT:
                tar.add(child, arcname=child.name)
        for name in ("dev", "proc", "sys", "run"):
            directory(tar, name, 0o755)
        directory(tar, "tmp", 0o1777)
    return buffer.getvalue()


def manifest(layout: Path, name: str, layer: bytes, packed: dict[str, Any]) -> dict[str, Any]:
    """One image of the layer, as the index names it."""
    config = {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()],
        "os": "linux",
        "config": {**IMAGES[name], "Env": ["PATH=/usr/local/bin:/usr/sbin:/usr/bin:/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]},
    }
    kind = "application/vnd.oci.image.manifest.v1+json"
    content = {
        "schemaVersion": 2,
        "mediaType": kind,
        "config": blob(layout, json.dumps(config).encode(), "application/vnd.oci.image.config.v1+json"),
        "layers": [packed],
    }
    entry = blob(layout, json.dumps(content).encode(), kind)
    return {**entry, "annotations": {"org.opencontainers.image.ref.name": name}}


def main() -> None:
    root, layout = Path(sys.argv[1]), Path(sys.argv[2])
    (layout / "blobs/sha256").mkdir(parents=True, exist_ok=True)
    layer = base(root)
    packed = blob(layout, gzip.compress(layer, 1, mtime=0), "application/vnd.oci.image.layer.v1.tar+gzip")
    manifests = [manifest(layout, name, layer, packed) for name in IMAGES]
    (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    # Last: without it there is no image.
    (layout / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": manifests}))


if __name__ == "__main__":
    main()
