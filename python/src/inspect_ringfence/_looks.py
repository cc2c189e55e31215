"""How Inspect's own tools look to a model, to tell them from others of the same name."""

from __future__ import annotations

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
    """Whether a tool has the arguments, and the description if it must be `worded` so, of Inspect's own one of that
    name. One that lies about itself passes."""
    arguments = frozenset(shown.parameters.properties)
    if shown.name == "submit":
        return arguments == _SUBMIT
    if shown.name.startswith(_HANDOFF):
        return not arguments or shown.name.removeprefix(_HANDOFF) in _agents()
    return any(
        arguments == own and (not worded or shown.description.strip() == description)
        for description, own in _looks(shown.name)
    )


def _agents() -> set[str]:
    agents = registry_find(lambda info: info.type == "agent")
    return {registry_info(one).name.rpartition("/")[2] for one in agents}


@cache
def _looks(name: str) -> frozenset[tuple[str, frozenset[str]]]:
    maker: Any = getattr(tools, "web_browser" if name.startswith("web_browser") else name, None)
    if maker is None:
        return frozenset()
    try:
        made = maker()
        own = [ToolDef(one) for one in (made if isinstance(made, list) else [made])]
    except (TypeError, ValueError, RuntimeError):
        # Some cannot be made without a word of the task's.
        return frozenset()
    return frozenset((one.description.strip(), frozenset(one.parameters.properties)) for one in own if one.name == name)
