"""An authorization server and an MCP server that wants its tokens, both made with the SDK: `python oauth_server.py AUTHORITY_PORT PORT FOLDER`,
and the file of a certificate with its key, for TLS.

A person of the authorization server allows everything at once. `settings.json` in the folder, read at each request, says how it behaves;
`grants` gets a line for each request of a token, `calls` one for each effect.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
import time
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.auth.handlers.token import TokenErrorResponse
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.routes import build_metadata, create_auth_routes
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from mcp.types import ToolAnnotations
from pydantic import AnyHttpUrl, AnyUrl
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

AUTHORITY_PORT, PORT, FOLDER = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
CERTIFICATE = sys.argv[4] if len(sys.argv) > 4 else None
SCHEME = "https" if CERTIFICATE else "http"
ISSUER, URL = f"{SCHEME}://127.0.0.1:{AUTHORITY_PORT}", f"{SCHEME}://127.0.0.1:{PORT}/mcp"
SCOPES = ["mcp", "write"]
REGISTRATION = ClientRegistrationOptions(enabled=True, valid_scopes=SCOPES, default_scopes=["mcp"])
REVOCATION = RevocationOptions(enabled=True)


def setting(name: str, otherwise: Any) -> Any:
    """`lifetime` of access tokens in seconds, `revoked` and `ended`: access and refresh tokens from before that time are refused,
    `audience` of new tokens, `late`: seconds that the answer to a renewal takes after it was made, `open`: the first question of a client needs no token.
    """
    try:
        return json.loads((FOLDER / "settings.json").read_text()).get(name, otherwise)
    except FileNotFoundError:
        return otherwise


def note(name: str, text: str) -> None:
    with (FOLDER / name).open("a", encoding="utf-8") as file:
        file.write(f"{text}\n")


class Authority(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """Keeps everything in memory. A refresh token is good for one use."""

    def __init__(self) -> None:
        self.clients = {
            "known": OAuthClientInformationFull(
                client_id="known", client_secret="of-known", redirect_uris=[AnyUrl("http://127.0.0.1:8931/callback")],
                token_endpoint_auth_method="client_secret_basic", scope="mcp write",
            )
        }  # fmt: skip
        self.codes: dict[str, AuthorizationCode] = {}
        self.tokens: dict[str, AccessToken] = {}
        self.refreshes: dict[str, RefreshToken] = {}
        self.made: dict[str, float] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        note("grants", "register")
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        note("grants", f"authorize {params.resource} {' '.join(params.scopes or ())}")
        if setting("denied", otherwise=False):
            return construct_redirect_uri(str(params.redirect_uri), error="access_denied", state=params.state)
        code = self._code(client.client_id, params.scopes or ["mcp"], params)
        issuer = setting("iss", ISSUER)
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state, iss=issuer)

    def _code(self, client: str, scopes: list[str], params: AuthorizationParams) -> str:
        code = secrets.token_urlsafe(24)
        self.codes[code] = AuthorizationCode(
            code=code, scopes=scopes, expires_at=time.time() + 60, client_id=client, code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri, redirect_uri_provided_explicitly=True, resource=params.resource,
        )  # fmt: skip
        return code

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        note("grants", "code")
        return self.issue(client.client_id, authorization_code.scopes, authorization_code.resource)

    def issue(self, client: str, scopes: list[str], resource: str | None) -> OAuthToken:
        lifetime, token, refresh = (setting("lifetime", 3600), secrets.token_urlsafe(24), secrets.token_urlsafe(24))
        self.tokens[token] = AccessToken(
            token=token, client_id=client, scopes=scopes, expires_at=int(time.time() + lifetime),
            resource=setting("audience", resource), subject="ann",
        )  # fmt: skip
        self.refreshes[refresh] = RefreshToken(token=refresh, client_id=client, scopes=scopes, resource=resource)
        self.made[token] = self.made[refresh] = time.time()
        return OAuthToken(access_token=token, expires_in=lifetime, scope=" ".join(scopes), refresh_token=refresh)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        is_ended = self.made.get(refresh_token, 0) < setting("ended", 0)
        return None if is_ended else self.refreshes.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        if self.refreshes.pop(refresh_token.token, None) is None:
            raise TokenError("invalid_grant", "used before")
        note("grants", "refresh")
        made = self.issue(client.client_id, scopes, refresh_token.resource)
        await asyncio.sleep(setting("late", 0))
        return made

    async def load_access_token(self, token: str) -> AccessToken | None:
        found = self.tokens.get(token)
        if found is None or self.made[token] < setting("revoked", 0) or (found.expires_at or 0) < time.time():
            return None
        return found

    async def verify_token(self, token: str) -> AccessToken | None:
        return await self.load_access_token(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        note("grants", "revoke")
        self.refreshes.pop(token.token, None)


class WantsRights:
    """Refuses the tool `write` without the right of that name, as RFC 6750 says."""

    def __init__(self, app: ASGIApp, authority: Authority) -> None:
        self._app = app
        self._authority = authority

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        message = await receive()
        token = dict(scope["headers"]).get(b"authorization", b"").decode().removeprefix("Bearer ")
        found = await self._authority.load_access_token(token)
        if found is None and b'"server/discover"' in message["body"] and setting("open", otherwise=False):
            await JSONResponse({}, 400)(scope, receive, send)
            return
        if b'"write"' in message["body"] and found is not None and "write" not in found.scopes:
            challenge = 'Bearer error="insufficient_scope", scope="write"'
            await JSONResponse({}, 403, {"WWW-Authenticate": challenge})(scope, receive, send)
            return
        given = [message]

        async def again() -> Any:
            return given.pop() if given else await receive()

        await self._app(scope, again, send)


def authority_app(authority: Authority) -> Starlette:
    metadata = build_metadata(AnyHttpUrl(ISSUER), None, REGISTRATION, REVOCATION).model_dump(
        mode="json", exclude_none=True
    )
    metadata |= {"issuer": ISSUER}
    routes = create_auth_routes(authority, AnyHttpUrl(ISSUER), None, REGISTRATION, REVOCATION)
    sdk_token = next(route for route in routes if route.path == "/token")

    async def well_known(_request: Request) -> Response:
        return JSONResponse(metadata | setting("metadata", {}))

    async def token(request: Request) -> Response:
        await request.body()  # so that it can be read twice
        if setting("down", otherwise=False):
            return JSONResponse(TokenErrorResponse(error="invalid_request").model_dump(), 503)
        return await forwarded(sdk_token.app, request)

    return Starlette(
        routes=[
            Route("/.well-known/oauth-authorization-server", well_known),
            Route("/token", token, methods=["POST"]),
            *(route for route in routes if route.path not in ("/token", "/.well-known/oauth-authorization-server")),
        ]
    )  # fmt: skip


async def forwarded(app: ASGIApp, request: Request) -> Response:
    """What another application answers to a request whose body was read."""
    body, sent = await request.body(), []

    async def receive() -> Any:
        return {"type": "http.request", "body": body}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(request.scope, receive, send)
    return Response(
        b"".join(message.get("body", b"") for message in sent[1:]),
        sent[0]["status"],
        {name.decode(): value.decode() for name, value in sent[0]["headers"]},
    )


def resource_app(authority: Authority) -> ASGIApp:
    settings = {"issuer_url": ISSUER, "resource_server_url": URL, "required_scopes": ["mcp"]}
    auth = AuthSettings.model_validate(settings | {"validate_token_resource": True})
    server = MCPServer("up", auth=auth, token_verifier=authority)

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    def echo(text: str) -> str:
        return text

    @server.tool()
    def write(text: str) -> str:
        note("calls", text)
        return "written"

    return WantsRights(server.streamable_http_app(), authority)


async def main() -> None:
    authority = Authority()
    apps = ((resource_app(authority), PORT), (authority_app(authority), AUTHORITY_PORT))
    servers = [
        uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning", ssl_certfile=CERTIFICATE))
        for app, port in apps
    ]
    await asyncio.gather(*(server.serve() for server in servers))


if __name__ == "__main__":
    asyncio.run(main())
