"""Profiles `Tx.Hx.Nx`: parsed once, compared, never re-checked."""

from __future__ import annotations

import re
from dataclasses import dataclass

_SHAPE = re.compile(r"T([0-2])\.H([0-3])\.N([0-2])", re.IGNORECASE)


@dataclass(frozen=True)
class Profile:
    """Three levels; a higher number always grants less, or isolates more."""

    tooling: int
    host: int
    network: int

    @classmethod
    def parse(cls, text: str) -> Profile:
        """Reads `T0.H1.N2` in any case."""
        match = _SHAPE.fullmatch(text.strip())
        if match is None:
            shown = text if len(text) <= 40 else text[:40] + "…"
            raise ValueError(f"`{shown}` is not a profile\nhint: write T[0-2].H[0-3].N[0-2], such as T0.H1.N2")
        return cls(*(int(level) for level in match.groups()))

    @classmethod
    def is_profile(cls, text: str) -> bool:
        """Whether the text is a profile."""
        return _SHAPE.fullmatch(text.strip()) is not None

    def is_at_least(self, other: Profile) -> bool:
        """Whether no level is lower than the other's."""
        return self.tooling >= other.tooling and self.host >= other.host and self.network >= other.network

    def __str__(self) -> str:
        return f"T{self.tooling}.H{self.host}.N{self.network}"
