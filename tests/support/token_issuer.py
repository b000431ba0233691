"""An issuer of access tokens on loopback: its metadata and its keys over HTTP, and tokens that it signs, right or wrong.

Owns: `TokenIssuer`. Must never: be more lenient than a real one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self
from urllib.parse import parse_qsl

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

RESOURCE = "https://gateway.example.com"
CLIENT = "Basic Z2F0ZXdheTpvZi1nYXRld2F5"
"""The client `gateway` with the secret `of-gateway`."""


class TokenIssuer:
    """It serves from a thread, and counts how often its keys are asked for."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {
            "rsa": rsa.generate_private_key(65537, 2048),
            "ec": ec.generate_private_key(ec.SECP256R1()),
        }
        self.asked = 0
        self.opaque: dict[str, dict[str, Any]] = {}
        """What `/introspect` says of tokens, by the token."""
        self.posted: list[tuple[str, dict[str, str]]] = []
        self.answers: dict[str, Callable[[dict[str, str]], tuple[int, Any]]] = {"/token": self._exchange}
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/.well-known/oauth-authorization-server":
                    body: dict[str, Any] = {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/jwks"}
                elif self.path == "/jwks":
                    issuer.asked += 1
                    body = issuer.public()
                else:
                    self.send_error(404)
                    return
                data = json.dumps(body).encode()
                self.send_response(200)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_POST(self) -> None:
                form = dict(parse_qsl(self.rfile.read(int(self.headers["content-length"])).decode()))
                issuer.posted.append((self.path, form))
                is_client = self.headers["authorization"] == CLIENT
                status, body = issuer.answers.get(self.path, issuer.answer)(form) if is_client else (401, {})
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its name in the base class
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = Thread(target=self._server.serve_forever, daemon=True)

    def answer(self, form: dict[str, str]) -> tuple[int, Any]:
        """What a token means (RFC 7662)."""
        return 200, self.opaque.get(form["token"], {"active": False})

    @staticmethod
    def _exchange(form: dict[str, str]) -> tuple[int, Any]:
        """A token for another server that says whose it was made of (RFC 8693)."""
        if form.get("grant_type") != "urn:ietf:params:oauth:grant-type:token-exchange":
            return 400, {"error": "unsupported_grant_type"}
        claims = jwt.decode(form["subject_token"], options={"verify_signature": False})
        kind = "urn:ietf:params:oauth:token-type:access_token"
        access = f"{claims['sub']}-at-{form['audience']}"
        return 200, {"access_token": access, "issued_token_type": kind, "token_type": "Bearer", "expires_in": 300}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def public(self) -> dict[str, Any]:
        """The set of its public keys."""
        listed = []
        for name, key in self.keys.items():
            algorithm: Any = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
            listed.append(json.loads(algorithm.to_jwk(key.public_key())) | {"kid": name, "use": "sig"})
        return {"keys": listed}

    def token(
        self, claims: Mapping[str, Any] | None = None, *, key: Any = None, algorithm: str = "RS256", **headers: Any
    ) -> str:
        """A token for the gateway, for an hour. `claims` change it (None leaves one out); `key` signs in the place of its own."""
        now = int(time.time())
        said: dict[str, Any] = {
            "iss": self.url, "sub": "u1", "aud": RESOURCE, "exp": now + 3600, "iat": now, "scope": "mcp",
            "preferred_username": "ann", "groups": ["ops"],
        }  # fmt: skip
        said |= claims or {}
        said = {name: value for name, value in said.items() if value is not None}
        name = "ec" if algorithm == "ES256" else "rsa"
        signing = self.keys[name] if key is None else key
        return jwt.encode(said, signing, algorithm=algorithm, headers={"kid": name, "typ": "at+jwt"} | headers)
