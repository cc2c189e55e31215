#!/usr/bin/env python3
"""A strict double of `ringfence serve`, run as the program: it refuses whatever the agreed API does not have.

It isolates nothing: commands run on the host, in a directory of the sandbox. For tests of what Python does only.
"""

import base64
import json
import os
import shutil
import signal
import socketserver
import subprocess
import sys
import tempfile
import threading
import urllib.parse
import uuid
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

ROOT = Path(tempfile.mkdtemp(prefix="ringfence-double-"))
SANDBOXES: dict[str, str] = {}
CREATE = {"profile", "document", "origin", "compose", "image", "provider", "justification", "approval", "labels"} | {
    "detached",
    "lease_seconds",
    "verify",
}
EXEC = {"service", "argv", "env", "cwd", "user", "stdin_base64", "timeout_seconds", "output_limit", "on_overflow"}


class Problem(Exception):
    def __init__(self, status: int, code: str, detail: str, **more: Any) -> None:
        super().__init__(detail)
        self.status, self.body = status, {"status": status, "code": code, "title": code, "detail": detail, **more}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def answer(self, status: int, content: bytes = b"", kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def route(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        try:
            self.handle_one(body)
        except Problem as problem:
            self.answer(problem.status, json.dumps(problem.body).encode(), "application/problem+json")

    do_GET = do_POST = do_PUT = do_DELETE = route

    def handle_one(self, body: bytes) -> None:
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        session = self.headers.get("Ringfence-Session")
        match [self.command, *url.path.strip("/").split("/")]:
            case ["POST", "v1", "sessions"]:
                self.answer(201, json.dumps({"session": uuid.uuid4().hex}).encode())
            case ["GET", "v1", "sessions", name, "hold"]:
                self.hold(name)
            case ["POST", "v1", "sandboxes"]:
                self.create(fields(body, CREATE), session)
            case ["DELETE", "v1", "sandboxes", name]:
                find(name)
                end(name)
                self.answer(204)
            case ["GET", "v1", "sandboxes", name, "totals"]:
                find(name)
                self.answer(200, json.dumps({"queries": 0, "connections": 0, "refused": 0}).encode())
            case ["GET", "v1", "sandboxes", name, "records"]:
                find(name)
                self.answer(200, json.dumps({"records": [], "next": 0, "dropped": 0}).encode())
            case ["POST", "v1", "sandboxes", name, "exec"]:
                self.answer(200, json.dumps(execute(find(name), fields(body, EXEC))).encode())
            case ["GET", "v1", "sandboxes", name, "files"]:
                self.answer(200, read(find(name), query), "application/octet-stream")
            case ["PUT", "v1", "sandboxes", name, "files"]:
                write(find(name), query, body)
                self.answer(204)
            case ["POST", "v1", "receipts"]:
                raise Problem(409, "no_key", "there is no key that signs receipts")
            case _:
                raise Problem(404, "not_found", f"no such route {self.command} {url.path}")

    def hold(self, session: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        self.wfile.write(b"\n")
        self.wfile.flush()
        # Blocks until the client is gone.
        self.connection.recv(1)
        for name in [name for name, owner in SANDBOXES.items() if owner == session]:
            end(name)
        self.close_connection = True
        if os.environ.get("DOUBLE_NOTE"):
            Path(os.environ["DOUBLE_NOTE"]).write_text(json.dumps(sorted(SANDBOXES)))

    def create(self, wish: dict[str, Any], session: str | None) -> None:
        if session is None:
            raise Problem(400, "bad_request", "no session")
        profile = wish.get("profile") or json.loads(wish["document"])["profile"]
        if ".H1." not in profile:
            unmet = [{"reason": "no provider of that H is here"}, {"reason": "second reason"}]
            raise Problem(422, "refused", f"{profile} cannot be had: no provider", hint="choose H1", unmet=unmet)
        name = f"s-{uuid.uuid4().hex[:16]}"
        SANDBOXES[name] = session
        (ROOT / name).mkdir()
        service = {"user": None, "workdir": "/", "image": "host", "listed": name}
        view = {"id": name, "default": "default", "services": {"other": service, "default": service}}
        view |= {"requested": profile, "profile": profile, "plan_hash": "0" * 64, "plan": {"provider": "container"}}
        self.answer(201, json.dumps({**view, "observed": {"state": "not_probed"}}).encode())


def fields(body: bytes, known: set[str]) -> dict[str, Any]:
    wish: dict[str, Any] = json.loads(body)
    if set(wish) - known:
        raise Problem(400, "bad_request", f"unknown fields {sorted(set(wish) - known)}")
    return wish


def find(name: str) -> Path:
    if name not in SANDBOXES:
        raise Problem(410, "sandbox_gone", f"sandbox {name} is gone")
    return ROOT / name


def end(name: str) -> None:
    SANDBOXES.pop(name, None)
    shutil.rmtree(ROOT / name, ignore_errors=True)


def place(root: Path, query: dict[str, str]) -> Path:
    if set(query) - {"path", "service", "limit", "mode", "user"} or "path" not in query:
        raise Problem(400, "bad_request", "wrong query")
    return root / query["path"].lstrip("/")


def read(root: Path, query: dict[str, str]) -> bytes:
    path = place(root, query)
    if path.is_dir():
        raise Problem(409, "is_a_directory", f"{query['path']}: is a directory")
    if not path.exists():
        raise Problem(404, "file_not_found", f"{query['path']}: no such file")
    content = path.read_bytes()
    if len(content) > int(query.get("limit", 1 << 32)):
        raise Problem(413, "too_large", "too large")
    return content


def write(root: Path, query: dict[str, str], content: bytes) -> None:
    path = place(root, query)
    if path.is_dir():
        raise Problem(409, "is_a_directory", f"{query['path']}: is a directory")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def execute(root: Path, wish: dict[str, Any]) -> dict[str, Any]:
    if wish.get("user") == "nobody-knows":
        raise Problem(422, "unsupported_user", "no user `nobody-knows`", failure="unknown_user")
    if wish.get("user") == "unmapped":
        raise Problem(422, "unsupported_user", "user `unmapped` cannot be had", failure="unmapped_user")
    if wish["argv"] == ["die"]:
        os.kill(os.getpid(), signal.SIGKILL)
    limit = wish["output_limit"]
    stdin = base64.b64decode(wish.get("stdin_base64") or "")
    cwd = root / wish.get("cwd", ".").lstrip("/")
    try:
        done = subprocess.run(
            wish["argv"],
            input=stdin,
            capture_output=True,
            cwd=cwd,
            env={**os.environ, **wish.get("env", {})},
            timeout=wish.get("timeout_seconds"),
        )
    except subprocess.TimeoutExpired as late:
        return ended({"outcome": "timed_out"}, late.stdout or b"", b"")
    except PermissionError:
        raise Problem(403, "permission_denied", "may not be run") from None
    except FileNotFoundError:
        raise Problem(404, "file_not_found", f"{wish['argv'][0]}: not there") from None
    if len(done.stdout) > limit:
        return ended({"outcome": "output_limit", "stream": "stdout"}, done.stdout[:limit], done.stderr)
    if done.returncode < 0:
        return ended({"outcome": "signalled", "signal": -done.returncode}, done.stdout, done.stderr)
    return ended({"outcome": "exited", "code": done.returncode}, done.stdout, done.stderr)


def ended(how: dict[str, Any], stdout: bytes, stderr: bytes) -> dict[str, Any]:
    streams = {"stdout_base64": stdout, "stderr_base64": stderr}
    return {**how, "truncated": False} | {name: base64.b64encode(said).decode() for name, said in streams.items()}


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    request_queue_size = 128


def main() -> None:
    if sys.argv[1:2] != ["serve"]:
        sys.exit("only `serve` is doubled")
    path = str(ROOT / "socket")
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    with Server(path, Handler) as server:
        print(json.dumps({"pid": os.getpid(), "socket": path}), flush=True)
        # A server whose client has left ends by itself.
        threading.Timer(120, lambda: os._exit(0)).start()
        server.serve_forever()


if __name__ == "__main__":
    main()
