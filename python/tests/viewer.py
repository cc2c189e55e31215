"""Logs as the pages of `inspect view` get them."""

import contextlib
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Get = Callable[[str], bytes]


@contextlib.contextmanager
def viewer(directory: Path) -> Iterator[Get]:
    """A viewer of a directory; what it answers to a path."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    inspect = str(Path(sys.executable).parent / "inspect")
    words = [inspect, "view", "start", "--host", "127.0.0.1", "--port", str(port), "--log-dir", str(directory)]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def get(path: str) -> bytes:
        content: bytes = direct.open(f"http://127.0.0.1:{port}/{path}", timeout=20).read()
        return content

    try:
        end = time.monotonic() + 60
        while True:
            try:
                get("")
                break
            except OSError:
                assert server.poll() is None, "the viewer ended"
                assert time.monotonic() < end, "the viewer does not answer"
                time.sleep(0.2)
        yield get
    finally:
        server.terminate()
        server.wait(20)


def shown(get: Get, log: Path) -> dict[str, Any]:
    """A log's header, by the API that the page asks; its size is that of the file."""
    listed = {Path(one["name"]).name: one["name"] for one in json.loads(get("api/logs"))["files"]}
    name = urllib.parse.quote(listed[log.name], safe="")
    assert int(get(f"api/log-size/{name}")) == log.stat().st_size
    header: dict[str, Any] = json.loads(get(f"api/logs/{name}?header-only=1"))
    return header
