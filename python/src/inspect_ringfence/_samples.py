"""What the samples under way asked for and were given: a sample may have a sandbox of its own, and other tools."""

from __future__ import annotations

from inspect_ai.log._samples import sample_active

from ._catalogue import Affordance, affordance
from ._wish import Wish

_wishes: dict[str, Wish] = {}
_tools: dict[str, dict[str, Affordance]] = {}


def note(wish: Wish) -> None:
    """Remembers what the sample under way asked for."""
    active = sample_active()
    if active is not None:
        _wishes[active.id] = wish


def wish_of(sample: str | None) -> Wish | None:
    """What a sample asked for; nothing if its sandbox is not ours."""
    return _wishes.get(sample or "")


def show(sample: str | None, tools: list[Affordance]) -> None:
    """Remembers what a sample's model was given."""
    _tools.setdefault(sample or "", {}).update({tool.name: tool for tool in tools})


def called(name: str) -> Affordance:
    """What the sample under way calls by this name; by the name alone where nobody noted it."""
    active = sample_active()
    known = _tools.get(active.id, {}) if active is not None else {}
    return known.get(name) or affordance(name)


def forget(sample: str) -> None:
    """The sample has ended."""
    _wishes.pop(sample, None)
    _tools.pop(sample, None)
