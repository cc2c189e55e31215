"""A sandbox that a task wants, as the server is told."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

from ._profile import Profile

DEFAULT_PROFILE = Profile(0, 1, 2)
"""Where nothing says a profile: code in a container, without a network."""

MAX_TEXT = 1 << 20
"""The longest document or Compose file, in bytes; the server takes no more."""


@dataclass(frozen=True)
class Wish:
    """What a configuration amounts to."""

    profile: Profile
    stated: bool = True
    """Whether the task says the profile; otherwise it is the default."""
    overrides: bool = False
    """Whether the profile replaces that of the document."""
    document: tuple[str, str] | None = None
    """Text and path of a profile document."""
    compose: tuple[str, str] | None = None
    """Text and directory of a Compose file."""
    root: str | None = None
    """A directory above the Compose file that is all the task's."""
    variables: dict[str, str] = field(default_factory=dict)
    """What the sample says of itself, for the Compose file."""
    network: dict[str, list[str]] = field(default_factory=dict)
    """Network rules of a profile without a document."""
    has_image: bool = False
    """Whether the document names an image."""
    image: str | None = None
    provider: str | None = None
    approval: str | None = None
    justification: str | None = None
    verify: str = "off"
    trust_host_tools: tuple[str, ...] = ()
    stands_for: dict[str, Any] | None = None
    """Of a docker task whose image was named: what the image stands for, and what was left out."""

    def with_(self, **changes: Any) -> Wish:
        """The same with some fields changed."""
        return replace(self, **changes)

    def of_sample(self, metadata: dict[str, Any]) -> Wish:
        """The same with what the file asks of the sample, by the names that Inspect gives it."""
        if self.compose is None:
            return self
        named = {f"SAMPLE_METADATA_{key.replace(' ', '_').upper()}": str(value) for key, value in metadata.items()}
        return self.with_(variables={name: value for name, value in named.items() if name in self.compose[0]})

    def body(self, labels: dict[str, str]) -> dict[str, Any]:
        """The request's body."""
        body: dict[str, Any] = {"labels": labels, "verify": self.verify}
        if self.document is not None:
            body["document"], body["origin"] = self.document
            if self.overrides:
                body["profile"] = str(self.profile)
        elif self.compose is not None:
            body["compose"] = {"text": self.compose[0], "directory": self.compose[1]}
            if self.root is not None:
                body["compose"]["root"] = self.root
            if self.variables:
                body["compose"]["variables"] = self.variables
            body["profile"] = str(self.profile)
        elif self.network:
            # JSON is YAML: a document of our own making, for rules that a bare profile cannot carry.
            body["document"] = json.dumps({"profile": str(self.profile), "network": self.network})
            body["origin"] = "the task's RingfenceConfig"
        else:
            body["profile"] = str(self.profile)
        for name in ("image", "provider", "approval", "justification"):
            value = getattr(self, name)
            if value is not None:
                body[name] = value
        return body
