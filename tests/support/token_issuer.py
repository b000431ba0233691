"""An issuer of access tokens on loopback: its metadata and its keys over HTTP, and tokens that it signs, right or wrong.

Owns: `TokenIssuer`. Must never: be more lenient than a real one.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

RESOURCE = "https://gateway.example.com"


class TokenIssuer:
    """It serves from a thread, and counts how often its keys are asked for."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {
            "rsa": rsa.generate_private_key(65537, 2048),
            "ec": ec.generate_private_key(ec.SECP256R1()),
        }
        self.asked = 0
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

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # its name in the base class
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = Thread(target=self._server.serve_forever, daemon=True)

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
