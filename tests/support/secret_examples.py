"""An example of every shape of a secret, made up for each test: no scanner finds a literal here.

Each is `(before, secret, after)`: what stands around it where its shape needs that, and must stay.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import NamedTuple

LOWER = "abcdefghijklmnopqrstuvwxyz"
UPPER = LOWER.upper()
DIGITS = "0123456789"
HEX = DIGITS + "abcdef"
ALNUM = LOWER + UPPER + DIGITS
WORD = ALNUM + "_-"
BASE64 = ALNUM + "+/"


class Example(NamedTuple):
    before: str
    secret: str
    after: str = ""

    @property
    def text(self) -> str:
        return self.before + self.secret + self.after


class Maker:
    """Random parts of secrets."""

    def __init__(self, seed: object) -> None:
        self._random = random.Random(str(seed))

    def some(self, characters: str, count: int) -> str:
        """`count` of the characters; a letter first and a digit second where there are both, as no secret is one word."""
        made = [self._random.choice(characters) for _ in range(count)]
        for place, wanted in ((0, LOWER + UPPER), (1, DIGITS)):
            known = [c for c in wanted if c in characters]
            if place < count and known:
                made[place] = self._random.choice(known)
        return "".join(made)

    def bare(self, prefix: str, characters: str, count: int, suffix: str = "") -> Example:
        return Example("", prefix + self.some(characters, count) + suffix)

    def behind(self, before: str, characters: str, count: int, after: str = "") -> Example:
        return Example(before, self.some(characters, count), after)


def _key(m: Maker, kind: str) -> str:
    body = "\n".join(m.some(BASE64, 64) for _ in range(5))
    return f"-----BEGIN {kind}PRIVATE " + f"KEY-----\n{body}\n-----END {kind}PRIVATE KEY-----"


def _jwt(m: Maker, header: str) -> str:
    return ".".join(("ey" + header + m.some(WORD, 20), "ey" + "J" + m.some(WORD, 60), m.some(WORD, 43)))


Form = Callable[[Maker], Example]


def _each(make: Callable[[Maker, str], Example], kinds: Iterable[str]) -> tuple[Form, ...]:
    def of(kind: str) -> Form:
        return lambda m: make(m, kind)

    return tuple(map(of, kinds))


EXAMPLES: dict[str, tuple[Form, ...]] = {
    "github-token": _each(lambda m, k: m.bare(f"gh{k}" + "_", ALNUM, 36), "pousr"),
    "github-fine-grained-token": (lambda m: m.bare("github_" + "pat_", ALNUM + "_", 82),),
    "gitlab-token": _each(
        lambda m, k: m.bare(f"gl{k}" + "-", WORD, 20),
        ("pat", "dt", "ptt", "rt", "cbt", "imt", "ft", "soat", "agent", "oas", "ffct"),
    ),
    "atlassian-token": (
        lambda m: m.bare("ATATT" + "3", WORD, 180, "=" + m.some(HEX, 8)),
        lambda m: m.bare("ATBB", ALNUM, 32),
    ),
    "aws-access-key-id": _each(lambda m, k: m.bare(k, UPPER + "234567", 16), ("AK" + "IA", "AS" + "IA")),
    "aws-secret-access-key": (
        lambda m: m.behind("export AWS_SECRET_ACCESS_KEY=", BASE64, 40),
        lambda m: m.behind('"SecretAccessKey": "', BASE64, 40, '"'),
        lambda m: m.behind("aws_secret_access_key = ", BASE64, 40),
        lambda m: m.behind('"SessionToken": "', BASE64, 300, '"'),
    ),
    "gcp-api-key": (lambda m: m.bare("AI" + "za", WORD, 35),),
    "google-oauth-token": (
        lambda m: m.bare("ya29" + ".", WORD, 120),
        lambda m: m.bare("1/" + "/0", WORD, 60),
    ),
    "google-client-secret": (lambda m: m.bare("GOC" + "SPX-", WORD, 28),),
    "azure-account-key": (
        lambda m: m.behind("AccountName=store;AccountKey=", BASE64, 86, ""),
        lambda m: m.behind("Endpoint=sb://x;SharedAccessKey=", BASE64, 43),
    ),
    "azure-signature": (
        lambda m: m.behind("https://x.blob.core.windows.net/a?sv=2024&sig=", ALNUM, 50, "&se=1"),
    ),
    "azure-client-secret": (lambda m: Example("", m.some(ALNUM, 3) + "8Q~" + m.some(ALNUM, 34)),),
    "alibaba-access-key": (lambda m: m.bare("LT" + "AI", ALNUM, 20),),
    "tencent-secret-id": (lambda m: m.bare("AK" + "ID", ALNUM, 32),),
    "yandex-api-key": (lambda m: m.bare("AQ" + "VN", WORD, 36),),
    "slack-token": (
        lambda m: Example("", f"xo{'xb'}-{m.some(DIGITS, 12)}-{m.some(DIGITS, 12)}-{m.some(ALNUM, 24)}"),
        lambda m: Example("", f"xo{'xp'}-{m.some(DIGITS, 12)}-{m.some(DIGITS, 12)}-{m.some(HEX, 32)}"),
    ),
    "slack-app-token": (lambda m: Example("", f"xa{'pp'}-1-A{m.some(DIGITS, 10)}-{m.some(HEX, 64)}"),),
    "slack-webhook": (
        lambda m: Example(
            "https://hooks.slack.com/services/",
            f"T{m.some(UPPER, 8)}/B{m.some(UPPER, 8)}/{m.some(ALNUM, 24)}",
        ),
    ),
    "discord-webhook": (
        lambda m: m.behind("https://discord.com/api/webhooks/123456789012345678/", WORD, 68),
    ),
    "telegram-bot-token": (lambda m: Example("", f"{m.some(DIGITS, 9)}:AA{m.some(WORD, 32)}z"),),
    "teams-webhook": (lambda m: m.behind("https://acme.webhook.office.com/webhookb2/", HEX, 36, ""),),
    "stripe-key": _each(
        lambda m, k: m.bare(k + "_", ALNUM, 24), ("sk_" + "live", "rk_" + "live", "sk_" + "test")
    ),
    "stripe-webhook-secret": (lambda m: m.bare("wh" + "sec_", BASE64, 32),),
    "square-token": (lambda m: m.bare("sq0" + "atp-", WORD, 22), lambda m: m.bare("sq0" + "csp-", WORD, 43)),
    "shopify-token": _each(lambda m, k: m.bare(f"shp{k}_", HEX, 32), ("at", "ca", "pa", "ss")),
    "shippo-token": (lambda m: m.bare("shippo_" + "live_", HEX, 40),),
    "easypost-key": (lambda m: m.bare("EZ" + "AK", ALNUM, 54),),
    "flutterwave-key": (lambda m: m.bare("FLW" + "SECK_TEST-", HEX, 32, "-X"),),
    "plaid-token": (
        lambda m: Example(
            "", "access-" + "production-" + "-".join(m.some(HEX, size) for size in (8, 4, 4, 4, 12))
        ),
    ),
    "anthropic-key": (lambda m: m.bare("sk-" + "ant-api03-", WORD, 93, "AA"),),
    "openai-key": (
        lambda m: m.bare("sk-", ALNUM, 48),
        lambda m: m.bare("sk-" + "proj-", WORD, 120),
        lambda m: m.bare("sk-" + "or-v1-", HEX, 64),
        lambda m: m.bare("sk-" + "live-", ALNUM, 24),
    ),
    "hugging-face-token": (lambda m: m.bare("hf" + "_", ALNUM, 34),),
    "groq-key": (lambda m: m.bare("gs" + "k_", ALNUM, 52),),
    "perplexity-key": (lambda m: m.bare("pp" + "lx-", ALNUM, 48),),
    "xai-key": (lambda m: m.bare("xa" + "i-", ALNUM, 80),),
    "replicate-token": (lambda m: m.bare("r" + "8_", ALNUM, 37),),
    "nvidia-key": (lambda m: m.bare("nv" + "api-", WORD, 64),),
    "langsmith-key": (lambda m: Example("", f"lsv2{'_pt_'}{m.some(HEX, 32)}_{m.some(HEX, 10)}"),),
    "tavily-key": (lambda m: m.bare("tv" + "ly-", ALNUM, 32),),
    "npm-token": (lambda m: m.bare("np" + "m_", ALNUM, 36),),
    "pypi-token": (lambda m: m.bare("py" + "pi-AgEIcHlwaS5vcmc", WORD, 100),),
    "rubygems-token": (lambda m: m.bare("ruby" + "gems_", HEX, 48),),
    "crates-token": (lambda m: m.bare("ci" + "o", ALNUM, 32),),
    "nuget-key": (lambda m: m.bare("oy" + "2", LOWER + DIGITS, 43),),
    "clojars-token": (lambda m: m.bare("CLO" + "JARS_", HEX, 60),),
    "artifactory-key": (lambda m: m.bare("AK" + "Cp", ALNUM, 69),),
    "docker-token": (lambda m: m.bare("dckr_" + "pat_", WORD, 27),),
    "digitalocean-token": _each(lambda m, k: m.bare(f"do{k}_" + "v1_", HEX, 64), "por"),
    "heroku-key": (lambda m: m.bare("HR" + "KU-", WORD, 60),),
    "fly-token": (lambda m: m.bare("fo" + "1_", WORD, 43), lambda m: m.bare("fm" + "2_", BASE64, 200)),
    "netlify-token": (lambda m: m.bare("nf" + "p_", ALNUM, 36),),
    "cloudflare-origin-key": (lambda m: Example("", f"v1.{'0-'}{m.some(HEX, 24)}-{m.some(HEX, 146)}"),),
    "planetscale-token": (lambda m: m.bare("pscale_" + "tkn_", WORD, 43),),
    "supabase-key": (lambda m: m.bare("sb" + "p_", HEX, 40), lambda m: m.bare("sb_" + "secret_", WORD, 31)),
    "databricks-token": (lambda m: m.bare("da" + "pi", HEX, 32),),
    "vault-token": (lambda m: m.bare("hv" + "s.", WORD, 95),),
    "terraform-token": (lambda m: Example("", f"{m.some(ALNUM, 14)}.atlas{'v1.'}{m.some(WORD, 67)}"),),
    "pulumi-token": (lambda m: m.bare("pu" + "l-", HEX, 40),),
    "doppler-token": (lambda m: m.bare("dp" + ".pt.", ALNUM, 43),),
    "onepassword-token": (lambda m: m.bare("ops_" + "eyJ", ALNUM, 250),),
    "age-secret-key": (lambda m: m.bare("AGE-" + "SECRET-KEY-1", UPPER + DIGITS, 58),),
    "grafana-token": (lambda m: m.bare("gl" + "sa_", ALNUM, 32, "_" + m.some(HEX, 8)),),
    "sentry-token": (lambda m: m.bare("sn" + "trys_", ALNUM, 80), lambda m: m.bare("sn" + "tryu_", HEX, 64)),
    "newrelic-key": (lambda m: m.bare("NR" + "AK-", UPPER + DIGITS, 27),),
    "dynatrace-token": (
        lambda m: Example("", f"dt0{'c01'}.{m.some(UPPER + DIGITS, 24)}.{m.some(UPPER + DIGITS, 64)}"),
    ),
    "sendgrid-key": (lambda m: Example("", f"S{'G'}.{m.some(WORD, 22)}.{m.some(WORD, 43)}"),),
    "mailgun-key": (lambda m: m.bare("ke" + "y-", HEX, 32),),
    "mailchimp-key": (lambda m: m.bare("", HEX, 32, "-us21"),),
    "brevo-key": (lambda m: Example("", f"xkey{'sib'}-{m.some(HEX, 64)}-{m.some(ALNUM, 16)}"),),
    "twilio-key": (lambda m: m.bare("S" + "K", HEX, 32),),
    "linear-key": (lambda m: m.bare("lin_" + "api_", ALNUM, 40),),
    "notion-token": (lambda m: m.bare("nt" + "n_", ALNUM, 46), lambda m: m.bare("sec" + "ret_", ALNUM, 43)),
    "airtable-token": (lambda m: Example("", f"pa{'t'}{m.some(ALNUM, 14)}.{m.some(HEX, 64)}"),),
    "figma-token": (lambda m: m.bare("fi" + "gd_", WORD, 40),),
    "typeform-token": (lambda m: m.bare("tf" + "p_", WORD, 59),),
    "postman-key": (lambda m: Example("", f"PM{'AK'}-{m.some(HEX, 24)}-{m.some(HEX, 34)}"),),
    "readme-key": (lambda m: m.bare("rd" + "me_", LOWER + DIGITS, 70),),
    "prefect-key": (lambda m: m.bare("pn" + "u_", ALNUM, 36),),
    "contentful-token": (lambda m: m.bare("CF" + "PAT-", WORD, 43),),
    "adobe-secret": (lambda m: m.bare("p8" + "e-", ALNUM, 32),),
    "jwt": (
        lambda m: Example("", _jwt(m, "JhbGciOiJIUzI1NiI")),
        lambda m: Example("", _jwt(m, "J0eXAiOiJKV1Qi")),
        lambda m: Example("", _jwt(m, "Jh")),
    ),
    "private-key": _each(lambda m, k: Example("", _key(m, k)), ("", "RSA ", "EC ", "OPENSSH ", "ENCRYPTED ")),
    "putty-private-key": (lambda m: m.behind("Private-Lines: 8\n", BASE64, 64),),
    "url-password": (
        lambda m: m.behind("postgresql://app:", ALNUM, 12, "@db.example/x"),
        lambda m: m.behind("https://me:", LOWER, 9, "@example.org/"),
        lambda m: m.behind("redis://:", ALNUM, 10, "@localhost"),
    ),
    "url-token": (lambda m: m.behind("https://", ALNUM, 40, "@example.org/x.git"),),
    "query-secret": (
        lambda m: m.behind("https://example.org/x?id=1&X-Amz-Signature=", HEX, 64),
        lambda m: m.behind("https://example.org/x?token=", ALNUM, 24, "&b=2"),
    ),
    "authorization-header": (
        lambda m: m.behind("Authorization: Bearer ", LOWER, 20),
        lambda m: m.behind('"authorization": "token ', HEX, 40, '"'),
    ),
    "bearer-token": (
        lambda m: m.behind("use bearer ", ALNUM, 24),
        lambda m: m.behind("'Bearer ", WORD, 30, "'"),
    ),
    "basic-credentials": (lambda m: m.behind("Basic ", ALNUM, 20, ""),),
    "cookie-header": (
        lambda m: Example("Cookie: ", f"theme=dark; session={m.some(ALNUM, 24)}"),
        lambda m: Example("Set-Cookie: ", f"sid={m.some(HEX, 32)}; Path=/"),
    ),
    "netrc-password": (lambda m: m.behind("machine example.org login me password ", ALNUM, 12),),
    "docker-auth": (lambda m: m.behind('{"auths":{"x":{"auth": "', ALNUM, 28, '"}}}'),),
    "curl-user": (lambda m: m.behind("curl -s -u me:", ALNUM, 12, " https://example.org"),),
    "sshpass-password": (lambda m: m.behind("sshpass -p ", ALNUM, 10, " ssh host"),),
    "mysql-password": (lambda m: m.behind("mysql -u root -p", ALNUM, 12, " db"),),
    "option-password": (
        lambda m: m.behind("tool --password ", ALNUM, 12, " x"),
        lambda m: m.behind("tool --api-key=", ALNUM, 20),
    ),
    "assigned-secret": (
        lambda m: m.behind("DB_PASSWORD=", ALNUM, 14),
        lambda m: m.behind('password = "', ALNUM, 14, '"'),
        lambda m: m.behind("client_secret: ", ALNUM, 30),
        lambda m: m.behind('{"apiKey":"', ALNUM, 32, '"}'),
        lambda m: m.behind("auth_token='", HEX, 40, "'"),
    ),
}


def examples() -> list[tuple[str, Example]]:
    """One of each form, with the name of its shape."""
    return [
        (name, make(Maker(f"{name} {number}")))
        for name, forms in EXAMPLES.items()
        for number, make in enumerate(forms)
    ]
