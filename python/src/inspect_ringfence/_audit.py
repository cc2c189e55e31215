"""The audit chain of a log: lines, each with the hash of the one before, as `ringfence log verify` reads them."""

from __future__ import annotations

import hashlib
import json
import os
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

_MOST_LINES = 500_000
_LONGEST = 16 << 20


class Chain:
    """What was decided in one eval. It is kept in memory: Inspect says where the log is only at its end."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._hash = "0" * 64

    def add(self, kind: str, data: dict[str, Any]) -> None:
        """Adds a line."""
        if len(self._lines) >= _MOST_LINES:
            raise ValueError(f"an audit chain of more than {_MOST_LINES} lines")
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        line = {"seq": len(self._lines) + 1, "time": now, "kind": kind, "data": plain(data), "prev": self._hash}
        digest = hashlib.sha256(canonical(line)).hexdigest()
        text = canonical({**line, "hash": digest})
        if len(text) >= _LONGEST:
            raise ValueError("a line of the audit chain is too long")
        self._lines.append(text)
        self._hash = digest

    def head(self) -> dict[str, Any]:
        """Where it ends; belongs into the log."""
        return {"count": len(self._lines), "hash": self._hash}

    def write(self, log: Path) -> Path:
        """Puts it beside the log; one that is there stays."""
        path = log.with_suffix(".audit.jsonl")
        with path.open("xb") as file:
            file.writelines(line + b"\n" for line in self._lines)
            file.flush()
            os.fsync(file.fileno())
        return path


def canonical(value: Any) -> bytes:
    """RFC 8785, for values without fractions."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode("utf-8", "replace")


def plain(value: Any) -> Any:
    """The value without fractions, whose one form is hard to agree on."""
    if isinstance(value, dict):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int) and abs(value) < 1 << 53:
        return value
    return str(value)
