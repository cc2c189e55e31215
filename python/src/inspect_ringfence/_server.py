"""One server per process: started on demand, held by a connection that ends with us, started again after a crash."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
from pathlib import Path
from select import select
from typing import Any

import anyio.to_thread

from ._client import Client
from ._problem import RingfenceProblem

_READY_SECONDS = 60.0
_MAX_LINE = 64 << 10


def binary() -> str:
    """The `ringfence` program: named by RINGFENCE_BINARY, installed with this package, or found in PATH."""
    named = os.environ.get("RINGFENCE_BINARY")
    if named:
        return named
    for directory in (sysconfig.get_path("scripts"), str(Path(sys.executable).parent)):
        candidate = Path(directory) / "ringfence"
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return str(candidate)
    found = shutil.which("ringfence")
    if found is None:
        raise RingfenceProblem(
            "unavailable",
            "there is no `ringfence` program",
            "install the package with `pip install ./python`, or name the program in RINGFENCE_BINARY",
        )
    return found


class Server:
    """A running server with a session of ours."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self._gone = threading.Event()
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 (as long as the server)
        # What says the profile is resolved here and sent along; the server must not apply it twice.
        environment = {name: value for name, value in os.environ.items() if name != "INSPECT_PROFILE"}
        try:
            # Its own session: a Ctrl-C at the terminal is ours to handle, and ends samples in order.
            self._process = subprocess.Popen(
                [binary(), "serve", "--exit-when-idle", "30"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=environment,
                start_new_session=True,
            )
        except OSError as error:
            raise RingfenceProblem("unavailable", f"cannot start the ringfence server: {error}") from error
        try:
            path = self._ready()
            self.session = _open_session(path)
            self._hold = _hold(path, self.session)
        except (OSError, ValueError, KeyError, TypeError) as error:
            self.stop()
            raise RingfenceProblem(
                "unavailable", f"the ringfence server does not start: {error}{self._said()}"
            ) from error
        self.client = Client(path, self.session)
        threading.Thread(target=self._watch, name="ringfence-hold", daemon=True).start()

    @property
    def pid(self) -> int:
        """The server's process."""
        return self._process.pid

    def is_alive(self) -> bool:
        """Whether it can be asked; a fork of this process has no server of its own."""
        return self.owner == os.getpid() and self._process.poll() is None and not self._gone.is_set()

    def has_ended(self, within: float) -> bool:
        """Whether its process has ended, or does so within this many seconds."""
        try:
            self._process.wait(timeout=within)
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self) -> None:
        """Ends it and every sandbox of ours."""
        if self.owner != os.getpid():
            return
        self._gone.set()
        with contextlib.suppress(AttributeError, OSError):
            self._hold.shutdown(socket.SHUT_RDWR)
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(timeout=15)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def _ready(self) -> str:
        output = self._process.stdout
        if output is None:
            raise ValueError("it has no output")
        if not select([output], [], [], _READY_SECONDS)[0]:
            raise ValueError(f"it said nothing for {_READY_SECONDS:.0f} seconds")
        line = output.readline(_MAX_LINE)
        if not line:
            raise ValueError("it ended")
        return str(json.loads(line)["socket"])

    def _said(self) -> str:
        self._errors.seek(0)
        said = self._errors.read(4096).decode("utf-8", "replace").strip()
        return f"\n{said}" if said else ""

    def _watch(self) -> None:
        with contextlib.suppress(OSError):
            while self._hold.recv(4096):
                pass
        self._gone.set()


def _open_session(path: str) -> str:
    body = json.dumps({"name": f"inspect {os.getpid()}"}).encode()
    with _connect(path) as stream:
        head = "POST /v1/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        head += f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        stream.sendall(head.encode() + body)
        answer = b""
        while len(answer) <= _MAX_LINE and (part := stream.recv(4096)):
            answer += part
    status, _, rest = answer.partition(b"\r\n")
    content: Any = json.loads(rest.partition(b"\r\n\r\n")[2])
    if b" 201 " not in status + b" ":
        raise ValueError(f"it opens no session: {content}")
    return str(content["session"])


def _hold(path: str, session: str) -> socket.socket:
    """A connection that the kernel ends with this process, however that ends."""
    stream = _connect(path)
    stream.sendall(f"GET /v1/sessions/{session}/hold HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    if b" 200 " not in stream.recv(4096).partition(b"\r\n")[0] + b" ":
        stream.close()
        raise ValueError("it does not let the session be held")
    # From here on it is only read to see its end.
    stream.settimeout(None)
    return stream


def _connect(path: str) -> socket.socket:
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.settimeout(30)
    stream.connect(path)
    return stream


_lock = threading.Lock()
_current: Server | None = None


def _server() -> Server:
    global _current
    with _lock:
        if _current is None or not _current.is_alive():
            if _current is not None:
                _current.stop()
            _current = Server()
        return _current


async def server() -> Server:
    """The server of this process, started if there is none or it has died."""
    if _current is not None and _current.is_alive():
        return _current
    return await anyio.to_thread.run_sync(_server)


def stop() -> None:
    """Ends the server, if there is one."""
    global _current
    with _lock:
        if _current is not None:
            _current.stop()
            _current = None


atexit.register(stop)
