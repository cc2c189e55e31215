"""Asks Inspect about logs that `ringfence eval` wrote. Arguments: their directory, and how many there are."""

import json
import subprocess
import sys
from pathlib import Path

from inspect_ai.log import list_eval_logs, read_eval_log, read_eval_log_sample, read_eval_log_sample_summaries

directory, count = Path(sys.argv[1]), int(sys.argv[2])
logs = list_eval_logs(str(directory))
assert len(logs) == count, [log.name for log in logs]
kinds = set()
for info in logs:
    header = read_eval_log(info, header_only=True)
    assert header.status == "success", (info.name, header.status, header.error)
    ours = header.eval.metadata["ringfence"]
    assert len(ours["plan_hash"]) == 64 and ours["profile"] and isinstance(ours["affordances"], list)
    assert header.eval.sandbox.type == "ringfence" and header.eval.sandbox.config == ours["profile"]
    whole = read_eval_log(info)
    assert whole.results.scores[0].metrics["accuracy"].value == 1.0, info.name
    summaries = read_eval_log_sample_summaries(info)
    assert len(summaries) == len(whole.samples) == whole.results.completed_samples > 0
    for sample in whole.samples:
        again = read_eval_log_sample(info, sample.id, sample.epoch)
        assert again.scores == sample.scores and sample.messages and sample.events
        kinds |= {event.event for event in sample.events}
    path = info.name.removeprefix("file://")
    dumped = subprocess.run([Path(sys.executable).parent / "inspect", "log", "dump", path], capture_output=True, check=True)
    assert json.loads(dumped.stdout)["eval"]["task"] == header.eval.task
missing = {"sample_init", "span_begin", "span_end", "model", "tool", "approval", "sandbox", "info", "score"} - kinds
assert not missing, missing
# For the check of the schema.
names = [Path(info.name).name for info in logs]
(directory / "expected.json").write_text(json.dumps([{"name": name, "header": {"status": "success"}} for name in names]))
print(f"{len(logs)} logs, events {sorted(kinds)}")
