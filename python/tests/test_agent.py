"""An agent with Inspect's own tools, those too that Inspect puts into the sandbox first; many samples at once."""

from pathlib import Path

from conftest import needs_ringfence
from inspect_ai.log import read_eval_log
from inspect_ai.tool import bash, bash_session, python, text_editor
from scripted import DONE, ours, run, says

from inspect_ringfence import approval_preset

pytestmark = needs_ringfence

SAMPLES = 50
# Inspect asks it which of its programs fits; the image `host` has a synthetic /etc without it.
SETUP = "[ -e /etc/os-release ] || ln -s ../usr/lib/os-release /etc/os-release"


def test_fifty_samples_ten_at_once_with_injected_tools(tmp_path: Path) -> None:
    model = says(
        ("bash", {"command": "echo one > /tmp/note; cat /tmp/note"}),
        ("python", {"code": "print(open('/tmp/note').read() + 'two')"}),
        ("text_editor", {"command": "create", "path": "/tmp/made.txt", "file_text": "three\n"}),
        ("bash_session", {"action": "type_submit", "input": "cat /tmp/made.txt"}),
        DONE,
    )
    tools = [bash(), python(), text_editor(), bash_session()]
    log = run(
        tools,
        model,
        ("ringfence", "T0.H1.N2"),
        str(tmp_path),
        samples=SAMPLES,
        setup=SETUP,
        max_samples=10,
        approval=approval_preset("ci"),
    )
    assert log.status == "success", log.error
    log = read_eval_log(log.location)
    assert log.samples
    assert len(log.samples) == SAMPLES
    for number, sample in enumerate(log.samples):
        assert sample.error is None
        answers = [message.text for message in sample.messages if message.role == "tool"]
        assert "one" in answers[0]
        assert "two" in answers[1]
        assert "three" in answers[3], answers
        assert len(ours(log, "sandbox", number)) == 1
        assert [tool["name"] for tool in ours(log, "affordances", number)[0]["tools"]] == [
            "bash",
            "bash_session",
            "python",
            "submit",
            "text_editor",
        ]
    hashes = {ours(log, "sandbox", number)[0]["plan_hash"] for number in range(SAMPLES)}
    assert len(hashes) == 1
