"""Inspect's docker provider, one call for each line of the standard input: `exec` or `create`; says its seconds.

Begins with `ready`, or with what is missing.
"""
import asyncio
import os
import sys
import time
from pathlib import Path

from inspect_ai._util.error import PrerequisiteError
from inspect_ai.util._concurrency import init_concurrency
from inspect_ai.util._sandbox.docker import prereqs
from inspect_ai.util._sandbox.registry import registry_find_sandboxenv
from inspect_ai.util._subprocess import init_max_subprocesses

IMAGE = sys.argv[1]
COMPOSE = f"services: {{default: {{image: {IMAGE}, x-local: true, command: [/bin/busybox, sleep, '1000'], network_mode: none}}}}\n"


async def nothing(*_):
    pass


def say(what):
    print(what, flush=True)


async def main():
    if os.environ.get("RINGFENCE_BENCH_OLD_DOCKER"):
        # It wants an engine of a certain age, and works with older ones.
        prereqs.validate_docker_engine = nothing
    init_concurrency()
    init_max_subprocesses(16)
    Path("compose.yaml").write_text(COMPOSE)
    kind, config = registry_find_sandboxenv("docker"), str(Path("compose.yaml").absolute())
    try:
        await kind.task_init("bench", config)
    except PrerequisiteError as error:
        say(str(error.message).splitlines()[0])
        return
    boxes = await kind.sample_init("bench", config, {})
    say("ready")
    while line := (await asyncio.to_thread(sys.stdin.readline)).strip():
        start = time.perf_counter()
        if line == "exec":
            done = await boxes["default"].exec(["/bin/true"])
            assert done.success, done
            say(time.perf_counter() - start)
        else:
            made = await kind.sample_init("bench", config, {})
            say(time.perf_counter() - start)
            await kind.sample_cleanup("bench", config, made, False)
    await kind.sample_cleanup("bench", config, boxes, False)
    await kind.task_cleanup("bench", config, True)


asyncio.run(main())
