#!/usr/bin/env python3
"""Makes the image of the conformance suite: an OCI layout of a root directory, with a default user that is not root.

make_image.py ROOTFS LAYOUT [PROGRAM…]: programs of this machine that are added with their libraries where the
directory lacks them; it must be of the same release.
"""

import gzip
import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

USER = "agent"
# Devices are the sandbox's own; `odd` is what another lane plants in the same directory.
LEFT_OUT = ("dev", "odd", "proc", "sys", "run", "tmp")


def blob(layout: Path, content: bytes, kind: str) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    (layout / "blobs/sha256" / digest).write_bytes(content)
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(content)}


def put(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), mode
    tar.addfile(info, io.BytesIO(content))


def directory(tar: tarfile.TarFile, name: str, mode: int, owner: int = 0) -> None:
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.uid, info.gid = tarfile.DIRTYPE, mode, owner, owner
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


def additions(root: Path, programs: list[str]) -> bytes:
    """The user, and programs that are missing."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        passwd = (root / "etc/passwd").read_text() + f"{USER}:x:1000:1000::/home/{USER}:/bin/bash\n"
        put(tar, "etc/passwd", passwd.encode())
        put(tar, "etc/group", ((root / "etc/group").read_text() + f"{USER}:x:1000:\n").encode())
        directory(tar, f"home/{USER}", 0o755, 1000)
        wanted = [found for found in map(shutil.which, programs) if found and not (root / found.lstrip("/")).exists()]
        libraries = [
            line for found in wanted for line in subprocess.run(["ldd", found], capture_output=True).stdout.split()
        ]
        for path in {*wanted, *(word.decode() for word in libraries if re.match(rb"/(usr/)?lib/", word))}:
            # Where `lib` is a link in the directory, the file goes to where the link leads.
            name = path.lstrip("/") if path.startswith("/usr/") else f"usr{path}"
            if not (root / name).exists():
                put(tar, name, Path(path).read_bytes(), 0o755)
    return buffer.getvalue()


def main() -> None:
    root, layout = Path(sys.argv[1]), Path(sys.argv[2])
    (layout / "blobs/sha256").mkdir(parents=True, exist_ok=True)
    layers = [base(root), additions(root, sys.argv[3:])]
    packed = [
        blob(layout, gzip.compress(layer, 1, mtime=0), "application/vnd.oci.image.layer.v1.tar+gzip")
        for layer in layers
    ]
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"User": USER, "WorkingDir": f"/home/{USER}", "Env": ["PATH=/usr/local/bin:/usr/sbin:/usr/bin:/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": blob(layout, json.dumps(config).encode(), "application/vnd.oci.image.config.v1+json"),
        "layers": packed,
    }
    entry = blob(layout, json.dumps(manifest).encode(), manifest["mediaType"])  # type: ignore[arg-type]
    entry["annotations"] = {"org.opencontainers.image.ref.name": "latest"}
    (layout / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [entry]}))
    (layout / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')


if __name__ == "__main__":
    main()
