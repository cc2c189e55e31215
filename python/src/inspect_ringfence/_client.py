"""The HTTP API of `ringfence serve`, as Python calls it."""

from __future__ import annotations

import asyncio
import base64
import json
import math
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import httpx

from ._problem import RingfenceProblem

MAX_STDIN = 64 << 20
"""What a command can be given at once."""
_MOST_CONNECTIONS = 512


@dataclass(frozen=True)
class Completed:
    """A command that ended."""

    outcome: str
    code: int | None
    signal: int | None
    stdout: bytes
    stderr: bytes
    truncated: bool


class Client:
    """Requests on one socket, within one session. Connections belong to the event loop that opened them."""

    def __init__(self, socket: str, session: str) -> None:
        self._socket = socket
        self._headers = {"Ringfence-Session": session}
        self._clients: WeakKeyDictionary[Any, httpx.AsyncClient] = WeakKeyDictionary()

    async def request(self, method: str, path: str, **more: Any) -> httpx.Response:
        """One request; a problem is raised, and so is a server that is not there."""
        client, is_kept = self._client()
        try:
            response = await client.request(method, path, **more)
        except httpx.TransportError as error:
            text = str(error) or type(error).__name__
            hint = "it was ended or has crashed; the next sample starts another"
            raise RingfenceProblem("unreachable", f"the ringfence server does not answer: {text}", hint) from error
        finally:
            if not is_kept:
                await client.aclose()
        if response.status_code >= 400:
            raise RingfenceProblem.of(response.status_code, response.content)
        return response

    def _client(self) -> tuple[httpx.AsyncClient, bool]:
        try:
            loop: Any = asyncio.get_running_loop()
        except RuntimeError:
            # Another backend: its connections are not kept, because there is nothing to keep them by.
            return self._open(), False
        client = self._clients.get(loop)
        if client is None:
            client = self._clients[loop] = self._open()
        return client, True

    def _open(self) -> httpx.AsyncClient:
        limits = httpx.Limits(max_connections=_MOST_CONNECTIONS, max_keepalive_connections=64, keepalive_expiry=30)
        return httpx.AsyncClient(
            transport=httpx.AsyncHTTPTransport(uds=self._socket, limits=limits),
            base_url="http://localhost",
            headers=self._headers,
            # Commands may take as long as they like; their own time limits end them.
            timeout=httpx.Timeout(None, connect=10),
        )

    async def create(self, body: dict[str, Any]) -> dict[str, Any]:
        """Makes a sandbox."""
        return _mapping(await self.request("POST", "/v1/sandboxes", json=body))

    async def delete(self, sandbox: str) -> None:
        """Ends a sandbox; when this returns, nothing of it is left."""
        await self.request("DELETE", f"/v1/sandboxes/{sandbox}")

    async def totals(self, sandbox: str) -> dict[str, Any]:
        """Sums over what its network did."""
        return _mapping(await self.request("GET", f"/v1/sandboxes/{sandbox}/totals"))

    async def records(self, sandbox: str) -> dict[str, Any]:
        """What its network did, the first thousand records, and how many there are not."""
        answer = _mapping(await self.request("GET", f"/v1/sandboxes/{sandbox}/records"))
        return {"records": answer.get("records") or [], "dropped": answer.get("dropped")}

    async def exec(self, sandbox: str, wish: dict[str, Any], stdin: bytes | None) -> Completed:
        """Runs a command to its end."""
        if stdin is not None:
            if len(stdin) > MAX_STDIN:
                raise ValueError(f"standard input of more than {MAX_STDIN} bytes\nhint: write it to a file first")
            wish = {**wish, "stdin_base64": base64.b64encode(stdin).decode("ascii")}
        answer = _mapping(await self.request("POST", f"/v1/sandboxes/{sandbox}/exec", json=wish))
        return Completed(
            outcome=str(answer.get("outcome")),
            code=answer.get("code"),
            signal=answer.get("signal"),
            stdout=base64.b64decode(answer.get("stdout_base64") or ""),
            stderr=base64.b64decode(answer.get("stderr_base64") or ""),
            truncated=bool(answer.get("truncated")),
        )

    async def read(self, sandbox: str, service: str, path: str, limit: int) -> bytes:
        """Reads a file."""
        query = {"path": path, "service": service, "limit": str(min(limit, 4 << 30))}
        return (await self.request("GET", f"/v1/sandboxes/{sandbox}/files", params=query)).content

    async def write(self, sandbox: str, service: str, path: str, content: bytes) -> None:
        """Writes a file, making its parents."""
        query = {"path": path, "service": service}
        headers = {"Content-Type": "application/octet-stream"}
        await self.request("PUT", f"/v1/sandboxes/{sandbox}/files", params=query, content=content, headers=headers)

    async def receipt(self, log: str) -> str:
        """Signs a closed log; where the receipt is."""
        return str(_mapping(await self.request("POST", "/v1/receipts", json={"log": log})).get("receipt"))


def _mapping(response: httpx.Response) -> dict[str, Any]:
    try:
        answer = json.loads(response.content)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise RingfenceProblem("unavailable", "the server's answer is not what was agreed")
    return answer


def seconds(timeout: float) -> float:
    """A time limit as the server takes it: more than nothing, at most a week."""
    return min(max(timeout, 0.001), 7 * 24 * 3600.0) if math.isfinite(timeout) else 7 * 24 * 3600.0
