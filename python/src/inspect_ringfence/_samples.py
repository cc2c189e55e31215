"""Which sandbox the samples under way asked for: a sample may have its own, stricter or where its task has none."""

from __future__ import annotations

from inspect_ai.log._samples import sample_active

from ._wish import Wish

_wishes: dict[str, Wish] = {}


def note(wish: Wish) -> None:
    """Remembers what the sample under way asked for."""
    active = sample_active()
    if active is not None:
        _wishes[active.id] = wish


def wish_of(sample: str | None) -> Wish | None:
    """What a sample asked for; nothing if its sandbox is not ours."""
    return _wishes.get(sample or "")


def forget(sample: str) -> None:
    """The sample has ended."""
    _wishes.pop(sample, None)
