"""Approvers `ringfence/preset` and `ringfence/policy`, and the presets that `inspect_agents` users know."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal, cast, get_args

import yaml
from inspect_ai._util.registry import RegistryInfo, registry_add, registry_tag
from inspect_ai.approval import Approval, ApprovalPolicy, Approver, auto_approver, human_approver
from inspect_ai.model import ChatMessage, ChatMessageAssistant
from inspect_ai.tool import ToolCall, ToolCallView

from . import _samples
from ._catalogue import is_named
from ._wish import MAX_TEXT

Preset = Literal["ci", "dev", "prod"]
_TRUE = ("1", "true", "yes", "on")


def preset(preset: str) -> Approver:
    """A preset's decision: `ci` approves; `dev` escalates sensitive calls; `prod` ends the sample on the first one."""
    if preset not in get_args(Preset):
        raise ValueError(f"`{preset}` is not a preset\nhint: presets are ci, dev and prod")

    async def approve(message: str, call: ToolCall, view: ToolCallView, history: list[ChatMessage]) -> Approval:
        if _is_second_of_a_turn(call, history):
            return Approval(decision="reject", explanation="only the first call of a turn is made")
        tool = _samples.called(call.function)
        if preset == "ci" or not (tool.sensitive or tool.outside):
            return Approval(decision="approve", explanation=f"preset {preset}")
        # Arguments may hold secrets, and explanations are kept: the name is enough.
        if preset == "dev":
            return Approval(decision="escalate", explanation=f"`{tool.name}` is sensitive")
        return Approval(
            decision="terminate", explanation=f"`{tool.name}` is sensitive: preset prod ends the sample; [REDACTED]"
        )

    return _tagged(approve, "ringfence/preset", {"preset": preset})


def policy(file: str) -> Approver:
    """A policy file: approvers in order, patterns held against whole tool names; no decision is a rejection."""
    rules = _read(Path(file))

    async def approve(message: str, call: ToolCall, view: ToolCallView, history: list[ChatMessage]) -> Approval:
        for tools, approver in rules:
            if not is_named(call.function, tools):
                continue
            decision = await approver(message, call, view, history)
            if decision.decision != "escalate":
                return decision
        return Approval(decision="reject", explanation=f"the policy approves no call of `{call.function}`")

    return _tagged(approve, "ringfence/policy", {"file": file})


def approval_preset(name: str) -> list[ApprovalPolicy]:
    """What `Task(approval=…)` takes. In `dev` a gate that rejects stands behind the preset."""
    chain = [ApprovalPolicy(preset(name), "*")]
    if name == "dev":
        chain.append(ApprovalPolicy(auto_approver("reject"), "*"))
    return chain


def _is_second_of_a_turn(call: ToolCall, history: list[ChatMessage]) -> bool:
    if os.environ.get("INSPECT_DISABLE_TOOL_PARALLEL", "").strip().lower() not in _TRUE:
        return False
    for said in reversed(history):
        if isinstance(said, ChatMessageAssistant):
            calls = said.tool_calls or []
            return len(calls) > 1 and calls[0].id != call.id and any(one.id == call.id for one in calls)
    return False


def _read(path: Path) -> list[tuple[tuple[str, ...], Approver]]:
    with path.open("rb") as file:
        content = file.read(MAX_TEXT + 1)
    if len(content) > MAX_TEXT:
        raise ValueError(f"{path}: more than {MAX_TEXT} bytes")
    parsed = yaml.safe_load(content)
    listed = parsed.get("approvers") if isinstance(parsed, dict) and set(parsed) == {"approvers"} else None
    if not isinstance(listed, list):
        raise ValueError(f"{path}: not a policy\nhint: write a list under `approvers`, and nothing beside it")
    return [_rule(f"{path}: approver {number}", one) for number, one in enumerate(listed, 1)]


def _rule(place: str, one: Any) -> tuple[tuple[str, ...], Approver]:
    if not isinstance(one, dict):
        raise ValueError(f"{place}: not a mapping")
    tools, name = one.get("tools"), one.get("name")
    patterns = (tools,) if isinstance(tools, str) else tuple(tools) if isinstance(tools, list) else ()
    if not patterns or not all(isinstance(pattern, str) and pattern for pattern in patterns):
        raise ValueError(f"{place}: `tools` is not a pattern or a list of them")
    known = {"auto": {"decision"}, "preset": {"preset"}, "human": {"choices"}}.get(str(name))
    if known is None:
        raise ValueError(f"{place}: no approver `{name}`\nhint: auto, preset and human can be used from Inspect")
    unknown = sorted(set(one) - known - {"name", "tools"})
    if unknown:
        # A condition that is not held would approve what its author did not.
        raise ValueError(f"{place}: `{unknown[0]}` cannot be used from Inspect")
    if name == "auto":
        decision = one.get("decision", "approve")
        if decision not in ("approve", "reject", "terminate", "escalate"):
            raise ValueError(f"{place}: no decision `{decision}`")
        return patterns, auto_approver(decision)
    if name == "preset":
        return patterns, preset(str(one.get("preset")))
    return patterns, human_approver(**({"choices": one["choices"]} if "choices" in one else {}))


def _tagged(approve: Any, name: str, params: dict[str, Any]) -> Approver:
    """Puts the name by which a policy file finds the approver again onto it."""
    maker = preset if name.endswith("preset") else policy
    registry_tag(maker, approve, _info(name, list(params)), **params)
    return cast(Approver, approve)


def _info(name: str, params: list[str]) -> RegistryInfo:
    return RegistryInfo(type="approver", name=name, metadata={"attribs": {}, "params": params})


# Inspect's decorator would put the package's name before these: policy files name them `ringfence/…`.
registry_add(preset, _info("ringfence/preset", ["preset"]))
registry_add(policy, _info("ringfence/policy", ["file"]))
