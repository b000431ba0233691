"""The device flow (RFC 8628): the person allows the access in a browser anywhere, with a code that is shown here.

Owns: its two requests. Must never: ask more often than the authorization server permits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Annotated

import httpx2
import msgspec
from mcp.client.auth.oauth2 import OAuthContext
from msgspec import Meta

from adjourn.errors import RefusedError
from adjourn.gateway.login.guarded import check_address

GRANT = "urn:ietf:params:oauth:grant-type:device_code"
MAX_SECONDS = 1800
_SLOWER = 5.0
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}


class _Device(msgspec.Struct):
    """RFC 8628, section 3.2."""

    device_code: str
    user_code: Annotated[str, Meta(max_length=100)]
    verification_uri: Annotated[str, Meta(max_length=2000)]
    expires_in: Annotated[float, Meta(gt=0)] = 600
    interval: Annotated[float, Meta(ge=0, le=300)] = 5


class _Refusal(msgspec.Struct):
    error: str = ""


class DeviceFlow:
    """One login by a code. `say` shows a line to the person."""

    def __init__(self, client: httpx2.AsyncClient, say: Callable[[str], None]) -> None:
        self._client = client
        self._say = say
        self._until = 0.0
        self._interval = 5.0

    async def begin(self, context: OAuthContext, endpoint: str, token_endpoint: str) -> httpx2.Request:
        """Show the code to the person; returns the request for the token. Raises `RefusedError`."""
        assert context.client_info is not None
        data = {"client_id": context.client_info.client_id}
        if context.client_metadata.scope:
            data["scope"] = context.client_metadata.scope
        data["resource"] = context.get_resource_url()
        data, headers = context.prepare_token_auth(data, dict(_FORM))
        answer = await self._client.post(endpoint, data=data, headers=headers)
        try:
            if answer.status_code != 200:
                raise msgspec.ValidationError(
                    f"HTTP status {answer.status_code}"
                )  # told like an answer that cannot be read
            device = msgspec.json.decode(answer.content, type=_Device)
        except msgspec.MsgspecError as error:
            raise RefusedError(
                f"the authorization server began no device login: {error}", "log in with a browser"
            ) from error
        check_address(device.verification_uri, context.server_url)
        self._interval = device.interval
        self._until = time.monotonic() + min(device.expires_in, MAX_SECONDS)
        self._say(f"Open {device.verification_uri} in a browser anywhere, and enter the code:\n\n  {device.user_code}\n")  # fmt: skip
        data = {
            "grant_type": GRANT,
            "device_code": device.device_code,
            "client_id": context.client_info.client_id,
            "resource": context.get_resource_url(),
        }
        data, headers = context.prepare_token_auth(data, dict(_FORM))
        await asyncio.sleep(self._interval)
        return httpx2.Request("POST", token_endpoint, data=data, headers=headers)

    async def wait(self, response: httpx2.Response) -> httpx2.Response:
        """Ask again while the person has not answered; returns the answer. Raises `RefusedError` where there is none in time."""
        request = response.request
        while (why := _refusal(response)) in ("authorization_pending", "slow_down"):
            if why == "slow_down":
                self._interval += _SLOWER
            if time.monotonic() > self._until:
                raise RefusedError("nobody entered the code in time", "log in again")
            await asyncio.sleep(self._interval)
            response = await self._client.send(
                httpx2.Request(request.method, request.url, headers=request.headers, content=request.content)
            )
        return response


def _refusal(response: httpx2.Response) -> str:
    if response.status_code != 400:
        return ""
    try:
        return msgspec.json.decode(response.content, type=_Refusal).error
    except msgspec.MsgspecError:
        return ""
