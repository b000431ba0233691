r"""The shapes of well-known secrets: what their issuers document, and what gitleaks and detect-secrets look for.

Each shape names texts of which one is in every match (`marks`), so that a text without them costs no regular expression;
most are looked for only where there is a long run of letters, digits, dashes and underscores, as every token has one. Matching takes time linear in the text, also where the text was written to make it slow: behind its mark a pattern has
either bounded repetitions or one unbounded run, and a match with an unbounded beginning starts at a boundary only.

Owns: the table. Must never: match a commit hash, a UUID, a digest or an import path.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

LONG_RUN = 16
"""Letters, digits, dashes and underscores in a row, its mark included, that a token has at the least."""


class Shape(NamedTuple):
    """`pattern` matches the secret; what its first group matches, if it has one, precedes the secret and is kept.

    `marks` stand in a run of `LONG_RUN` or more; or anywhere in a text that has such a run (`beside`), in any text, or in any text
    in lower case.
    """

    name: str
    marks: tuple[str, ...]
    pattern: str
    where: Literal["run", "beside", "text", "lower"] = "run"


_AT = r"(?:(?<![A-Za-z0-9])|(?<=\\[bfnrt])|(?<=%[0-9A-Fa-f]{2}))"
"""Where a token begins: not within a word; behind an escape of JSON or a URL is not within one."""
_QUOTE = r"""(?:\\{0,3}["'`])?"""
_IS = rf"{_QUOTE}[ \t]{{0,3}}(?::=|=>|=|:)[ \t]{{0,3}}{_QUOTE}"
"""What stands between a name and its value, in code, JSON, YAML, a shell, a header or a query."""
_VALUE = r"""[^\s"'`\\,;&|<>(){}\[\]$]"""

SHAPES = (
    Shape(
        "github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"gh[opusr]_(?=[A-Za-z_]{0,40}\d)\w{12,}"
    ),
    Shape("github-fine-grained-token", ("github_pat_",), r"github_pat_\w{12,}"),
    Shape(
        "gitlab-token",
        (
            "glpat-",
            "gldt-",
            "glptt-",
            "glrt-",
            "glcbt-",
            "glimt-",
            "glft-",
            "glsoat-",
            "glagent-",
            "gloas-",
            "glffct-",
        ),
        r"gl(?:pat|dt|ptt|rt|cbt|imt|ft|soat|agent|oas|ffct)-[\w.-]{12,}",
    ),
    Shape("atlassian-token", ("ATATT3", "ATCTT3", "ATBB"), r"(?:AT[AC]TT3[\w=-]{50,}|ATBB[A-Za-z0-9]{24,})"),
    Shape("aws-access-key-id", ("AKIA", "ASIA", "ABIA", "ACCA"), r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}"),
    Shape(
        "aws-secret-access-key",
        ("secret", "token"),
        rf"(?i)((?:secret_?access_?key|secret_key|aws_secret|session_?token){_IS})(?=[A-Za-z/+]{{0,60}}\d)[A-Za-z0-9/+]{{40,}}={{0,2}}",
        where="lower",
    ),
    Shape("gcp-api-key", ("AIza",), r"AIza[\w-]{30,}"),
    Shape(
        "google-oauth-token", ("ya29.", "1//0"), _AT + r"(?:ya29\.[\w-]{20,}|1//0[\w-]{30,})", where="beside"
    ),
    Shape("google-client-secret", ("GOCSPX-",), r"GOCSPX-[\w-]{20,}"),
    Shape(
        "azure-account-key",
        ("key=", "secret"),
        r"(?i)((?:AccountKey|SharedAccessKey|SharedSecret)=)[A-Za-z0-9/+%]{20,}={0,2}",
        where="lower",
    ),
    Shape("azure-signature", ("sig=",), r"([?&]sig=)[A-Za-z0-9%/+=]{40,}", where="text"),
    Shape(
        "azure-client-secret",
        ("Q~",),
        r"(?:(?<![\w~.-])|(?<=\\[bfnrt]))[\w~.-]{3}\dQ~[\w~.-]{31,34}(?![\w~.-])",
        where="text",
    ),
    Shape(
        "alibaba-access-key", ("LTAI",), _AT + r"LTAI(?=[A-Za-z]{0,20}\d)[A-Za-z0-9]{16,24}(?![A-Za-z0-9])"
    ),
    Shape("tencent-secret-id", ("AKID",), _AT + r"AKID[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
    Shape("yandex-api-key", ("AQVN",), _AT + r"AQVN[\w-]{35,38}(?![\w-])"),
    Shape("slack-token", ("xox",), r"xox[abeoprs]-[\w.-]{10,}"),
    Shape("slack-app-token", ("xapp-",), r"xapp-[\w-]{10,}"),
    Shape(
        "slack-webhook",
        ("hooks.slack.com/",),
        r"(hooks\.slack\.com/(?:services|workflows|triggers)/)[\w/+-]{20,}",
        where="beside",
    ),
    Shape("discord-webhook", ("/api/webhooks/",), r"(/api/webhooks/\d{10,25}/)[\w-]{20,}", where="beside"),
    Shape("telegram-bot-token", (":AA",), _AT + r"\d{8,10}:AA[\w-]{32,34}(?![\w-])", where="beside"),
    Shape(
        "teams-webhook",
        ("webhook.office.com/",),
        r"(webhook\.office\.com/webhookb2/)[\w@/-]{36,}",
        where="beside",
    ),
    Shape("stripe-key", ("k_live_", "k_test_", "k_prod_"), r"[rs]k_(?:live|test|prod)_[A-Za-z0-9]{10,}"),
    Shape("stripe-webhook-secret", ("whsec_",), r"whsec_[\w+/=-]{20,}", where="text"),
    Shape("square-token", ("sq0",), r"sq0(?:atp|csp|idp)-[\w-]{22,}"),
    Shape("shopify-token", ("shpat_", "shpca_", "shppa_", "shpss_"), r"shp(?:at|ca|pa|ss)_[A-Fa-f0-9]{32}"),
    Shape("shippo-token", ("shippo_",), r"shippo_(?:live|test)_[A-Fa-f0-9]{40}"),
    Shape("easypost-key", ("EZAK", "EZTK"), _AT + r"EZ[AT]K[A-Za-z0-9]{54}"),
    Shape("flutterwave-key", ("FLWSECK",), r"FLWSECK(?:_TEST)?-[A-Za-z0-9]{12,}"),
    Shape(
        "plaid-token",
        ("access-",),
        r"access-(?:sandbox|development|production)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",
    ),
    Shape("anthropic-key", ("sk-ant-",), r"sk-ant-[\w-]{16,}"),
    Shape("openai-key", ("sk-",), _AT + r"sk-(?!ecdsa-|ssh-)(?=[A-Za-z_-]{0,80}\d)[\w-]{14,}"),
    Shape("hugging-face-token", ("hf_", "api_org_"), _AT + r"(?:hf|api_org)_[A-Za-z0-9]{30,}"),
    Shape("groq-key", ("gsk_",), _AT + r"gsk_[A-Za-z0-9]{40,}"),
    Shape("perplexity-key", ("pplx-",), r"pplx-[A-Za-z0-9]{40,}"),
    Shape("xai-key", ("xai-",), _AT + r"xai-[A-Za-z0-9]{60,}"),
    Shape("replicate-token", ("r8_",), _AT + r"r8_[A-Za-z0-9]{37}"),
    Shape("nvidia-key", ("nvapi-",), r"nvapi-[\w-]{50,}"),
    Shape("langsmith-key", ("lsv2_",), r"lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}"),
    Shape("tavily-key", ("tvly-",), r"tvly-[\w-]{24,}"),
    Shape("npm-token", ("npm_",), r"npm_(?=[A-Za-z]{0,40}\d)[A-Za-z0-9]{14,}"),
    Shape("pypi-token", ("pypi-Ag",), r"pypi-Ag[\w-]{20,}"),
    Shape("rubygems-token", ("rubygems_",), r"rubygems_[a-f0-9]{48}"),
    Shape("crates-token", ("cio",), _AT + r"cio(?=[A-Za-z]{0,31}\d)[A-Za-z0-9]{32}(?![A-Za-z0-9])"),
    Shape("nuget-key", ("oy2",), _AT + r"oy2[a-z0-9]{43}(?![A-Za-z0-9])"),
    Shape("clojars-token", ("CLOJARS_",), r"CLOJARS_[A-Za-z0-9]{60}"),
    Shape("artifactory-key", ("AKCp",), _AT + r"AKCp[A-Za-z0-9]{10,}"),
    Shape("docker-token", ("dckr_",), r"dckr_[po]at_[\w-]{20,}"),
    Shape("digitalocean-token", ("_v1_",), r"do[opr]_v1_[a-f0-9]{64}"),
    Shape("heroku-key", ("HRKU-",), r"HRKU-[\w-]{36,}"),
    Shape("fly-token", ("fo1_", "fm1", "fm2"), _AT + r"(?:fo1_[\w-]{40,}|fm[12][ar]?_[\w+/=]{100,})"),
    Shape("netlify-token", ("nfp_",), r"nfp_[A-Za-z0-9]{36}"),
    Shape("cloudflare-origin-key", ("v1.0-",), _AT + r"v1\.0-[a-f0-9]{24}-[a-f0-9]{146}", where="beside"),
    Shape("planetscale-token", ("pscale_",), r"pscale_(?:tkn|pw|oauth)_[\w=.-]{32,}"),
    Shape("supabase-key", ("sbp_", "sb_secret_"), _AT + r"(?:sbp_[a-f0-9]{40}|sb_secret_[\w-]{20,})"),
    Shape("databricks-token", ("dapi",), _AT + r"dapi[a-f0-9]{32}(?:-\d)?"),
    Shape("vault-token", ("hvs.", "hvb.", "hvr."), _AT + r"hv[sbr]\.[\w-]{20,}", where="beside"),
    Shape("terraform-token", (".atlasv1.",), _AT + r"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,}", where="beside"),
    Shape("pulumi-token", ("pul-",), _AT + r"pul-[a-f0-9]{40}"),
    Shape(
        "doppler-token",
        ("dp.",),
        _AT + r"dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{40,}",
        where="beside",
    ),
    Shape("onepassword-token", ("ops_eyJ",), r"ops_eyJ[\w+/=-]{50,}"),
    Shape("age-secret-key", ("AGE-SECRET-KEY-1",), r"AGE-SECRET-KEY-1[A-Za-z0-9]{58}"),
    Shape("grafana-token", ("glsa_", "glc_"), _AT + r"gl(?:sa|c)_[\w+/=]{32,}"),
    Shape("sentry-token", ("sntrys_", "sntryu_"), r"sntry[su]_[\w+/=]{40,}"),
    Shape("newrelic-key", ("NRAK-", "NRJS-", "NRII-"), r"NR(?:AK|JS|II)-[A-Za-z0-9_-]{19,}"),
    Shape("dynatrace-token", ("dt0",), r"dt0[a-z]\d\d\.[A-Z0-9]{24}\.[A-Z0-9]{64}", where="beside"),
    Shape("sendgrid-key", ("SG.",), _AT + r"SG\.[\w-]{16,64}\.[\w-]{16,}", where="beside"),
    Shape("mailgun-key", ("key-",), _AT + r"key-[0-9a-f]{32}(?![0-9a-f])"),
    Shape("mailchimp-key", ("-us",), _AT + r"[0-9a-f]{32}-us\d{1,2}(?!\d)"),
    Shape("brevo-key", ("xkeysib-",), r"xkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}"),
    Shape("twilio-key", ("SK",), _AT + r"SK[0-9a-f]{32}(?![0-9A-Za-z])"),
    Shape("linear-key", ("lin_",), _AT + r"lin_(?:api|oauth)_[A-Za-z0-9]{32,}"),
    Shape(
        "notion-token",
        ("ntn_", "secret_"),
        _AT + r"(?:ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{43}(?![A-Za-z0-9]))",
    ),
    Shape("airtable-token", ("pat",), _AT + r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}"),
    Shape("figma-token", ("figd_",), r"figd_[\w-]{36,}"),
    Shape("typeform-token", ("tfp_",), _AT + r"tfp_[\w.=-]{40,}"),
    Shape("postman-key", ("PMAK-",), r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}"),
    Shape("readme-key", ("rdme_",), r"rdme_[a-z0-9]{70}"),
    Shape("prefect-key", ("pnu_",), _AT + r"pnu_[A-Za-z0-9]{36}"),
    Shape("contentful-token", ("CFPAT-",), r"CFPAT-[\w-]{43}"),
    Shape("adobe-secret", ("p8e-",), _AT + r"p8e-[A-Za-z0-9]{32}"),
    Shape(
        "jwt",
        ("eyJ",),
        _AT
        + r"(?:eyJ(?:hbGci|0eXAi|raWQi|jdHki|lbmMi)[\w.+/=-]{10,}|eyJ[\w-]{10,400}\.eyJ[\w-]{10,}(?:\.[\w-]*)?)",
    ),
    Shape(
        "private-key",
        ("PRIVATE KEY",),
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-----(?:[^-]|-(?!----))*(?:-----END[A-Z0-9 ]{0,60}-----)?",
        where="text",
    ),
    Shape(
        "putty-private-key",
        ("Private-Lines:",),
        r"(Private-Lines: ?\d{1,4}[\s\\rn]{0,4})[A-Za-z0-9+/=\s\\]{20,}",
        where="text",
    ),
    Shape(
        "url-password",
        ("://",),
        r"(://[^\s/?#:@\"'`<>\\]{0,100}:)(?![$<{%*\[])[^\s/?#@\"'`<>]{1,200}(?=@)",
        where="text",
    ),
    Shape("url-token", ("://",), r"(://)(?=[A-Za-z_-]{0,60}\d)[\w-]{20,200}(?=@)", where="text"),
    Shape(
        "query-secret",
        ("token=", "signature=", "secret", "key="),
        (r"(?i)([?&](?:[a-z-]{0,20}(?:token|signature|secret)|api_?key)=)[\w.~%+/=-]{12,}"),
        where="lower",
    ),
    Shape(
        "authorization-header",
        ("authorization",),
        rf"(?i)(authorization{_IS}(?:bearer|basic|token|digest|apikey|negotiate|aws4-hmac-sha256)[ \t]{{1,4}})"
        r"[^\s\"'`<>{}()\[\]\\$]{8,}",
        where="lower",
    ),
    Shape(
        "bearer-token",
        ("bearer",),
        _AT + r"(?i:(bearer[ \t]{1,4}))(?=[A-Za-z.~+/=_-]{0,60}\d)[\w.~+/=-]{12,}",
        where="lower",
    ),
    Shape(
        "basic-credentials",
        ("basic ",),
        _AT + (r"(?i:(basic[ \t]{1,4}))(?=[A-Za-z+/]{0,60}[\d=])[A-Za-z0-9+/]{8,}={0,2}(?![\w./-])"),
        where="lower",
    ),
    Shape(
        "cookie-header",
        ("cookie:",),
        r"(?i)(cookie:[ \t]{0,4})[\w.-]{1,60}=[^\r\n\"'`<>(){}\\]{8,}",
        where="lower",
    ),
    Shape(
        "netrc-password",
        ("machine ",),
        (
            r"(?i)(machine[ \t]{1,9}[\w.-]{1,200}\s{1,9}login[ \t]{1,9}\S{1,200}\s{1,9}password[ \t]{1,9})\S{3,}"
        ),
        where="lower",
    ),
    Shape(
        "docker-auth",
        ('auth"', "auth\\"),
        r"(\"auth\\{0,3}\"[ \t]{0,3}:[ \t]{0,3}\\{0,3}\")[A-Za-z0-9+/]{12,}={0,2}(?=\\{0,3}\")",
        where="text",
    ),
    Shape(
        "curl-user",
        ("curl ",),
        (r"(curl [^\n|;]{0,200}?(?:-u|--user)[ =]?[\"']?[^\s:\"']{1,100}:)(?![$<{])[^\s\"']{3,200}"),
        where="text",
    ),
    Shape(
        "sshpass-password",
        ("sshpass",),
        r"(sshpass [^\n|;]{0,60}?-p ?[\"']?)(?![$<{])[^\s\"']{3,200}",
        where="text",
    ),
    Shape(
        "mysql-password",
        ("mysql",),
        r"(mysql(?:dump|admin|import)? [^\n|;]{0,200}?-p)(?![$<{])(?=[A-Za-z_-]{0,60}\d)[^\s\"'-][^\s\"']{5,200}",
        where="text",
    ),
    Shape(
        "option-password",
        ("--",),
        (
            r"(?i)(--?(?:password|passwd|passphrase|token|secret|api-?key|access-?token|auth-?token|client-?secret|secret-?key)"
            rf"[ =][\"']?)(?=[A-Za-z_-]{{0,60}}\d){_VALUE}{{8,}}"
        ),
        where="text",
    ),
    Shape(
        "assigned-secret",
        ("passw", "passp", "secret", "token", "api_key", "apikey", "api-key", "access"),
        (
            r"(?i)((?:passw(?:or)?d|passphrase|(?:client|app|shared|signing)[_-]?secret|api[_-]?key|secret[_-]?(?:access[_-]?)?key|access[_-]?key|"
            rf"(?:auth|access|refresh|bearer|api|bot|personal|deploy|session)[_-]?token){_IS})"
            rf"(?=[A-Za-z_.+/=~!@#%^*-]{{0,60}}\d)(?=[\d_.+/=~!@#%^*-]{{0,60}}[A-Za-z]){_VALUE}{{10,200}}(?![\w.(\[])"
        ),
        where="lower",
    ),
)
