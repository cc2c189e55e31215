"""What Inspect tells us of a run: tools are judged, affordances recorded, closed logs signed."""

from __future__ import annotations

import hashlib
import json
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from inspect_ai.hooks import (
    BeforeModelGenerate,
    Hooks,
    SampleEnd,
    TaskEnd,
    TaskStart,
    hooks,
)
from inspect_ai.log import transcript
from inspect_ai.util import LimitExceededError
from pydantic import JsonValue

from . import _samples
from ._catalogue import Affordance, affordance
from ._check import Refused, judge, planned_tools
from ._config import resolve
from ._evidence import Evidence
from ._problem import RingfenceProblem
from ._sandbox import SOURCE
from ._wish import Wish

_logger = logging.getLogger(__name__)


@dataclass
class _Run:
    """A task under way."""

    wish: Wish
    evidence: Evidence
    shown: dict[str, str] = field(default_factory=dict)
    """By sample: the affordances that were recorded last."""


def _refuse(error: Refused) -> LimitExceededError:
    # Of all errors of a hook, Inspect passes on only this one; the others it logs and goes on.
    return LimitExceededError("custom", value=1, limit=0, message=str(error))


def _view(tool: Affordance) -> dict[str, JsonValue]:
    return {"name": tool.name, "runs": tool.runs, "needs": f"T{tool.needs}", "outside": tool.outside}


@hooks(name="ringfence", description="Ringfence: profile, affordances and receipts")
class RingfenceHooks(Hooks):
    """Only tasks whose sandbox is ours are looked at."""

    def __init__(self) -> None:
        self._runs: dict[str, _Run] = {}

    async def on_task_start(self, data: TaskStart) -> None:
        sandbox = data.spec.sandbox
        if sandbox is None or sandbox.type != "ringfence":
            return
        try:
            wish = resolve(sandbox.config, _directory(data.spec.task_file, sandbox.config))
        except (ValueError, OSError) as error:
            # The provider says the same with its own error; judging without a profile would be guessing.
            raise _refuse(Refused(str(error))) from error
        self._run(data.eval_id, wish)
        try:
            judge(wish, planned_tools([step.params for step in data.plan.steps]))
        except Refused as error:
            raise _refuse(error) from error
        except Exception as error:  # Inspect would log it and go on.
            raise _refuse(Refused(f"tools could not be judged: {error!r}")) from error

    def _run(self, eval_id: str, wish: Wish) -> _Run:
        # A task without a sandbox of its own may have samples with ours.
        return self._runs.setdefault(eval_id, _Run(wish, Evidence(eval_id)))

    async def on_before_model_generate(self, data: BeforeModelGenerate) -> None:
        wish = _samples.wish_of(data.sample_id)
        if wish is None:
            return
        run = self._run(data.eval_id or "", wish)
        try:
            tools = [affordance(tool.name, shown=tool) for tool in data.tools]
            _samples.show(data.sample_id, tools)
            judge(wish, tools)
        except Refused as error:
            transcript().info({"event": "refusal", "reason": str(error)}, source=SOURCE)
            raise _refuse(error) from error
        except Exception as error:  # Inspect would log it and ask the model all the same.
            raise _refuse(Refused(f"tools could not be judged: {error!r}")) from error
        views: list[JsonValue] = [_view(tool) for tool in sorted(tools, key=lambda tool: tool.name)]
        digest = hashlib.sha256(json.dumps(views).encode()).hexdigest()
        sample = data.sample_id or ""
        # Every model call had what was recorded last before it: a change is an event, a repetition is not.
        if run.shown.get(sample) != digest:
            run.shown[sample] = digest
            transcript().info(
                {"event": "affordances", "profile": str(wish.profile), "model": data.model_name, "tools": views},
                source=SOURCE,
            )

    async def on_sample_end(self, data: SampleEnd) -> None:
        run = self._runs.get(data.eval_id)
        _samples.forget(data.sample_id)
        if run is not None:
            run.shown.pop(data.sample_id, None)
            run.evidence.see(data.sample)

    async def on_task_end(self, data: TaskEnd) -> None:
        run = self._runs.pop(data.eval_id, None)
        if run is None or not data.log.location:
            return
        log = _closed_log(data.log.location)
        if log is None:
            return
        try:
            receipt = await run.evidence.close(log)
            _logger.info("receipt: %s", receipt)
        except (RingfenceProblem, OSError, ValueError) as problem:
            # No key is a choice; anything else is said.
            level = logging.INFO if getattr(problem, "code", None) == "no_key" else logging.WARNING
            _logger.log(level, "%s has no receipt: %s", log.name, problem)


def _directory(task_file: str | None, config: Any) -> str | None:
    """Where relative paths of a task begin. Inspect hands the provider absolute ones, and the log relative ones."""
    if task_file is None or not isinstance(config, str):
        return None
    directory = Path(task_file).absolute().parent
    return str(directory) if (directory / config).exists() else None


def _closed_log(location: str) -> Path | None:
    path = Path(location.removeprefix("file://")).absolute()
    return path if path.is_file() else None
