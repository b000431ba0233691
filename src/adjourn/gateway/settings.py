"""`adjourn.toml`: the servers behind a gateway, and where it listens.

    listen = "127.0.0.1:8080"

    [servers.tracker]
    url = "https://tracker.example.com/mcp"

    [servers.files]
    command = ["npx", "-y", "@modelcontextprotocol/server-filesystem", "."]

    [auth]
    keys = true
    shared = ["ops"]

    [auth.oauth]
    issuer = "https://login.example.com"
    resource = "https://gateway.example.com"
    provider = "keycloak"

    [auth.proxy]
    trusted = ["10.0.0.7"]
    header = "x-client-name"

Must never: start or reach a server, or an issuer.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from ipaddress import ip_network
from typing import Annotated, Literal
from urllib.parse import parse_qsl, urlsplit

import msgspec
from msgspec import Meta

from adjourn.errors import InvalidError
from adjourn.gateway.limits import LoadLimits
from adjourn.host.workspace import read_file
from adjourn.store.url import is_postgres

MAX_BYTES = 1024 * 1024
SERVER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_LISTEN = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9.-]+):(\d{1,5})")

_SECRET = re.compile(
    r"key|cert|token|secret|passw|passfile|credential|netrc|oauth|\.(?:pem|p12|pfx|jks|crt|der)$", re.IGNORECASE
)
"""What says of an option, a variable or a file that there is a secret in the file."""
_OF_URL = ("passfile", "servicefile", "sslcert", "sslkey")
_OF_ENVIRONMENT = ("PGPASSFILE", "PGSERVICEFILE", "PGSSLCERT", "PGSSLKEY")
_USUAL = ("~/.pgpass", "~/.pg_service.conf", "~/.postgresql")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_HEADER = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,100}")
_TRANSPORT = frozenset((
    "accept", "connection", "content-length", "content-type", "host", "last-event-id", "te", "trailer", "transfer-encoding", "upgrade",
))  # fmt: skip
"""Headers that are the transport's own."""


class MetricsSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[metrics]`. On the address `listen` are these pages and nothing else."""

    listen: str = ""
    shared: bool = False


class TracesSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[traces]`. Without an endpoint there are none."""

    endpoint: str = ""
    sample: Annotated[float, Meta(ge=0, le=1)] = 1.0


class ClientSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An endpoint of an authorization server at `url`, where the gateway is the `client` with the secret that the variable `secret_env` has."""

    url: str
    client: str
    secret_env: str


class ExchangeSettings(ClientSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[servers.NAME.exchange]`: a client's token is exchanged for one that the server gets: for this `audience` or `resource`, with these
    `scopes`.
    """

    audience: str = ""
    resource: str = ""
    scopes: tuple[str, ...] = ()


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One server: the `url` where it is reached over HTTP, or the `command` that starts it. `seconds` is how long it may take to answer.

    `bearer_env` and `headers_env` name the variables that have its token and its headers' values. `login`: it gets the token of the login
    that the gateway's user has there (`adjourn serve login`). `exchange`: it gets one for each person, made from that person's.

    Over https, `ca` is the file with those that sign the server's certificate (default: the system's), `certificate` and `key` are the
    gateway's own, and `proxy` makes the connection: "direct" for none, "" for what HTTPS_PROXY and NO_PROXY say.

    A command gets the variables `env`, and those of `env_from`, each with the gateway's variable that has its value. There are at most so
    many `processes` of it: one for each session, or, if it is `shared`, one for all of them.
    """

    url: str = ""
    command: tuple[str, ...] = ()
    seconds: Annotated[int, Meta(ge=1, le=86_400)] = 600
    bearer_env: str = ""
    headers_env: dict[str, str] = {}
    ca: str = ""
    certificate: str = ""
    key: str = ""
    proxy: str = ""
    env: dict[str, str] = {}
    env_from: dict[str, str] = {}
    shared: bool = False
    processes: Annotated[int, Meta(ge=1, le=20_000)] = 200
    login: bool = False
    exchange: ExchangeSettings | None = None

    @property
    def variables(self) -> frozenset[str]:
        """The variables of the environment with its secrets."""
        return frozenset(filter(None, (self.bearer_env, *self.headers_env.values())))


class PageSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The page where people answer as themselves: it has the address `listen` ("": there is none), and browsers reach it at `origin`."""

    listen: str = ""
    origin: str = ""

    @property
    def address(self) -> tuple[str, int]:
        """Host and port to listen on."""
        return address_of(self.listen)

    @property
    def public(self) -> str:
        """The address that browsers have."""
        return self.origin or f"http://{self.listen}"


class AuthorizeSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[authorize]`. Another gateway asks at the address `listen` before each call; "": none does."""

    listen: str = ""


class GatewaySettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The whole file. `hosts` are further names under which clients reach the gateway, as behind a reverse proxy. `auth` is how they
    authenticate; without it, only this machine's may come.
    """

    servers: dict[str, ServerSettings] = {}
    listen: str = "127.0.0.1:8080"
    hosts: tuple[str, ...] = ()
    limits: LoadLimits = LoadLimits()
    log: Literal["json", "text"] = "text"
    metrics: MetricsSettings = MetricsSettings()
    traces: TracesSettings = TracesSettings()
    auth: AuthSettings | None = None
    page: PageSettings = PageSettings()
    authorize: AuthorizeSettings = AuthorizeSettings()

    @property
    def address(self) -> tuple[str, int]:
        """Host and port to listen on."""
        return address_of(self.listen)


def address_of(listen: str) -> tuple[str, int]:
    """Its host and port."""
    host, _, port = listen.rpartition(":")
    return host.strip("[]"), int(port)


def secret_files(settings: GatewaySettings, folder: str) -> tuple[str, ...]:
    """The files and folders with keys, certificates, tokens or passwords that servers' commands and variables name, by the name of an
    option, of a variable or of the file itself. Relative ones are of `folder`, where commands start.
    """
    places: dict[str, None] = {}
    for server in settings.servers.values():
        for name in filter(None, (server.ca, server.certificate, server.key)):
            places[os.path.normpath(os.path.join(folder, os.path.expanduser(name)))] = None
        words = server.command[1:]
        options = ("", *(word if word.startswith("-") else "" for word in words))
        for option, word in (*zip(options, words, strict=False), *server.env.items()):
            name, _, value = word.rpartition("=")
            place = os.path.normpath(os.path.join(folder, os.path.expanduser(value)))
            is_around = f"{folder.rstrip('/')}/".startswith(f"{place.rstrip('/')}/")
            is_named = _SECRET.search(name or option) is not None and os.path.lexists(place)
            is_one = _SECRET.search(os.path.basename(place)) is not None and os.path.isfile(place)
            if value and not is_around and (is_named or is_one):
                places[place] = None
    return tuple(places)


def store_files(url: str, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The files with keys and passwords that open a PostgreSQL store: those that its URL or a variable names, and the usual ones."""
    if not is_postgres(url):
        return ()
    named = [value for name, value in parse_qsl(urlsplit(url).query) if name in _OF_URL]
    named += [environment[name] for name in _OF_ENVIRONMENT if environment.get(name)]
    return tuple(os.path.abspath(os.path.expanduser(name)) for name in (*named, *_USUAL))


def read_settings(path: str) -> GatewaySettings:
    """Read the file. Raises `NotFoundError`, `InvalidError`, which name what is wrong."""
    return settings_of(read_file(path, MAX_BYTES), path)


def settings_of(data: bytes, path: str) -> GatewaySettings:
    """The settings that a file at `path` has or will have. Raises `InvalidError`."""
    try:
        settings = msgspec.convert(tomllib.loads(data.decode()), GatewaySettings)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise InvalidError(f"{path}: {error}", "see the reference of `adjourn serve`") from error
    check(settings, path)
    return settings


def check(settings: GatewaySettings, source: str) -> None:
    """Raises `InvalidError` for a name, an address or a server that cannot be used."""
    if not (settings.servers or settings.authorize.listen):
        raise InvalidError(f"{source} names no server", 'add one: [servers.NAME] with url = "…" or command = […]')
    for what, remedy in _problems(settings):
        raise InvalidError(f"{source}: {what}", remedy)


Problems = Iterator[tuple[str, str]]
"""What is wrong, and what to do: whoever reads the first one reads no further."""


def _problems(settings: GatewaySettings) -> Problems:
    yield from _address_problems(settings.listen)
    if settings.metrics.listen:
        yield from _address_problems(settings.metrics.listen)
        if settings.address[1] == address_of(settings.metrics.listen)[1]:
            remedy = "use another port, or shared = true in place of it"
            yield "metrics.listen has the port of listen", remedy
    if settings.page.listen:
        yield from _page_problems(settings)
    if settings.authorize.listen:
        yield from _address_problems(settings.authorize.listen)
        if settings.authorize.listen in (settings.listen, settings.metrics.listen, settings.page.listen):
            yield "authorize.listen is the address of another listener", "use a port that no other listen has"
    if settings.auth is not None:
        yield from _auth_problems(settings.auth)
    for name, server in settings.servers.items():
        if server.exchange is not None:
            yield from _exchange_problems(server, server.exchange, name, settings.auth)
        if SERVER_NAME.fullmatch(name) is None:
            yield f"{name[:80]!r} is not a server's name", "use letters, digits, - and _, at most 64"
        yield from _server_problems(server, name)


def _server_problems(server: ServerSettings, name: str) -> Problems:
    if bool(server.url) is bool(server.command):
        yield f"server {name} needs either a url or a command", "give one of the two"
    url = urlsplit(server.url)
    if server.url and (url.scheme not in ("http", "https") or not url.hostname):
        yield f"the url of {name} is {server.url[:80]!r}", "use http://HOST/PATH or https://HOST/PATH"
    if server.variables and not server.url:
        variables = ", ".join(sorted(server.variables))
        remedy = 'name what the command needs in env_from, such as env_from = {TRACKER_TOKEN = "TRACKER_TOKEN"}'
        yield f"{name} is a command, and has {variables} for a server over HTTP", remedy
    yield from _variable_problems(server, name)
    yield from _network_problems(server, name)
    if server.shared and not server.command:
        yield f"{name} is shared, and is not a command", "leave shared out: a url is reached by all sessions"
    if server.login and (not server.url or server.bearer_env):
        other = "bearer_env" if server.url else "command"
        yield f"server {name} has both login and {other}", "leave one of the two out"
    for header in server.headers_env:
        is_ours = header.lower() in _TRANSPORT or header.lower().startswith("mcp-")
        if is_ours or _HEADER.fullmatch(header) is None:
            yield f"{name} cannot be sent the header {header[:80]!r}", "name another header"


def _exchange_problems(
    server: ServerSettings, exchange: ExchangeSettings, name: str, auth: AuthSettings | None
) -> Problems:
    if not server.url or server.bearer_env or server.login:
        yield f"server {name} has exchange beside command, bearer_env or login", "leave one of the two out"
    if auth is None or auth.oauth is None:
        yield f"server {name} has exchange, and [auth.oauth] is missing", "name the issuer of the clients' tokens there"
    for member, url in (("the url", server.url), ("exchange.url", exchange.url)):
        yield from _insecure(f"{member} of {name}", url)
    yield from _client_problems(exchange, f"exchange of {name}")


def _client_problems(client: ClientSettings, where: str) -> Problems:
    if not client.client or _VARIABLE.fullmatch(client.secret_env) is None:
        yield f"{where} names no client or no variable", "set client, and secret_env to the variable with its secret"


def _insecure(where: str, url: str) -> Problems:
    try:
        check_secure(url)
    except InvalidError as error:
        yield f"{where}: {error.message}", error.remedy


def _network_problems(server: ServerSettings, name: str) -> Problems:
    if (server.ca or server.certificate or server.key or server.proxy) and urlsplit(server.url).scheme != "https":
        yield f"{name} has ca, certificate, key or proxy, and no https url", "leave them out"
    if server.key and not server.certificate:
        yield f"{name} has a key without a certificate", "name the file of the certificate in certificate"
    proxy = urlsplit(server.proxy)
    if server.proxy not in ("", "direct") and (proxy.scheme != "http" or not proxy.hostname or "@" in proxy.netloc):
        remedy = 'write http://HOST:PORT, or "direct"; a proxy with a password is named by HTTPS_PROXY'
        yield f"the proxy of {name} cannot be used", remedy


def _variable_problems(server: ServerSettings, name: str) -> Problems:
    if (server.env or server.env_from) and not server.command:
        yield f"{name} has variables, and is not a command", "use bearer_env and headers_env for a url"
    for variable in (*server.env, *server.env_from, *server.env_from.values()):
        if _VARIABLE.fullmatch(variable) is None or variable.startswith("ADJOURN_"):
            yield f"{name} cannot have the variable {variable[:80]!r}", "use letters, digits and _"
    for variable, value in server.env.items():
        if "\0" in value or variable in server.env_from:
            yield f"{name} has no usable value for {variable}", "give it once, in env or in env_from"


def _address_problems(listen: str) -> Problems:
    match = _LISTEN.fullmatch(listen)
    if match is None or int(match[2]) > 65_535:
        yield f"listen is {listen[:80]!r}", 'write HOST:PORT, such as "127.0.0.1:8080"'


def _page_problems(settings: GatewaySettings) -> Problems:
    page = settings.page
    others = [settings.listen, *filter(None, (settings.metrics.listen,))]
    yield from _address_problems(page.listen)
    if settings.auth is None:
        yield "page.listen is set, and [auth] is missing", "add [auth], or leave page.listen out"
    if page.address[1] in [address_of(listen)[1] for listen in others]:
        yield "page.listen has the port of another listener", "use a port that no other listen has"
    parts = urlsplit(page.public)
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
    if not is_safe or page.public != f"{parts.scheme}://{parts.netloc}":
        remedy = 'write the https address that browsers have, without a path, such as "https://inbox.example.com"'
        yield f"page.origin is {page.public[:80]!r}, where keys would be sent unencrypted", remedy


# --- how clients authenticate

_PROXY_HEADER = re.compile(r"[a-z0-9-]{1,64}")
_TAKEN = frozenset(("authorization", "host", "origin", "cookie", "content-type", "content-length"))
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class PersonSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A `claim` that says that a token is a person's, where it is one of `values` or a list with one of them."""

    claim: str
    values: tuple[str, ...]


class IntrospectionSettings(ClientSettings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the issuer says what a token means that is no JSON Web Token. What it said holds for `seconds`, and no longer than the token."""

    seconds: Annotated[int, Meta(ge=1, le=300)] = 60


class OAuthSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An issuer of access tokens. `resource` is the URL under which clients reach the gateway, without a path; tokens are for it, for an
    address below it, or for one of `audience`. A token must have all `scopes`. `keys` is the address of the issuer's signing keys (default:
    what its metadata says). `name` is the claim with the name that is shown, `groups` the one with the groups; a dot leads into an object.
    Clocks may differ by `leeway` seconds.

    A bearer is a service, unless `provider` or `person` tells that it is a person; where both are there, both have to.
    """

    issuer: str
    resource: str
    audience: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    keys: str = ""
    name: str = "preferred_username"
    groups: str = "groups"
    leeway: Annotated[int, Meta(ge=0, le=300)] = 30
    provider: Literal["", "auth0", "entra", "keycloak", "okta"] = ""
    person: PersonSettings | None = None
    introspection: IntrospectionSettings | None = None


class ForwardedSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A proxy in front that authenticates clients, as by TLS certificates, and says in a `header` who they are.

    Only what comes from a `trusted` address or network counts. `groups` is a header with group names, with commas between.
    """

    trusted: tuple[str, ...]
    header: str
    groups: str = ""
    type: Literal["human", "service"] = "service"


class AuthSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The ways: API `keys`, an issuer of tokens and further `issuers`, a proxy in front. Members of a group that is `shared` share their
    tasks.
    """

    keys: bool = False
    shared: tuple[str, ...] = ()
    oauth: OAuthSettings | None = None
    issuers: tuple[OAuthSettings, ...] = ()
    proxy: ForwardedSettings | None = None

    @property
    def all_issuers(self) -> tuple[OAuthSettings, ...]:
        """Those whose tokens count."""
        return (*((self.oauth,) if self.oauth is not None else ()), *self.issuers)


def _auth_problems(auth: AuthSettings) -> Problems:
    """Also where nobody could authenticate."""
    if not (auth.keys or auth.oauth or auth.proxy):
        remedy = "set keys = true, or add [auth.oauth] or [auth.proxy]"
        yield "[auth] names no way to authenticate", remedy
    for oauth in auth.all_issuers:
        yield from _oauth_problems(oauth)
    if auth.issuers and auth.oauth is None:
        yield "[[auth.issuers]] are there, and [auth.oauth] is missing", "write the first issuer as [auth.oauth]"
    if len({oauth.issuer for oauth in auth.all_issuers}) < len(auth.all_issuers):
        yield "[[auth.issuers]] name an issuer twice", "leave one of the two out"
    if sum(oauth.introspection is not None for oauth in auth.all_issuers) > 1:
        remedy = "leave it with one: a token that does not say whose it is would be shown to the other"
        yield "several issuers have introspection", remedy
    if len({oauth.resource.rstrip("/") for oauth in auth.all_issuers}) > 1:
        yield "the issuers name several resources", "write the same resource everywhere: tokens are for this gateway"
    if auth.proxy is not None:
        yield from _proxy_problems(auth.proxy)


def _oauth_problems(oauth: OAuthSettings) -> Problems:
    for member, url in (("issuer", oauth.issuer), ("resource", oauth.resource), ("keys", oauth.keys)):
        if url or member != "keys":
            yield from _insecure(f"{member} of [auth.oauth]", url)
    if oauth.introspection is not None:
        yield from _insecure("introspection.url", oauth.introspection.url)
        yield from _client_problems(oauth.introspection, "introspection")
    if urlsplit(oauth.resource).path not in ("", "/") or urlsplit(oauth.resource).query:
        remedy = "give the address of the gateway without a path, such as https://gateway.example.com"
        yield f"resource of [auth.oauth] is {oauth.resource[:200]!r}", remedy
    person = oauth.person
    if person is not None and not (person.claim and person.values and all(person.values)):
        remedy = 'name both, such as person = {claim = "realm_access.roles", values = ["person"]}'
        yield "person of [auth.oauth] names no claim or no value", remedy


def _proxy_problems(proxy: ForwardedSettings) -> Problems:
    if not proxy.trusted:
        yield "[auth.proxy] trusts no address", "name the proxy's address"
    for address in proxy.trusted:
        try:
            ip_network(address)
        except ValueError as error:
            yield f"trusted of [auth.proxy]: {error}", "give an address, or a network as 10.0.0.0/24"
    for header in filter(None, (proxy.header, proxy.groups)):
        if _PROXY_HEADER.fullmatch(header) is None or header in _TAKEN or header.startswith("mcp-"):
            remedy = "name a header of the proxy's own, in lower case, such as x-client-name"
            yield f"[auth.proxy] cannot use the header {header[:80]!r}", remedy
    if proxy.header in ("", proxy.groups):
        yield "[auth.proxy] sets no header name", "set header"


def check_secure(url: str) -> None:
    """Raises `InvalidError` for what is no https address, or http on this machine."""
    place = urlsplit(url)
    if not place.hostname or place.username or place.fragment:
        raise InvalidError(f"{url[:200]!r} is not an address", "give an https URL")
    if place.scheme != "https" and not (place.scheme == "http" and place.hostname in _LOOPBACK):
        raise InvalidError(f"{url[:200]!r} is not protected by TLS", "give an https URL; http is for this machine only")
