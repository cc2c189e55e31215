"""Every method of the interface, and every error by its own name."""

import os
import signal
from collections.abc import AsyncIterator

import anyio
import pytest
from inspect_ai._util.error import PrerequisiteError
from inspect_ai.util import (
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxUnavailableError,
    SandboxUserUnsupportedError,
)
from inspect_ai.util._sandbox.limits import override_sandbox_output_limit

from inspect_ringfence import RingfenceSandboxEnvironment, _server


@pytest.fixture
async def box() -> AsyncIterator[SandboxEnvironment]:
    environments = await RingfenceSandboxEnvironment.sample_init("t", "T0.H1.N2", {})
    assert next(iter(environments)) == "default"
    yield environments["default"]
    await RingfenceSandboxEnvironment.sample_cleanup("t", None, environments, False)


async def test_a_command_has_its_input_environment_and_streams(box: SandboxEnvironment) -> None:
    done = await box.exec(["sh", "-c", "cat; echo $A >&2; exit 3"], input="in", env={"A": "b"})
    assert (done.success, done.returncode, done.stdout, done.stderr) == (False, 3, "in", "b\n")


async def test_a_signal_is_as_a_shell_says_it(box: SandboxEnvironment) -> None:
    assert (await box.exec(["sh", "-c", "kill -9 $$"])).returncode == 137


async def test_a_missing_program_is_an_ordinary_failure(box: SandboxEnvironment) -> None:
    assert (await box.exec(["no-such-program"])).returncode == 127


async def test_time_and_output_have_limits_read_at_call_time(box: SandboxEnvironment) -> None:
    # Enough time for a busy machine to start the shell and to carry its line.
    with pytest.raises(TimeoutError) as late:
        await box.exec(["sh", "-c", "echo so far; sleep 60"], timeout=5)
    assert getattr(late.value, "truncated_output", None) == "so far\n"
    with override_sandbox_output_limit(10):
        with pytest.raises(OutputLimitExceededError):
            await box.exec(["sh", "-c", "echo 12345678901234567890"])
        await box.write_file("long", "x" * 11)
        with pytest.raises(OutputLimitExceededError):
            await box.read_file("long")
    assert len(await box.read_file("long")) == 11


@pytest.mark.double
async def test_users_that_cannot_be_had(box: SandboxEnvironment) -> None:
    assert "nobody-knows" in (await box.exec(["id"], user="nobody-knows")).stderr
    with pytest.raises(SandboxUserUnsupportedError):
        await box.exec(["id"], user="unmapped")


async def test_files_and_their_errors(box: SandboxEnvironment) -> None:
    await box.write_file("a/b.txt", "x\r\ny")
    assert await box.read_file("a/b.txt") == "x\r\ny"
    await box.write_file("raw", b"\xff\x00")
    assert await box.read_file("raw", text=False) == b"\xff\x00"
    with pytest.raises(UnicodeDecodeError):
        await box.read_file("raw")
    with pytest.raises(FileNotFoundError, match="nothing"):
        await box.read_file("nothing")
    for wrong in (box.read_file("a"), box.write_file("a", "x")):
        with pytest.raises(IsADirectoryError, match="a"):
            await wrong


async def test_a_connection_names_the_command_to_enter(box: SandboxEnvironment) -> None:
    connection = await box.connection(user="root")
    assert connection.type == "ringfence"
    assert " sandbox exec --user root s-" in connection.command


async def test_a_profile_that_cannot_be_had_is_refused_with_the_reason() -> None:
    for profile in ("T0.H2.N1", "T0.H3.N2"):
        with pytest.raises(PrerequisiteError, match=r"(?s)H[23].*hint: "):
            await RingfenceSandboxEnvironment.sample_init("t", profile, {})


async def test_a_killed_server_is_unavailable_and_the_next_sample_has_another() -> None:
    before = await RingfenceSandboxEnvironment.sample_init("t", None, {})
    first = (await _server.server()).pid
    os.kill(first, signal.SIGKILL)
    with pytest.raises(SandboxUnavailableError):
        await before["default"].exec(["true"])
    with pytest.raises(SandboxUnavailableError):
        await before["default"].read_file("x")
    await RingfenceSandboxEnvironment.sample_cleanup("t", None, before, True)
    after = await RingfenceSandboxEnvironment.sample_init("t", None, {})
    assert (await _server.server()).pid != first
    assert (await after["default"].exec(["true"])).success
    await RingfenceSandboxEnvironment.sample_cleanup("t", None, after, False)


async def test_many_commands_at_once(box: SandboxEnvironment) -> None:
    said: list[str] = []

    async def one(number: int) -> None:
        said.append((await box.exec(["echo", str(number)])).stdout.strip())

    async with anyio.create_task_group() as group:
        for number in range(40):
            group.start_soon(one, number)
    assert sorted(said, key=int) == [str(number) for number in range(40)]
