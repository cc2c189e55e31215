"""An agent with Inspect's own tools, those too that Inspect puts into the sandbox first; many samples at once."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.tool import bash, bash_session, python, text_editor
from scripted import DONE, ours, run, says
from viewer import shown, viewer

from inspect_ringfence import _server, approval_preset

pytestmark = pytest.mark.real

SAMPLES = 50
# Inspect asks it which of its programs fits; the image `host` has a synthetic /etc without it.
SETUP = "[ -e /etc/os-release ] || ln -s ../usr/lib/os-release /etc/os-release"
TOOLS = ["bash", "bash_session", "python", "submit", "text_editor"]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EvalLog]:
    """Fifty samples, ten at once, signed."""
    place = tmp_path_factory.mktemp("agent")
    before = os.environ.get("RINGFENCE_SIGNING_KEY")
    os.environ["RINGFENCE_SIGNING_KEY"] = str(place / "key")
    subprocess.run([os.environ["RINGFENCE_BINARY"], "key", "new"], check=True)
    # The server reads its environment once.
    _server.stop()
    model = says(
        ("bash", {"command": "echo one > /tmp/note; cat /tmp/note"}),
        ("python", {"code": "print(open('/tmp/note').read() + 'two')"}),
        ("text_editor", {"command": "create", "path": "/tmp/made.txt", "file_text": "three\n"}),
        ("bash_session", {"action": "type_submit", "input": "cat /tmp/made.txt"}),
        DONE,
    )
    made = run(
        [bash(), python(), text_editor(), bash_session()],
        model,
        ("ringfence", "T0.H1.N2"),
        str(place / "logs"),
        samples=SAMPLES,
        setup=SETUP,
        max_samples=10,
        approval=approval_preset("ci"),
    )
    assert made.status == "success", made.error
    yield read_eval_log(made.location)
    _server.stop()
    if before is None:
        del os.environ["RINGFENCE_SIGNING_KEY"]
    else:
        os.environ["RINGFENCE_SIGNING_KEY"] = before


def path_of(log: EvalLog) -> Path:
    return Path(log.location.removeprefix("file://"))


def test_fifty_samples_ten_at_once_with_injected_tools(log: EvalLog) -> None:
    assert log.samples
    assert len(log.samples) == SAMPLES
    for sample in log.samples:
        assert sample.error is None
        answers = [message.text for message in sample.messages if message.role == "tool"]
        assert "one" in answers[0]
        assert "two" in answers[1]
        assert "three" in answers[3], answers


def test_every_sample_says_its_plan_and_its_tools(log: EvalLog) -> None:
    for number in range(SAMPLES):
        assert len(ours(log, "sandbox", number)) == 1
        assert [tool["name"] for tool in ours(log, "affordances", number)[0]["tools"]] == TOOLS
    hashes = {ours(log, "sandbox", number)[0]["plan_hash"] for number in range(SAMPLES)}
    assert len(hashes) == 1
    assert log.eval.metadata
    assert log.eval.metadata["ringfence"]["plan_hash"] in hashes


def test_the_log_opens_in_inspect_view(log: EvalLog) -> None:
    path = path_of(log)
    with viewer(path.parent) as get:
        header = shown(get, path)
    assert header["status"] == "success"
    assert header["eval"]["metadata"]["ringfence"]["profile"] == "T0.H1.N2"
    assert header["eval"]["metadata"]["ringfence_receipt"]["expected"] is True


def test_log_verify_accepts_fifty_samples(log: EvalLog) -> None:
    words = [os.environ["RINGFENCE_BINARY"], "log", "verify", "--require-receipt", str(path_of(log))]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
