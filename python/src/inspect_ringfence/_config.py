"""What `sandbox=("ringfence", …)` may name: a profile, a document, a model, or a docker task's own files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

import yaml
from inspect_ai.util import ComposeConfig
from pydantic import BaseModel, ConfigDict, model_validator

from ._profile import Profile
from ._standin import refuse_to_replace, stand_in
from ._wish import DEFAULT_PROFILE, MAX_TEXT, Wish

COMPOSE_FILES = ("compose.yaml", "compose.yml", "docker-compose.yaml", "docker-compose.yml")
"""Names of Compose files, in Inspect's order."""

DOCUMENTS = ("ringfence.yaml", "ringfence.yml")
"""Names of profile documents that lie beside a task."""


class RingfenceConfig(BaseModel):
    """A sandbox of a task, in Python. What is absent is as the document says, or as the profile's level grants."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    profile: str | None = None
    """Such as `T0.H1.N1`; beside a document it overrides the document's."""
    document: str | None = None
    """Path of a profile document."""
    compose: str | None = None
    """Path of a Compose file."""
    root: str | None = None
    """A directory above the Compose file that is all the task's: the file's paths may lead up to it."""
    image: str | None = None
    """Such as `oci:PATH`, `docker:NAME`, `dir:PATH` or `host`. Beside a Compose file it stands for what that builds."""
    provider: str | None = None
    """Such as `container` (the embedded engine) or `docker`."""
    allow_domains: tuple[str, ...] | None = None
    """Names that may be reached at N1; absent and empty both mean none."""
    deny_domains: tuple[str, ...] | None = None
    """Names that may never be reached; beats `allow_domains`."""
    approval: str | None = None
    """`human` puts names before a person that no rule lists."""
    justification: str | None = None
    """Required for N0 and H0."""
    verify: Literal["off", "fast", "full"] = "off"
    """Whether the plan is proven before the first sandbox of its kind is made."""
    trust_host_tools: tuple[str, ...] = ()
    """Names (or globs) of tools that may run outside the sandbox; recorded as such."""

    @model_validator(mode="after")
    def _agree(self) -> RingfenceConfig:
        if self.profile is not None:
            Profile.parse(self.profile)
        if self.document is not None and self.compose is not None:
            raise ValueError("both `document` and `compose` say what sandbox it should be\nhint: name one of them")
        if self.document is not None and (self.allow_domains is not None or self.deny_domains is not None):
            raise ValueError("network rules beside a `document`\nhint: write them into the document")
        return self


def resolve(config: BaseModel | str | None, directory: str | None = None) -> Wish:
    """From what a task names to what the server is asked for. `directory` is where relative paths begin."""
    return stand_in(_named(config, Path(directory) if directory else Path.cwd()))


def _named(config: BaseModel | str | None, base: Path) -> Wish:
    if config is None:
        return _from_environment(Wish(profile=DEFAULT_PROFILE, stated=False))
    if isinstance(config, RingfenceConfig):
        return _from_environment(_from_model(config, base))
    if isinstance(config, ComposeConfig):
        text = yaml.safe_dump(config.model_dump(mode="json", by_alias=True, exclude_none=True), sort_keys=False)
        return _from_environment(Wish(profile=DEFAULT_PROFILE, stated=False, compose=(text, str(base))))
    if isinstance(config, str):
        return _from_environment(_from_text(config, base))
    raise TypeError(
        f"a ringfence sandbox cannot be configured with {type(config).__name__}\n"
        "hint: name a profile, a path, or a RingfenceConfig"
    )


def _from_text(text: str, base: Path) -> Wish:
    path = base / text
    # Inspect takes every text for a path and puts the task's directory before it.
    if Profile.is_profile(path.name) and not path.exists():
        return Wish(profile=Profile.parse(path.name))
    if path.name in COMPOSE_FILES or path.name.endswith(("-compose.yaml", ".compose.yaml")):
        return Wish(profile=DEFAULT_PROFILE, stated=False, compose=(_read(path), str(path.parent)))
    if path.stem == "Dockerfile" or path.suffix == ".Dockerfile":
        return Wish(profile=DEFAULT_PROFILE, stated=False, compose=(_compose_of(path), str(path.parent)))
    if path.suffix in (".yaml", ".yml", ".json"):
        return _from_document(path)
    raise ValueError(
        f"`{text[:200]}` is neither a profile nor a file that says one\n"
        "hint: write a profile such as T0.H1.N2, or name a .yaml document, a compose.yaml or a Dockerfile"
    )


def _from_document(path: Path) -> Wish:
    text = _read(path)
    content = _mapping(path, text)
    stated = content.get("profile")
    if not isinstance(stated, str):
        raise ValueError(f"{path}: no `profile`\nhint: begin the document with `profile: T0.H1.N2`")
    trusted = []
    tools = content.get("tools")
    for tool in tools if isinstance(tools, list) else []:
        if isinstance(tool, dict) and tool.get("runs") in ("host", "provider") and isinstance(tool.get("name"), str):
            trusted.append(tool["name"])
    return Wish(
        profile=Profile.parse(stated),
        document=(text, str(path)),
        has_image="image" in content,
        trust_host_tools=tuple(trusted),
    )


def _from_model(config: RingfenceConfig, base: Path) -> Wish:
    if config.document is not None:
        wish = _from_document(base / config.document)
    elif config.compose is not None:
        path = base / config.compose
        wish = Wish(profile=DEFAULT_PROFILE, stated=False, compose=(_read(path), str(path.parent)))
    else:
        wish = Wish(profile=DEFAULT_PROFILE, stated=False)
    if config.root is not None:
        wish = wish.with_(root=str((base / config.root).absolute()))
    if config.profile is not None:
        wish = wish.with_(profile=Profile.parse(config.profile), stated=True, overrides=wish.document is not None)
    rules = {"allow_domains": config.allow_domains, "deny_domains": config.deny_domains}
    return wish.with_(
        network={name: list(names) for name, names in rules.items() if names is not None},
        image=config.image,
        provider=config.provider,
        approval=config.approval,
        justification=config.justification,
        verify=config.verify,
        trust_host_tools=wish.trust_host_tools + config.trust_host_tools,
    )


def _from_environment(wish: Wish) -> Wish:
    """The environment may only raise what a task states; where nothing is stated it says the profile."""
    trusted = tuple(
        name.strip() for name in os.environ.get("RINGFENCE_TRUST_HOST_TOOLS", "").split(",") if name.strip()
    )
    wish = wish.with_(trust_host_tools=wish.trust_host_tools + trusted)
    root = os.environ.get("RINGFENCE_TASK_ROOT", "").strip()
    if root and wish.root is None:
        wish = wish.with_(root=str(Path(root).absolute()))
    image = os.environ.get("RINGFENCE_IMAGE", "").strip()
    if image and wish.image is None and not wish.has_image:
        if image == "host" or image.startswith("dir:"):
            # What a whole machine's environment names for every task must at least be the same for every sample.
            raise ValueError(
                f"RINGFENCE_IMAGE={image[:200]} has no digest\nhint: name an image, or write this one into the task"
            )
        refuse_to_replace(wish.compose, image)
        wish = wish.with_(image=image)
    named = {
        name: Profile.parse(os.environ[name])
        for name in ("RINGFENCE_PROFILE", "INSPECT_PROFILE")
        if os.environ.get(name, "").strip()
    }
    if len(set(named.values())) > 1:
        raise ValueError("RINGFENCE_PROFILE and INSPECT_PROFILE name different profiles\nhint: unset one of them")
    for name, profile in named.items():
        if not wish.stated:
            return wish.with_(profile=profile, stated=True)
        if not profile.is_at_least(wish.profile):
            raise ValueError(
                f"{name}={profile} would lower the task's profile {wish.profile}\n"
                "hint: the environment may only raise it; change the task instead"
            )
        return wish.with_(profile=profile, overrides=wish.overrides or profile != wish.profile)
    return wish


def _read(path: Path) -> str:
    with path.open("rb") as file:
        content = file.read(MAX_TEXT + 1)
    if len(content) > MAX_TEXT:
        raise ValueError(f"{path}: more than {MAX_TEXT} bytes")
    return content.decode("utf-8")


def _mapping(path: Path, text: str) -> dict[str, Any]:
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(f"{path}: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path}: not a mapping")
    return content


def _compose_of(dockerfile: Path) -> str:
    service = {"build": {"context": ".", "dockerfile": dockerfile.name}, "init": True, "network_mode": "none"}
    service["command"] = "tail -f /dev/null"
    return yaml.safe_dump({"services": {"default": service}})
