"""Either side is killed: samples end with the right error, nothing is left behind, the eval goes on."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.real

HERE = Path(__file__).parent

KILLED_PYTHON = """
import asyncio, json, sys
from inspect_ringfence import RingfenceSandboxEnvironment, _server

async def main():
    made = await RingfenceSandboxEnvironment.sample_init("t", "T0.H1.N2", {})
    box = made["default"]
    server = (await _server.server()).pid
    print(json.dumps({"sandbox": box.sandbox, "server": server}), flush=True)
    await box.exec(["sleep", sys.argv[1]])

asyncio.run(main())
"""

KILLED_SERVER = """
import json, os, signal, sys
from inspect_ai.tool import bash
from inspect_ringfence import _server
from scripted import DONE, run, says

def server():
    return _server._current.pid

calls = 0
import inspect_ringfence._client as client
plain = client.Client.exec
async def exec(self, sandbox, wish, stdin):
    global calls
    if any("mark" in word for word in wish["argv"]):
        calls += 1
        if calls == 3:
            os.kill(server(), signal.SIGKILL)
    return await plain(self, sandbox, wish, stdin)
client.Client.exec = exec

model = says(("bash", {"command": "echo mark"}), DONE)
log = run([bash()], model, ("ringfence", "T0.H1.N2"), sys.argv[1], samples=8, max_samples=1, fail_on_error=False)
errors = [e.error.type for s in log.samples for e in s.events if e.event == "tool" and e.error]
texts = [[m.text for m in s.messages if m.role == "tool"] for s in log.samples]
print(json.dumps({"status": log.status, "errors": errors, "texts": texts,
    "failed": [s.error.message for s in log.samples if s.error]}), flush=True)
"""


def until(condition: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.1)
    return condition()


def processes(text: str) -> list[int]:
    """Processes of this machine, those in sandboxes too, with such a command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            line = (entry / "cmdline").read_bytes().replace(b"\0", b" ")
        except OSError:
            continue
        if line.decode("utf-8", "replace").strip() == text:
            found.append(int(entry.name))
    return found


def start(code: str, *words: str) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    return subprocess.Popen([sys.executable, "-c", code, *words], stdout=subprocess.PIPE, env=environment)


def test_a_killed_python_takes_its_sandboxes_along() -> None:
    mark = f"98765.{os.getpid()}"
    child = start(KILLED_PYTHON, mark)
    assert child.stdout
    said = json.loads(child.stdout.readline())
    assert until(lambda: bool(processes(f"sleep {mark}")), 20)
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    assert until(lambda: not processes(f"sleep {mark}"), 15), "the command outlives its client"
    os.kill(said["server"], signal.SIGTERM)


def test_the_server_of_a_killed_python_ends() -> None:
    child = start(KILLED_PYTHON, "0")
    assert child.stdout
    server = json.loads(child.stdout.readline())["server"]
    os.kill(child.pid, signal.SIGKILL)
    child.wait()
    try:
        assert until(lambda: not Path(f"/proc/{server}").exists(), 40)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(server, signal.SIGTERM)


def test_a_killed_server_ends_one_call_and_the_eval_goes_on(tmp_path: Path) -> None:
    child = start(KILLED_SERVER, str(tmp_path))
    output, _ = child.communicate(timeout=120)
    said = json.loads(output.splitlines()[-1])
    assert said["status"] == "success", said
    assert said["errors"] == ["sandbox_unavailable"], said
    assert said["failed"] == [], said
    assert sum("mark" in text for texts in said["texts"] for text in texts) == 7, said
