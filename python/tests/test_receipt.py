"""Log, chain and receipt: `ringfence log verify` accepts them, and misses what was changed."""

import os
import subprocess
from pathlib import Path

import pytest
from inspect_ai.log import read_eval_log
from inspect_ai.tool import bash
from scripted import DONE, ours, run, says

from inspect_ringfence import _server, approval_preset


@pytest.mark.real
def test_log_and_receipt_are_accepted_and_changes_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = os.environ["RINGFENCE_BINARY"]
    monkeypatch.setenv("RINGFENCE_SIGNING_KEY", str(tmp_path / "key"))
    subprocess.run([program, "key", "new"], check=True)
    # The server reads its environment once.
    _server.stop()
    command = {"command": "getent hosts example.org; echo done"}
    log = run([bash()], says(("bash", command), DONE), "ringfence", str(tmp_path), approval=approval_preset("ci"))
    _server.stop()
    assert log.status == "success", log.error
    path = Path(log.location.removeprefix("file://"))
    metadata = read_eval_log(str(path)).eval.metadata or {}
    assert metadata["ringfence"]["profile"] == "T0.H1.N2"
    assert metadata["ringfence_audit"]["count"] > 4
    network = ours(log, "network")[0]
    assert network["totals"]["refused"] >= 1, "N2 holds, and the attempt is recorded"
    assert any("example.org" in str(record) for record in network["records"])
    verify = [program, "log", "verify", "--require-receipt", str(path)]
    done = subprocess.run(verify, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    chain = path.with_suffix(".audit.jsonl")
    chain.write_text(chain.read_text().replace('"approve"', '"reject"', 1))
    assert subprocess.run(verify, capture_output=True).returncode == 5
