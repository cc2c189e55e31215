"""Errors of the server, as it says them: RFC 9457 with a stable word and a hint."""

from __future__ import annotations

import json
from typing import Any

GONE = frozenset({"sandbox_gone", "not_found", "unavailable", "unauthorized", "unreachable"})
"""Words that mean: there is no sandbox to work in (any more)."""


class RingfenceProblem(RuntimeError):
    """A request that was not answered with what it asked for."""

    def __init__(self, code: str, detail: str, hint: str | None = None, **more: Any) -> None:
        self.code = code
        self.detail = detail
        self.hint = hint
        self.failure: str | None = more.get("failure")
        self.unmet: list[Any] = more.get("unmet") or []
        super().__init__(self._text())

    def _text(self) -> str:
        lines = [self.detail]
        # The first reason is part of the detail.
        for unmet in self.unmet[1:16]:
            reason = unmet.get("reason") if isinstance(unmet, dict) else None
            lines.append(f"also: {reason or unmet}")
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)

    @property
    def is_gone(self) -> bool:
        """Whether there is no sandbox to work in."""
        return self.code in GONE

    @classmethod
    def of(cls, status: int, content: bytes) -> RingfenceProblem:
        """Reads a problem; what is none becomes one."""
        try:
            body = json.loads(content[: 1 << 20])
        except ValueError:
            body = None
        if not isinstance(body, dict) or not isinstance(body.get("code"), str):
            return cls("unavailable", f"the server answered {status} without a reason")
        hint = body.get("hint")
        unmet = body.get("unmet")
        return cls(
            body["code"],
            str(body.get("detail") or body.get("title") or body["code"]),
            hint if isinstance(hint, str) else None,
            failure=body.get("failure"),
            unmet=unmet if isinstance(unmet, list) else [],
        )
