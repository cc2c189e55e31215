"""Whether a profile grants what a model would be given."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ._catalogue import Affordance, affordance, is_named
from ._wish import Wish

_DEEPEST = 32
_MOST = 100_000


class Refused(ValueError):
    """Tools that the profile does not grant; all of them, by name."""


def judge(wish: Wish, tools: Iterable[Affordance]) -> list[Affordance]:
    """Those that are granted, or a refusal that names every other one."""
    granted, reasons = [], []
    for tool in tools:
        if tool.needs < wish.profile.tooling:
            reasons.append(f"`{tool.name}` needs T{tool.needs}, and the profile is {wish.profile}")
        elif tool.outside and not is_named(tool.name, wish.trust_host_tools):
            where = "at the model provider" if tool.runs == "provider" else "in Python on the host"
            reasons.append(f"`{tool.name}` runs {where}, outside the sandbox")
        else:
            granted.append(tool)
    if reasons:
        hint = "take them away, lower T, or name those outside in `trust_host_tools`: the log then says so"
        raise Refused("refused by the profile: " + "; ".join(reasons) + f"\nhint: {hint}")
    return granted


def planned_tools(plan: Any) -> list[Affordance]:
    """The tools that a task's solvers name in their parameters. Others are judged when a model is given them."""
    found: dict[str, Affordance] = {}
    for full in _names(plan, _DEEPEST, [_MOST]):
        tool = affordance(full, full)
        found.setdefault(tool.name, tool)
    return list(found.values())


def _names(value: Any, depth: int, left: list[int]) -> Iterator[str]:
    left[0] -= 1
    if depth == 0 or left[0] < 0:
        return
    if isinstance(value, dict):
        if value.get("type") == "tool" and isinstance(value.get("name"), str):
            yield value["name"]
        for part in value.values():
            yield from _names(part, depth - 1, left)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _names(part, depth - 1, left)
