"""How Inspect's own tools look to a model, to tell them from others of the same name."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from inspect_ai import tool as tools
from inspect_ai._util.registry import registry_find, registry_info
from inspect_ai.tool import ToolDef, ToolInfo

# Made by agents themselves: nobody can ask for one, and its description is the task's to choose.
_SUBMIT = frozenset({"answer"})
# A handoff's arguments are those of the agent: most have none.
_HANDOFF = "transfer_to_"


def is_as_inspects(shown: ToolInfo, *, worded: bool) -> bool:
    """Whether a tool is described as Inspect's own one of that name: by the same arguments, and either by the same
    description or, unless it must be `worded` so, by the same words for every argument. One that lies about itself
    passes."""
    arguments = frozenset(shown.parameters.properties)
    if shown.name == "submit":
        return arguments == _SUBMIT
    if shown.name.startswith(_HANDOFF):
        return not arguments or shown.name.removeprefix(_HANDOFF) in _agents()
    schema = shown.parameters.model_dump_json()
    return any(
        arguments == own.arguments
        and (shown.description.strip() == own.description or (not worded and schema == own.schema))
        for own in _looks(shown.name)
    )


def _agents() -> set[str]:
    """Agents of tasks and packages: Inspect's own take no arguments of a model's."""
    agents = registry_find(lambda info: info.type == "agent" and not info.name.startswith("inspect_ai/"))
    return {registry_info(one).name.rpartition("/")[2] for one in agents}


@dataclass(frozen=True)
class _Look:
    description: str
    arguments: frozenset[str]
    schema: str


# Tools that have other arguments when they are made in another way.
_WAYS: dict[str, tuple[dict[str, Any], ...]] = {"memory": ({}, {"readonly": True})}


@cache
def _looks(name: str) -> frozenset[_Look]:
    maker: Any = getattr(tools, "web_browser" if name.startswith("web_browser") else name, None)
    if maker is None:
        return frozenset()
    found = set()
    for way in _WAYS.get(name, ({},)):
        try:
            made = maker(**way)
            own = [ToolDef(one) for one in (made if isinstance(made, list) else [made])]
        except (TypeError, ValueError, RuntimeError):
            # Some cannot be made without a word of the task's.
            continue
        found |= {
            _Look(one.description.strip(), frozenset(one.parameters.properties), one.parameters.model_dump_json())
            for one in own
            if one.name == name
        }
    return frozenset(found)
