"""From the server's words to the errors that Inspect's interface names."""

from __future__ import annotations

from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironmentLimits,
    SandboxUnavailableError,
    SandboxUserUnsupportedError,
)

from ._client import Completed
from ._problem import RingfenceProblem


def exec_problem(problem: RingfenceProblem, program: str) -> ExecResult[str]:
    """A command that was not run: an ordinary failed result where the command is to blame, else an error."""
    if problem.is_gone:
        raise SandboxUnavailableError(str(problem)) from problem
    if problem.code == "permission_denied":
        raise PermissionError(f"{program}: {problem.detail}") from problem
    if problem.code == "unsupported_user" and problem.failure != "unknown_user":
        raise SandboxUserUnsupportedError(problem.detail) from problem
    if problem.code in ("bad_request", "too_large"):
        raise ValueError(str(problem)) from problem
    # As a shell says it: 127 is not there, 126 is there and cannot be run.
    code = 127 if problem.code == "file_not_found" else 126
    return ExecResult(success=False, returncode=code, stdout="", stderr=f"{problem.detail}\n")


def exec_result(done: Completed, timeout: int | None) -> ExecResult[str]:
    """A command that ran."""
    stdout = done.stdout.decode("utf-8", "replace")
    stderr = done.stderr.decode("utf-8", "replace")
    if done.outcome == "exited" and done.code is not None:
        return ExecResult(done.code == 0, done.code, stdout, stderr)
    if done.outcome == "signalled":
        return ExecResult(False, 128 + (done.signal or 0), stdout, stderr)
    if done.outcome == "timed_out":
        error = TimeoutError(f"Command timed out after {timeout} seconds")
        if stdout or stderr:
            # Inspect reads this attribute where it is there.
            setattr(error, "truncated_output", stdout + stderr)  # noqa: B010
        raise error
    if done.outcome == "output_limit":
        raise OutputLimitExceededError(SandboxEnvironmentLimits.MAX_EXEC_OUTPUT_SIZE_STR, stdout or stderr)
    raise SandboxUnavailableError(f"the command ended without a result ({done.outcome})")


def file_problem(problem: RingfenceProblem, file: str) -> Exception:
    """A file that was not read or written; its name is in the text."""
    text = f"{file}: {problem.detail}" if file not in problem.detail else problem.detail
    if problem.is_gone:
        return SandboxUnavailableError(text)
    match problem.code:
        case "file_not_found":
            return FileNotFoundError(text)
        case "permission_denied":
            return PermissionError(text)
        case "is_a_directory":
            return IsADirectoryError(text)
        case "not_a_directory":
            return NotADirectoryError(text)
        case "timeout":
            return TimeoutError(text)
        case "too_large":
            return OutputLimitExceededError(SandboxEnvironmentLimits.MAX_READ_FILE_SIZE_STR, None)
        case "bad_request":
            return ValueError(text)
        case _:
            return OSError(text)
