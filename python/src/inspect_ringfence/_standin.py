"""An image in the place of what a docker task would build: its one service, as a sandbox of the embedded engine.

A Dockerfile needs a daemon that builds; the embedded engine has none. Whoever has the image already names it, and what
else the task's file says of its service is honoured here, left out where it makes no difference, or refused by name.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import yaml

from ._profile import Profile
from ._wish import Wish

# The image stands for the first two; the others change nothing for commands that are run inside.
_LEFT_OUT = ("image", "build", "init", "restart", "platform", "pull_policy", "container_name", "stdin_open", "tty")
_TOP = ("services", "version", "name")
_IDLE = (["tail", "-f", "/dev/null"], ["sleep", "infinity"])
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def stand_in(wish: Wish) -> Wish:
    """The same sandbox from `wish.image`, or an error that names what cannot be had of it."""
    if wish.compose is None or wish.image is None:
        return wish
    service = _only_service(wish.compose[0])
    document: dict[str, Any] = {}
    network = wish.profile.network
    reasons = []
    left_out = []
    for key, value in service.items():
        is_idle = key in ("command", "entrypoint") and _words(value) in _IDLE
        if is_idle or key in _LEFT_OUT or key.startswith("x-"):
            left_out.append(key)
        elif key == "network_mode" and value == "none":
            network = 2
        elif key == "environment":
            document["environment"] = _environment(value)
        elif key in ("mem_limit", "cpus", "deploy"):
            document.setdefault("limits", {}).update(_limits(key, value))
        else:
            reasons.append(f"`{key}`")
    if reasons:
        raise ValueError(
            f"with an image in its place, the task's service cannot have {', '.join(reasons)}\n"
            "hint: name no image, so that the file goes to a provider that has services, or write a profile document"
        )
    if wish.network:
        document["network"] = wish.network
    profile = Profile(wish.profile.tooling, wish.profile.host, network)
    text = json.dumps({"profile": str(profile), **document})
    origin = str(Path(wish.compose[1]) / "the task's service")
    told = {"image": wish.image, "directory": wish.compose[1], "left_out": sorted(left_out)}
    return wish.with_(profile=profile, compose=None, document=(text, origin), network={}, stands_for=told)


def refuse_to_replace(compose: tuple[str, str] | None, image: str) -> None:
    """The environment's image stands for what a task builds. One that a task names is the task's own choice."""
    if compose is None:
        return
    service = _only_service(compose[0])
    if "image" in service and "build" not in service:
        raise ValueError(
            f"RINGFENCE_IMAGE={image[:200]} would replace the image {str(service['image'])[:200]} that the task names\n"
            "hint: unset it, or say so in the task: RingfenceConfig(compose=…, image=…)"
        )


def _only_service(text: str) -> dict[str, Any]:
    try:
        parsed = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"the Compose file: {error}") from error
    services = parsed.get("services") if isinstance(parsed, dict) else None
    if not isinstance(parsed, dict) or not isinstance(services, dict) or len(services) != 1:
        raise ValueError("an image can stand for one service only\nhint: name no image, and a provider with services")
    beyond = [str(key) for key in parsed if key not in _TOP and not str(key).startswith("x-")]
    if beyond:
        raise ValueError(f"with an image in its place, the task cannot have `{beyond[0]}` in its Compose file")
    service = next(iter(services.values()))
    if not isinstance(service, dict):
        raise ValueError("the Compose file: its service is not a mapping")
    return {str(key): value for key, value in service.items()}


def _words(value: Any) -> list[str]:
    return value.split() if isinstance(value, str) else [str(word) for word in value or []]


def _environment(value: Any) -> dict[str, str]:
    if isinstance(value, list):
        pairs = [str(one).partition("=") for one in value]
        named: dict[str, Any] = {name: text if sign else None for name, sign, text in pairs}
    else:
        named = value if isinstance(value, dict) else {}
    for name, text in named.items():
        # Whose variables a file may see is a question that the server answers, for files that are sent to it.
        if text is None or "$" in str(text):
            raise ValueError(f"`{name}` takes its value from a variable\nhint: write the value into the Compose file")
    return {str(name): str(text) for name, text in named.items()}


def _limits(key: str, value: Any) -> dict[str, Any]:
    if key == "mem_limit":
        return {"memory": _bytes(value)}
    if key == "cpus":
        return {"cpu": float(value)}
    limits = value
    for step in ("resources", "limits"):
        if not isinstance(limits, dict) or set(limits) != {step}:
            raise ValueError("`deploy` may have `resources.limits` and nothing else")
        limits = limits[step]
    found: dict[str, Any] = {}
    for name, amount in limits.items() if isinstance(limits, dict) else []:
        if name == "memory":
            found["memory"] = _bytes(amount)
        elif name == "cpus":
            found["cpu"] = float(amount)
        elif name == "pids":
            found["pids"] = int(amount)
        else:
            raise ValueError(f"`deploy.resources.limits.{name}` cannot be had")
    return found


def _bytes(value: Any) -> int:
    match = re.fullmatch(r"(\d{1,15})\s*([bkmg]?)(?:i?b)?", str(value).strip().lower())
    if match is None:
        raise ValueError(f"`{str(value)[:40]}` is not an amount of memory\nhint: write it as 512m or 2g")
    return int(match[1]) * _UNITS[match[2]]
