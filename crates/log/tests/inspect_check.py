"""Asks Inspect about logs that `inspect.rs` wrote. Arguments: what to check, and the directory with `expected.json`."""

import json
import subprocess
import sys
import time
import urllib.parse
import urllib.request
import zipfile
from datetime import datetime
from pathlib import Path

directory = Path(sys.argv[2])
expected = json.loads((directory / "expected.json").read_text())


def same(ours, theirs, where):
    """Everything that we wrote is there. Inspect may add what it fills in itself."""
    if isinstance(ours, dict):
        assert isinstance(theirs, dict), f"{where}: {theirs!r} is no object"
        for key, value in ours.items():
            assert key in theirs, f"{where}: {key} is missing"
            same(value, theirs[key], f"{where}.{key}")
    elif isinstance(ours, list):
        assert isinstance(theirs, (list, tuple)) and len(ours) == len(theirs), f"{where}: {theirs!r}"
        for index, pair in enumerate(zip(ours, theirs)):
            same(*pair, f"{where}[{index}]")
    elif ours != theirs:
        # The same moment may be written in more than one way.
        assert isinstance(ours, str) and isinstance(theirs, str), f"{where}: {theirs!r}, not {ours!r}"
        assert datetime.fromisoformat(ours) == datetime.fromisoformat(theirs), f"{where}: {theirs!r}, not {ours!r}"


def check_log(log, want):
    header = {key: value for key, value in want["header"].items() if value is not None}
    spec = dict(want["spec"])
    if want["header"]["status"] == "started":
        header = {"status": "started"}
    else:
        spec["metadata"] = {**spec["metadata"], "audit": {"count": 3, "hash": "00ff"}}
    same({**header, "eval": spec}, log, want["name"])
    assert (log.get("error") is not None) == (want["header"]["status"] == "error")


def read():
    from inspect_ai.log import list_eval_logs, read_eval_log, read_eval_log_sample, read_eval_log_sample_summaries

    listed = {Path(info.name).name: info for info in list_eval_logs(str(directory))}
    assert sorted(listed) == sorted(want["name"] for want in expected), sorted(listed)
    kinds = set()
    for want in expected:
        path = str(directory / want["name"])
        info = listed[want["name"]]
        assert (info.task, info.task_id) == (want["task"], "taskOne"), info

        header = read_eval_log(path, header_only=True)
        check_log(header.model_dump(mode="json"), want)
        assert not header.samples

        full = read_eval_log(path)
        check_log(full.model_dump(mode="json", exclude={"samples"}), want)
        key = lambda sample: (str(sample["id"]), sample["epoch"])
        samples = {key(sample): sample for sample in (s.model_dump(mode="json") for s in full.samples)}
        assert len(samples) == len(full.samples) == len(want["samples"])
        if want["reductions"]:
            same(want["reductions"], full.model_dump(mode="json")["reductions"], "reductions")

        for sample in want["samples"]:
            where = f"{want['name']} {key(sample)}"
            same(sample, samples[key(sample)], where)
            alone = read_eval_log_sample(path, sample["id"], sample["epoch"])
            same(sample, alone.model_dump(mode="json"), where)
            assert alone.id == sample["id"] and type(alone.id) is type(sample["id"]), where
            by_uuid = read_eval_log_sample(path, uuid=sample["uuid"])
            assert by_uuid.uuid == sample["uuid"]
            for event in alone.events:
                # Every event is of its own class, not of a catch-all.
                assert type(event).__name__.lower() == event.event.replace("_", "") + "event", event
                kinds.add(event.event)

        summaries = read_eval_log_sample_summaries(path)
        ours = {(str(summary.id), summary.epoch): summary for summary in summaries}
        assert len(ours) == len(summaries) == len(want["samples"])
        for sample in full.samples:
            theirs = sample.summary().model_dump(mode="json")
            found = ours[(str(sample.id), sample.epoch)].model_dump(mode="json")
            assert found == theirs, f"{found}\n{theirs}"
    assert len(kinds) == 13, sorted(kinds)


def schema():
    import jsonschema
    if sys.version_info < (3, 14):
        import zipfile_zstd  # noqa: F401 (teaches `zipfile` to read zstd)

    text = subprocess.run(["inspect", "log", "schema"], check=True, capture_output=True, text=True).stdout
    document = json.loads(text)
    schemas = document["components"]["schemas"]
    # The schema is of what Inspect writes, which names every field, also those with nothing in them. Whoever reads fills
    # them in; we leave them out. So only what its classes insist on must be there. Types hold for everything.
    for name, one in schemas.items():
        if "required" in one:
            one["required"] = REQUIRED.get(name, [])

    def validate(value, name):
        problem = jsonschema.Draft202012Validator({**document, "$ref": f"#/components/schemas/{name}"})
        found = [f"{error.json_path}: {error.message}" for error in problem.iter_errors(value)]
        assert not found, found[:5]

    # That it finds anything at all.
    for wrong in ({"id": 1, "epoch": 1, "input": ""}, {"id": 1, "epoch": 1, "input": "", "target": "", "events": [{"event": "x"}]}):
        try:
            validate(wrong, "EvalSample")
        except AssertionError:
            continue
        raise SystemExit("the schema takes anything")

    for want in expected:
        path = directory / want["name"]
        if path.suffix == ".json":
            validate(json.loads(path.read_text()), "EvalLog")
            continue
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            assert archive.testzip() is None and len(set(names)) == len(names)
            load = lambda name: json.loads(archive.read(name))
            validate({**load("_journal/start.json"), "status": "started"}, "EvalLog")
            for name in names:
                if name.startswith("samples/"):
                    validate(load(name), "EvalSample")
            parts = [name for name in names if name.startswith("_journal/summaries/")]
            assert parts
            for name in [*parts, "summaries.json"]:
                if name in names:
                    for summary in load(name):
                        validate(summary, "EvalSampleSummary")
            if want["header"]["status"] == "started":
                assert "header.json" not in names
            else:
                validate(load("header.json"), "EvalLog")


# The fields without which Inspect's own classes refuse to read.
REQUIRED = {
    "EvalLog": ["version", "status", "eval"],
    "EvalSpec": ["created", "task", "dataset", "model", "config"],
    "EvalSample": ["id", "epoch", "input", "target"],
    "EvalSampleSummary": ["id", "epoch", "input", "target"],
    "EvalError": ["message", "traceback", "traceback_ansi"],
    "ModelEvent": ["event", "timestamp", "model", "input", "tools", "tool_choice", "config", "output"],
    "ToolEvent": ["event", "timestamp", "id", "function", "arguments"],
    "ApprovalEvent": ["event", "timestamp", "message", "call", "approver", "decision"],
    "SandboxEvent": ["event", "timestamp", "action"],
    "SampleLimitEvent": ["event", "timestamp", "type", "message"],
    "ScoreEvent": ["event", "timestamp", "score"],
}


def commands():
    run = lambda *words: subprocess.run(["inspect", "log", *words], check=True, capture_output=True, text=True).stdout
    listed = json.loads(run("list", "--log-dir", str(directory), "--json"))
    assert sorted(Path(one["name"]).name for one in listed) == sorted(want["name"] for want in expected), listed
    for want in expected:
        dumped = json.loads(run("dump", str(directory / want["name"])))
        check_log(dumped, want)
        assert len(dumped["samples"]) == len(want["samples"])


def view():
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = ["inspect", "view", "start", "--host", "127.0.0.1", "--port", str(port), "--log-dir", str(directory)]
    server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    get = lambda path: direct.open(f"http://127.0.0.1:{port}/{path}", timeout=20).read()
    try:
        end = time.monotonic() + 60
        while True:
            try:
                page = get("")
                break
            except OSError:
                assert server.poll() is None, server.stdout.read().decode()
                assert time.monotonic() < end, "the viewer does not answer"
                time.sleep(0.2)
        assert b"<html" in page
        listing = json.loads(get("api/logs"))["files"]
        names = {Path(one["name"]).name: one["name"] for one in listing}
        assert sorted(names) == sorted(want["name"] for want in expected), names
        for want in expected:
            name = urllib.parse.quote(names[want["name"]], safe="")
            check_log(json.loads(get(f"api/logs/{name}?header-only=1")), want)
            size = int(get(f"api/log-size/{name}"))
            assert size == (directory / want["name"]).stat().st_size
            # What the page itself reads a zip with: ranges of bytes.
            tail = get(f"api/log-bytes/{name}?start={size - 22}&end={size - 1}")
            assert not want["name"].endswith(".eval") or tail[:4] == b"PK\x05\x06", tail
    finally:
        server.terminate()
        server.wait(20)


def killed():
    from inspect_ai.log import read_eval_log, read_eval_log_sample_summaries

    for want in expected:
        with zipfile.ZipFile(want["path"]) as archive:
            assert archive.testzip() is None
        log = read_eval_log(want["path"])
        assert log.status == "started"
        ids = sorted(sample.id for sample in log.samples or [])
        # One more may have been there before the writer could say so.
        assert ids in [list(range(1, want["completed"] + extra)) for extra in (1, 2)], (ids, want)
        assert all(len(sample.events) == 20 for sample in log.samples or [])
        assert sorted(summary.id for summary in read_eval_log_sample_summaries(want["path"])) == ids
    assert max(want["completed"] for want in expected) > 3


{"read": read, "schema": schema, "commands": commands, "view": view, "killed": killed}[sys.argv[1]]()
print("as expected")
