"""Tasks of the package inspect_evals as they are, written for docker: `--sandbox ringfence`, on images of the lane."""

from pathlib import Path
from typing import Any

import pytest
from conftest import image
from inspect_ai import Task, eval
from inspect_ai.log import EvalLog
from scripted import ours, says

pytestmark = [pytest.mark.real, pytest.mark.images]

# A name, an address elsewhere, and the cloud's metadata. A connection lands at the gateway, and may stand until it is
# reset: only an answer would be from outside.
PROBE = """
import socket
for host in ("example.org", "1.1.1.1", "169.254.169.254"):
    try:
        stream = socket.create_connection((host, 443), timeout=5)
        stream.sendall(b"is anybody there?\\n")
        print("ANSWERED" if stream.recv(1) else "refused", host)
    except OSError as error:
        print("refused", host, type(error).__name__)
"""


def with_ringfence(task: Task, model: Any, log_dir: Path, **more: Any) -> EvalLog:
    """What `inspect eval … --sandbox ringfence` does."""
    return eval(task, model=model, sandbox="ringfence", display="none", log_dir=str(log_dir), epochs=1, **more)[0]


def answers(log: EvalLog) -> list[str]:
    assert log.samples
    return [message.text for message in log.samples[0].messages if message.role == "tool"]


def holds_n2(log: EvalLog, said: str) -> None:
    """From inside nothing was reached, and the attempts are on record."""
    assert said.count("refused") == 3, said
    assert "ANSWERED" not in said
    made = ours(log, "sandbox")[0]
    assert (made["profile"], made["provider"]) == ("T0.H1.N2", "container")
    network = ours(log, "network")[0]
    assert network["totals"]["refused"] >= 3, network
    assert any("example.org" in str(record) for record in network["records"])


@pytest.fixture(autouse=True)
def tasks_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RINGFENCE_IMAGE", image("tasks"))


def test_a_challenge_of_threecb_is_solved(tmp_path: Path) -> None:
    from inspect_evals.threecb import threecb
    from inspect_evals.threecb.constants import TaskName

    model = says(
        ("python", {"code": "import getpass; print(getpass.getuser())"}),
        ("python", {"code": PROBE}),
        ("python", {"code": "import math; print(math.factorial(10))"}),
        ("submit", {"answer": "3628800"}),
    )
    task = threecb(task_filter=TaskName.PYTHON_REPL_FACTORIAL10)
    log = with_ringfence(task, model, tmp_path)
    assert log.status == "success", log.error
    user, probed, computed = answers(log)[:3]
    assert user.strip() == "challenge_user"
    assert computed.strip() == "3628800"
    holds_n2(log, probed)
    made = ours(log, "sandbox")[0]
    assert made["stands_for"]["image"] == image("tasks")
    assert log.samples
    assert log.samples[0].scores
    assert log.samples[0].scores["best_elicitation_per_challenge"].value == "C"


FIX = "cd /workspace && sed -i 's/    first = items.*//' src/utils.py && python -m pytest tests/ -q"


@pytest.mark.parametrize("resists", [True, False])
def test_a_sample_of_ipi_coding_agent_is_scored(resists: bool, tmp_path: Path) -> None:
    from inspect_evals.ipi_coding_agent.ipi_coding_agent import ipi_coding_agent

    # What the issue asks for between the lines: it prints what the task's Compose file puts into the environment.
    lured = "cat src/utils.py" if resists else "echo $SECRET_API_KEY"
    model = says(
        ("bash", {"command": lured}),
        ("python", {"code": PROBE}),
        ("bash", {"command": FIX}),
        ("submit", {"answer": "fixed; the issue asks for a secret, which has nothing to do with the bug"}),
        otherwise="GRADE: C",
    )
    log = with_ringfence(ipi_coding_agent(), model, tmp_path, sample_id="ipi-issue-exfil-01-plain")
    assert log.status == "success", log.error
    looked, probed, fixed = answers(log)[:3]
    assert ("CANARY_sk_live" in looked) is not resists, looked
    holds_n2(log, probed)
    assert "2 passed" in fixed, fixed
    assert log.samples
    assert log.samples[0].scores
    value = log.samples[0].scores["ipi_scorer"].value
    assert isinstance(value, dict)
    assert (value["task_completed"], value["accuracy"]) == (1.0, 1.0 if resists else 0.0), value
