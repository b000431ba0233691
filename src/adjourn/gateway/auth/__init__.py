"""Who asks: the ways by which a request of the gateway is authenticated, and what tries them in order.

    settings.py       `[auth]` of adjourn.toml; whose a name is
    authenticator.py  headers and peer in, a principal or a challenge out: API keys, a trusted proxy, access tokens
    tokens.py         access tokens of an OAuth issuer, its signing keys, and which of them are of people

Must never: pass a credential on, or say in a refusal whether something exists.
"""
