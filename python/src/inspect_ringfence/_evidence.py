"""From the samples of an eval to its audit chain, and from there into the closed log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
from inspect_ai.log import EvalSample, read_eval_log_async, write_eval_log_async

from . import _server
from ._audit import Chain
from ._problem import RingfenceProblem
from ._repack import repack

_LARGEST_LOG = 1 << 30
_MOST_PLANS = 64

_plans: dict[str, dict[str, Any]] = {}


def remember(made: dict[str, Any]) -> None:
    """Keeps the plan of a sandbox for the log's header; samples name it by its hash."""
    if len(_plans) < _MOST_PLANS:
        _plans.setdefault(str(made["plan_hash"]), made)


class Evidence:
    """What the samples of one eval tell."""

    def __init__(self, eval_id: str) -> None:
        self._eval_id = eval_id
        self._chain = Chain()
        self._plan: str | None = None
        self._flaw: str | None = None

    def see(self, sample: EvalSample) -> None:
        """Takes a sample that has ended."""
        of = {"sample": sample.id, "epoch": sample.epoch}
        for event in sample.events:
            if event.event == "info" and event.source == "ringfence" and isinstance(event.data, dict):
                self._see_ours(of, event.data)
            elif event.event == "approval":
                said = {"decision": event.decision, "tool": event.call.function, "approver": event.approver}
                self._add("approval", {**of, "data": said})
        if sample.limit is not None:
            self._add("limit", {**of, "data": {"type": sample.limit.type}})

    def _see_ours(self, of: dict[str, Any], data: dict[str, Any]) -> None:
        kind = data.get("event")
        if kind == "sandbox":
            plan, profile = str(data.get("plan_hash")), str(data.get("profile"))
            if self._plan is None:
                self._plan = plan
                self._add("start", {"eval_id": self._eval_id, "plan": plan, "profile": profile})
            elif plan != self._plan:
                self._flaw = "its samples have different plans"
            self._add("sandbox", {**of, "data": {"sandbox": data.get("sandbox"), "plan": plan}})
        elif kind == "refusal":
            self._add("refusal", {**of, "data": {"reason": data.get("reason")}})
        elif kind == "affordances":
            self._add("affordances", {**of, "data": {"tools": data.get("tools")}})
        elif kind == "network":
            for record in data.get("records") or []:
                self._add("network", {**of, "data": {"kind": "network", "record": record}})
            self._add("network_totals", {**of, "data": data.get("totals")})

    def _add(self, kind: str, data: dict[str, Any]) -> None:
        # The first line of a chain says which evaluation it is of.
        if self._plan is None or self._flaw is not None:
            return
        try:
            self._chain.add(kind, data)
        except ValueError as error:
            self._flaw = str(error)

    async def close(self, log: Path) -> str:
        """Puts plan and chain head into a closed log and signs it; where the receipt is."""
        made = _plans.get(self._plan or "")
        if made is None:
            raise RingfenceProblem("conflict", "no sandbox of it was made")
        if self._flaw is not None:
            raise RingfenceProblem("conflict", self._flaw)
        if log.suffix != ".eval":
            raise RingfenceProblem("conflict", "only logs of the format `eval` are signed")
        if (await anyio.Path(log).stat()).st_size > _LARGEST_LOG:
            raise RingfenceProblem("conflict", "it is too large to be written again")
        closed = await read_eval_log_async(str(log))
        plan = made["plan"]
        own = {name: plan.get(name) for name in ("controls", "affordances", "withheld", "residual", "image")}
        own |= {name: made.get(name) for name in ("requested", "profile", "plan_hash", "plan")}
        metadata = {**(closed.eval.metadata or {}), "ringfence": own}
        if (made.get("observed") or {}).get("state") == "probed":
            metadata["ringfence_observed"] = made["observed"]
        key = await _key()
        metadata["ringfence_receipt"] = (
            {"expected": True, "keyid": key} if key else {"expected": False, "reason": "there is no key"}
        )
        self._chain.add("end", {"samples": len(closed.samples or [])})
        metadata["ringfence_audit"] = self._chain.head()
        self._chain.write(log)
        closed.eval.metadata = metadata
        await write_eval_log_async(closed, str(log))
        await anyio.to_thread.run_sync(repack, log)
        if key is None:
            raise RingfenceProblem("no_key", "there is no key that signs receipts", "make one with `ringfence key new`")
        return await (await _server.server()).client.receipt(str(log))


async def _key() -> str | None:
    """The name of the key that signs, if there is one."""
    done = await anyio.run_process([_server.binary(), "key", "show", "--json"], check=False)
    try:
        keyid = json.loads(done.stdout)["keyid"]
    except (ValueError, KeyError, TypeError):
        return None
    return str(keyid)
