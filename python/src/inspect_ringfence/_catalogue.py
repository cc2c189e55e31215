"""Tools of Inspect and of ours: where they run, and the strictest T that grants them. As `ringfence plan` has them."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from inspect_ai._util.registry import registry_find, registry_info
from inspect_ai.tool import ToolInfo

from ._looks import is_as_inspects

Runs = Literal["sandbox", "host", "provider"]


@dataclass(frozen=True)
class Affordance:
    """Something that a model can call."""

    name: str
    runs: Runs
    needs: int
    """The strictest T that grants it."""
    sensitive: bool = False
    outside: bool = False
    """Whether it can do more, outside the sandbox, than change what the model itself remembers."""


_KNOWN = {
    tool.name: tool
    for tool in (
        Affordance("bash", "sandbox", 0, sensitive=True),
        Affordance("bash_session", "sandbox", 0, sensitive=True),
        Affordance("python", "sandbox", 0, sensitive=True),
        Affordance("computer", "sandbox", 0, sensitive=True),
        Affordance("text_editor", "sandbox", 0, sensitive=True),
        Affordance("write_file", "sandbox", 0, sensitive=True),
        Affordance("edit_file", "sandbox", 0, sensitive=True),
        Affordance("delete_file", "sandbox", 0, sensitive=True),
        Affordance("read_file", "sandbox", 1),
        Affordance("list_files", "sandbox", 1),
        Affordance("grep", "sandbox", 1),
        Affordance("ls", "sandbox", 1),
        Affordance("think", "host", 1),
        Affordance("todo_write", "host", 1),
        Affordance("update_plan", "host", 1),
        Affordance("memory", "host", 1),
        Affordance("submit", "host", 1),
        # The search of the model's provider by default, and of a host's Python otherwise.
        Affordance("web_search", "provider", 1, outside=True),
        Affordance("code_execution", "provider", 0, sensitive=True, outside=True),
    )
}


_OURS = ("inspect_ai", "inspect_ringfence")


def affordance(name: str, registered: str | None = None, shown: ToolInfo | None = None) -> Affordance:
    """What a tool is. `registered` is its name in Inspect's registry, `shown` what a model is told of it, if known."""
    # In registries, tools of packages have the package before their name; Inspect's own have none in logs.
    package, _, _ = (registered or name).rpartition("/")
    if shown is not None and package:
        # No tool of Inspect's is shown to a model with its package: somebody chose that name.
        return Affordance(name, "host", 1, outside=True)
    short = name.rpartition("/")[2]
    is_inspects = package in _OURS if package else not _is_another(short, registered is not None, shown)
    if is_inspects and short in _KNOWN:
        return _KNOWN[short]
    if is_inspects and short.startswith("web_browser"):
        return Affordance(short, "sandbox", 1, sensitive=True)
    if is_inspects and short.startswith("transfer_to_"):
        # A handoff: the other agent's tools are judged when its model is asked.
        return Affordance(short, "host", 1)
    return Affordance(short, "host", 1, outside=True)


def _is_another(name: str, is_registered: bool, shown: ToolInfo | None) -> bool:
    """Whether a tool under the name of one of Inspect's is, or may be, somebody else's."""
    packages = {
        full.rpartition("/")[0]
        for full in (registry_info(one).name for one in registry_find(lambda info: info.type == "tool"))
        if full.rpartition("/")[2] == name
    }
    # One from the task's own file has no package before its name, as Inspect's have none in logs.
    if "" in packages:
        return True
    is_only_ours = packages <= set(_OURS)
    if shown is not None:
        # Servers of MCP name their tools as they like, and packages are loaded whole, with tools that a task has no use
        # for. What the model is told decides: all of it where there is a choice, else its arguments and some of the
        # words, for tasks may reword.
        return not is_as_inspects(shown, worded=not is_only_ours)
    return not (is_registered or is_only_ours)


def is_named(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a pattern means the tool: held against its whole name."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)
