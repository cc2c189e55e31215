"""Sandbox providers of Inspect at the same work, in turn. ROUNDS SAMPLES CALLS PLACE; says JSON.

PLACE is the target directory: its `inspect-images` and `lanes-rootfs` are what `./test.sh inspect` makes.
"""
import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from inspect_ai import Task, eval
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.agent import react
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.tool import bash
from inspect_ai.util import SandboxEnvironmentSpec
from inspect_ai.util._concurrency import init_concurrency
from inspect_ai.util._sandbox.docker import prereqs
from inspect_ai.util._sandbox.registry import registry_find_sandboxenv
from inspect_ai.util._subprocess import init_max_subprocesses
from inspect_ringfence import RingfenceConfig

IMAGE = "ringfence-inspect"
COMPOSE = f"services: {{default: {{image: {IMAGE}, x-local: true, init: true, command: tail -f /dev/null, network_mode: none}}}}\n"
MODEL = "mockllm/model"
KIB, MIB = b"x" * 1024, b"x" * (1 << 20)


def has(*words):
    try:
        return subprocess.run(words, capture_output=True, timeout=60).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def contenders(place):
    """What can be measured here, and why the others cannot."""
    found, absent = {"local": ("local", None)}, []
    layout = place / "inspect-images"
    if (layout / "index.json").exists():
        config = RingfenceConfig(profile="T0.H1.N2", image=f"oci:{layout}:tasks", approval="ci")
        found["ringfence"] = ("ringfence", config)
    else:
        absent.append("ringfence: run ./test.sh inspect once: it makes the image")
    if not has("docker", "version"):
        return found, [*absent, "ringfence (docker), docker: no daemon answers"]
    if not has("docker", "image", "inspect", IMAGE):
        tar = subprocess.Popen(["tar", "-C", str(place / "lanes-rootfs"), "--one-file-system", "-c", "."], stdout=subprocess.PIPE)
        subprocess.run(["docker", "import", "-", IMAGE], stdin=tar.stdout, check=True, capture_output=True)
        tar.wait()
    config = RingfenceConfig(profile="T0.H1.N2", image=f"docker:{IMAGE}", provider="docker", approval="ci")
    found["ringfence (docker)"] = ("ringfence", config)
    if has("docker", "compose", "version"):
        Path("compose.yaml").write_text(COMPOSE)
        found["docker"] = ("docker", str(Path("compose.yaml").absolute()))
    else:
        absent.append("docker: there is no Compose v2")
    return found, absent


async def nothing(*_):
    pass


async def timed(times, what, name, work):
    start = time.perf_counter()
    result = await work
    times.setdefault(what, {}).setdefault(name, []).append(time.perf_counter() - start)
    return result


async def calls(found, absent, rounds, times):
    """The provider's own methods, as Inspect calls them."""
    if os.environ.get("RINGFENCE_BENCH_OLD_DOCKER"):
        # Its provider wants an engine of a certain age, and works with older ones.
        prereqs.validate_docker_engine = nothing
    init_concurrency()
    init_max_subprocesses(16)
    kinds = {name: (registry_find_sandboxenv(kind), config) for name, (kind, config) in found.items()}
    boxes = {}
    for name, (kind, config) in list(kinds.items()):
        try:
            await kind.task_init("bench", config)
        except PrerequisiteError as error:
            absent.append(f"{name}: {error.message}".splitlines()[0])
            del kinds[name], found[name]
            continue
        boxes[name] = await kind.sample_init("bench", config, {})
    for number in range(rounds):
        for name, (kind, config) in kinds.items():
            box = next(iter(boxes[name].values()))
            # The slow one has fewer turns, or nobody would wait for it.
            if name == "docker" and number % 5:
                continue
            for _ in range(1 if name == "docker" else 3):
                done = await timed(times, "exec of true", name, box.exec(["true"]))
                assert done.success, done
            await timed(times, "write of 1 KiB", name, box.write_file("note", KIB))
            await timed(times, "read of 1 KiB", name, box.read_file("note", text=False))
            await timed(times, "write of 1 MiB", name, box.write_file("much", MIB))
            assert await timed(times, "read of 1 MiB", name, box.read_file("much", text=False)) == MIB
            if number % 2 == 0:
                made = await timed(times, "sample_init", name, kind.sample_init("bench", config, {}))
                await timed(times, "sample_cleanup", name, kind.sample_cleanup("bench", config, made, False))
    for name, (kind, config) in kinds.items():
        await kind.sample_cleanup("bench", config, boxes[name], False)
        await kind.task_cleanup("bench", config, True)


def whole(kind, config, samples, number):
    """One eval of an agent with `bash()`: seconds."""

    def reply(input, tools, choice, settings):
        made = sum(1 for message in input if message.role == "assistant")
        if made < number:
            output = ModelOutput.for_tool_call(MODEL, "bash", {"command": "echo hello"})
        else:
            output = ModelOutput.for_tool_call(MODEL, "submit", {"answer": "done"})
        # Without it a tokenizer would be fetched.
        output.usage = ModelUsage(input_tokens=10, output_tokens=10, total_tokens=20)
        return output

    model = get_model(MODEL, custom_outputs=reply, memoize=False)
    dataset = [Sample(id=one + 1, input="Say done.", target="done") for one in range(samples)]
    task = Task(dataset=dataset, solver=react(tools=[bash(timeout=60)]), sandbox=SandboxEnvironmentSpec(kind, config), message_limit=100)
    start = time.perf_counter()
    log = eval(task, model=model, log_dir="logs", display="none", max_samples=10, max_sandboxes=10)[0]
    took = time.perf_counter() - start
    if log.status != "success" or any(s.error or sum("hello" in m.text for m in s.messages if m.role == "tool") != number for s in log.samples):
        raise SystemExit(f"{kind}: {log.status} {log.error}")
    return took


def main():
    rounds, samples, number, place = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
    found, absent = contenders(place)
    times = {}
    asyncio.run(calls(found, absent, rounds, times))
    # The first eval of a process loads what all others use.
    whole("local", None, 1, 1)
    for turn in range(3):
        for name, (kind, config) in found.items():
            if name == "docker" and turn:
                continue
            times.setdefault("whole eval", {}).setdefault(name, []).append(whole(kind, config, samples, number))
    print(json.dumps({"times": times, "absent": absent}))
    shutil.rmtree("logs", ignore_errors=True)


main()
