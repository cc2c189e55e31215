"""The sandbox provider `ringfence`."""

from __future__ import annotations

import contextlib
import os
import shlex
from typing import Any, Literal, overload

import anyio
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.log import transcript
from inspect_ai.util import (
    ExecResult,
    SandboxConnection,
    SandboxEnvironment,
    SandboxEnvironmentConfigType,
    SandboxEnvironmentLimits,
    SandboxUnavailableError,
    concurrency,
    sandboxenv,
)
from pydantic import BaseModel

from . import _errors, _evidence, _samples, _server
from ._client import seconds
from ._config import COMPOSE_FILES, DOCUMENTS, RingfenceConfig, resolve
from ._problem import RingfenceProblem

SOURCE = "ringfence"
"""The source of our events in a log."""
_CLEANUP_SECONDS = 60


@sandboxenv(name="ringfence")
class RingfenceSandboxEnvironment(SandboxEnvironment):
    """One service of a sandbox. Commands and files are requests on the connection of the server that made it."""

    def __init__(self, server: _server.Server, sandbox: str, name: str, service: dict[str, Any]) -> None:
        super().__init__()
        self.server = server
        self.sandbox = sandbox
        self.name = name
        self.listed: str | None = service.get("listed")

    @classmethod
    def config_files(cls) -> list[str]:
        return [*DOCUMENTS, *COMPOSE_FILES, "Dockerfile"]

    @classmethod
    def is_docker_compatible(cls) -> bool:
        return True

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> BaseModel:
        return RingfenceConfig(**config)

    @classmethod
    def default_concurrency(cls) -> int | None:
        # A sandbox of the embedded engine is a few processes; twice what the processors can work on at once.
        return 2 * (os.cpu_count() or 1) + 8

    def default_polling_interval(self) -> float:
        return 0.2

    @classmethod
    async def task_init(cls, task_name: str, config: SandboxEnvironmentConfigType | None) -> None:
        # What is wrong with a configuration, or keeps the server from starting, is said before the first sample.
        try:
            resolve(config)
            await _server.server()
        except (ValueError, OSError, RingfenceProblem) as error:
            raise PrerequisiteError(str(error)) from error

    @classmethod
    async def sample_init(
        cls, task_name: str, config: SandboxEnvironmentConfigType | None, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        wish = resolve(config).of_sample(metadata)
        _samples.note(wish)
        body = wish.body({"task": task_name[:1024], "client": "inspect"})
        try:
            server = await _server.server()
            try:
                made = await server.client.create(body)
            except RingfenceProblem as problem:
                # A server that was just killed refuses connections before its end is seen; its sandboxes have ended.
                if not problem.is_gone or not await anyio.to_thread.run_sync(server.has_ended, 2.0):
                    raise
                server = await _server.server()
                made = await server.client.create(body)
        except RingfenceProblem as problem:
            if problem.is_gone:
                raise SandboxUnavailableError(str(problem)) from problem
            raise PrerequisiteError(str(problem)) from problem
        _evidence.remember(made)
        services: dict[str, Any] = made["services"]
        default = made["default"]
        names = [default, *(name for name in services if name != default)]
        transcript().info(
            {
                "event": "sandbox",
                "sandbox": made["id"],
                "requested": made.get("requested"),
                "profile": made["profile"],
                "plan_hash": made["plan_hash"],
                "observed": made.get("observed"),
                "provider": made.get("plan", {}).get("provider"),
                "services": services,
                "residual": made.get("plan", {}).get("residual"),
                "stands_for": wish.stands_for,
            },
            source=SOURCE,
        )
        return {name: cls(server, made["id"], name, services[name]) for name in names}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: SandboxEnvironmentConfigType | None,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        made = {
            (ours.server, ours.sandbox) for ours in (environment.as_type(cls) for environment in environments.values())
        }
        for server, sandbox in made:
            # Also where the sample is cancelled. A server that is gone has taken its sandboxes along.
            with anyio.move_on_after(_CLEANUP_SECONDS, shield=True):
                with contextlib.suppress(RingfenceProblem):
                    records = await server.client.records(sandbox)
                    network = {"event": "network", "totals": await server.client.totals(sandbox), **records}
                    transcript().info({**network, "sandbox": sandbox}, source=SOURCE)
                with contextlib.suppress(RingfenceProblem):
                    await server.client.delete(sandbox)

    @classmethod
    async def task_cleanup(cls, task_name: str, config: SandboxEnvironmentConfigType | None, cleanup: bool) -> None:
        if not cleanup:
            # Sandboxes live in our session and end with this process: nothing is kept behind anybody's back.
            transcript().info({"event": "cleanup", "kept": False}, source=SOURCE)

    @classmethod
    async def cli_cleanup(cls, id: str | None) -> None:
        command = [_server.binary(), "sandbox", "cleanup", *([id] if id else [])]
        done = await anyio.run_process(command, check=False)
        print((done.stdout + done.stderr).decode("utf-8", "replace"), end="")

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        # `timeout_retry` is for providers whose own machinery hangs: here a timeout is always the command's.
        wish: dict[str, Any] = {
            "service": self.name,
            "argv": cmd,
            "output_limit": min(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE, 256 << 20),
            "on_overflow": "kill",
        }
        optional = {"cwd": cwd, "env": env, "user": user}
        wish.update({name: value for name, value in optional.items() if value is not None})
        if timeout is not None:
            wish["timeout_seconds"] = seconds(timeout)
        stdin = input.encode("utf-8") if isinstance(input, str) else input
        try:
            async with _throttle(concurrency):
                done = await self.server.client.exec(self.sandbox, wish, stdin)
        except RingfenceProblem as problem:
            return _errors.exec_problem(problem, cmd[0] if cmd else "")
        return _errors.exec_result(done, timeout)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        content = contents.encode("utf-8") if isinstance(contents, str) else contents
        try:
            await self.server.client.write(self.sandbox, self.name, file, content)
        except RingfenceProblem as problem:
            raise _errors.file_problem(problem, file) from problem

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...

    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...

    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        limit = SandboxEnvironmentLimits.MAX_READ_FILE_SIZE
        try:
            content = await self.server.client.read(self.sandbox, self.name, file, limit)
        except RingfenceProblem as problem:
            raise _errors.file_problem(problem, file) from problem
        return content.decode("utf-8") if text else content

    async def connection(self, *, user: str | None = None) -> SandboxConnection:
        if not self.server.is_alive():
            raise ConnectionError(f"sandbox {self.sandbox} is not running")
        if self.listed is None:
            raise NotImplementedError("this sandbox is not on the list of `ringfence sandbox`")
        words = [_server.binary(), "sandbox", "exec", *(["--user", user] if user else []), self.listed]
        command = shlex.join([*words, "--", "bash", "--login"])
        return SandboxConnection(type="ringfence", command=command, container=self.listed)


def _throttle(wanted: bool) -> contextlib.AbstractAsyncContextManager[Any]:
    if not wanted:
        return contextlib.nullcontext()
    return concurrency("ringfence-exec", 8 * (os.cpu_count() or 1), visible=False)
