"""Which variables go to programs that are not ours, and which URLs a command line may have."""

from __future__ import annotations

import pytest

from adjourn.errors import UsageError
from adjourn.host.executables import for_others
from adjourn.store.url import check_argument
from support.cases import for_each

GIVEN = {"PATH": "/bin", "ADJOURN_STORE": "x", "ADJOURN_NEW": "y", "PGPASSWORD": "hunter2", "API_KEY": "k"}


def test_other_programs_get_what_is_not_ours() -> None:
    """A program that adjourn starts gets the environment without the variables of adjourn."""
    assert for_others(GIVEN) == {"PATH": "/bin", "PGPASSWORD": "hunter2", "API_KEY": "k"}


@pytest.mark.parametrize("url", ["postgresql://me@h/db", "POSTGRES://h"])
def test_the_password_of_our_database_goes_to_nobody(url: str) -> None:
    """Whether an option names the database or a variable."""
    assert "PGPASSWORD" not in for_others(GIVEN, url)
    assert "PGPASSWORD" not in for_others(GIVEN | {"ADJOURN_STORE": url})


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hunter2@h/db",
        "postgres://me:hunter2@h",
        "PostgreSQL://me:hun/ter2@h/db",
        "postgresql://me:hun@ter2@h/db",
        "postgresql://:hunter2@h",
        "postgresql://h/db?user=me&password=hunter2",
        "postgresql://h/db?sslpassword=hunter2",
    ],
)
def test_a_password_in_an_argument_is_refused_and_not_repeated(url: str) -> None:
    """A store URL with a password is refused, and the error does not contain the password."""
    with pytest.raises(UsageError) as caught:
        check_argument(url)
    assert "ter2" not in str(caught.value)
    assert "ADJOURN_STORE" in str(caught.value)


@for_each(
    "url",
    [
        "", ".aex/adjourn.db", "sqlite:a:b@c", "memory:", "postgresql://me@h:5432/db", "postgresql:///db?host=/tmp",
        "postgresql://[::1]:5432/db", "postgresql://h/db?passfile=/home/me/.pgpass&options=-csearch_path%3Da",
    ],
)  # fmt: skip
def test_other_urls_are_fine(url: str) -> None:
    """A store URL without a password is accepted unchanged."""
    assert check_argument(url) == url
