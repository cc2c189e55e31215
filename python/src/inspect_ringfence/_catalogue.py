"""Tools of Inspect and of ours: where they run, and the strictest T that grants them. As `ringfence plan` has them."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from inspect_ai._util.registry import registry_find

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


def affordance(name: str, registered: str | None = None) -> Affordance:
    """What a tool is. `registered` is its name in Inspect's registry, where it is known."""
    # In registries, tools of packages have the package before their name; Inspect's own have none in logs.
    package, _, _ = (registered or name).rpartition("/")
    short = name.rpartition("/")[2]
    ours = package in ("", "inspect_ai", "inspect_ringfence") and not _is_shadowed(short)
    if ours and short in _KNOWN:
        return _KNOWN[short]
    if ours and short.startswith("web_browser"):
        return Affordance(short, "sandbox", 1, sensitive=True)
    if ours and short.startswith("transfer_to_"):
        # A handoff: the other agent's tools are judged when its model is asked.
        return Affordance(short, "host", 1)
    return Affordance(short, "host", 1, outside=True)


def _is_shadowed(name: str) -> bool:
    """Whether somebody registered another tool under the name of one of Inspect's: then nobody knows which is meant."""

    def is_other(kind: str, full: str) -> bool:
        package, _, short = full.rpartition("/")
        return kind == "tool" and short == name and package not in ("inspect_ai", "inspect_ringfence")

    return bool(registry_find(lambda info: is_other(info.type, info.name)))


def is_named(name: str, patterns: tuple[str, ...]) -> bool:
    """Whether a pattern means the tool: held against its whole name."""
    return any(fnmatchcase(name, pattern) for pattern in patterns)
