"""`standard_tools()`: Inspect's tools that a profile grants, by the switches that `inspect_agents` users know."""

from __future__ import annotations

import os

from inspect_ai.tool import (
    Tool,
    bash,
    bash_session,
    python,
    read_file,
    text_editor,
    think,
    todo_write,
    web_browser,
    web_search,
)

from ._config import resolve
from ._profile import Profile

_TRUE = ("1", "true", "yes", "on")
_FALSE = ("0", "false", "no", "off")


def standard_tools(profile: str | None = None, *, timeout: int | None = None) -> list[Tool]:
    """The tools of a profile's level; without one, of the environment's (`RINGFENCE_PROFILE`, `INSPECT_PROFILE`).

    `INSPECT_ENABLE_EXEC`, `INSPECT_ENABLE_WEB_SEARCH` and `INSPECT_ENABLE_WEB_BROWSER` take away what they name where
    they are false; true beyond the profile is an error. The web tools are had only where they are asked for.
    `INSPECT_AGENTS_TOOL_TIMEOUT` is the time of one call, 15 seconds unless stated.
    """
    level = Profile.parse(profile) if profile is not None else resolve(None).profile
    limit = timeout if timeout is not None else _seconds()
    tools: list[Tool] = []
    if level.tooling <= 1:
        tools += [think(), todo_write(), read_file()]
    if _switch("INSPECT_ENABLE_EXEC", level.tooling == 0, level.tooling == 0, level):
        tools += [bash(timeout=limit), python(timeout=limit), bash_session(wait_for_output=limit)]
    if level.tooling == 0:
        tools.append(text_editor())
    web = level.tooling <= 1 and level.network <= 1
    if _switch("INSPECT_ENABLE_WEB_SEARCH", False, web, level):
        tools.append(web_search())
    if _switch("INSPECT_ENABLE_WEB_BROWSER", False, web, level):
        tools += web_browser()
    return tools


def _switch(name: str, default: bool, granted: bool, level: Profile) -> bool:
    text = os.environ.get(name, "").strip().lower()
    if text == "":
        return default
    if text in _FALSE:
        return False
    if text not in _TRUE:
        raise ValueError(f"{name}={text[:40]} is neither yes nor no\nhint: write 1 or 0")
    if not granted:
        raise ValueError(f"{name} wants more than {level} grants\nhint: unset it, or choose another profile")
    return True


def _seconds() -> int:
    text = os.environ.get("INSPECT_AGENTS_TOOL_TIMEOUT", "").strip() or "15"
    try:
        limit = float(text)
    except ValueError:
        limit = 0
    if not 0 < limit <= 86_400:
        raise ValueError("INSPECT_AGENTS_TOOL_TIMEOUT is not a number of seconds up to a day")
    return max(1, round(limit))
