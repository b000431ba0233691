"""The order of what a search by meaning finds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from adjourn.code.index import lookup
from adjourn.code.index.codebase import Codebase
from adjourn.code.search import semantic as ranking
from adjourn.code.search.routing import Question, query
from adjourn.code.search.semantic import named_definitions, semantic_search
from support.cases import for_each
from support.code_files import repository

QUESTIONS = Path(__file__).parents[2] / "data/code_questions"
FILES = {
    "shop/client.py": '''\
class Client:
    def send(self, request):
        """Send a request, and follow redirects."""
        return self._follow_redirects(request)

    def _follow_redirects(self, request):
        while request.next:
            request = self._hop(request)

    def _hop(self, request):
        """The next request, without the authorization header if the host is another."""
        return request.next
''',
    "shop/_pool.py": '''\
class Limits:
    """How many connections are open at once."""

    def __init__(self, most):
        self.most = most


def expire(limits, seconds):
    """Close what is idle for so long."""
''',
    "tests/test_client.py": '''\
def test_redirects_are_followed():
    """Redirects are followed: where a redirect leads, the client follows the redirect."""
    assert followed("redirect redirects")


def test_connections_are_limited():
    """Idle connections of the pool expire; open connections are limited at once."""
''',
    "docs/redirects.md": "# Redirects\n\nRedirects are followed. Where a redirect leads, the client follows.\n",
    "docs/settings.md": "# SHOP_HOST\n\nThe host of the shop.\n",
    "examples/redirects.py": "def follow_redirects():\n    pass\n",
}


@pytest.fixture(scope="module")
def codebase(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Codebase]:
    root = repository(tmp_path_factory.mktemp("shop"), FILES)
    with Codebase(str(root)) as found:
        found.sync()
        yield found


def _found(codebase: Codebase, question: str) -> list[str]:
    hits = semantic_search(codebase, question, collection="forest")["hits"]
    return [f"{hit['metadata']['file']}:{hit['metadata']['name']}" for hit in hits]


@pytest.mark.parametrize(
    ("question", "first"),
    [
        ("where are redirects followed", "shop/client.py:Client._follow_redirects"),
        ("how many connections are open at once in the pool", "shop/_pool.py:Limits"),
        ("when do idle connections expire", "shop/_pool.py:expire"),
        ("when is the Authorization header left out", "shop/client.py:Client._hop"),
    ],
)
def test_a_question_finds_the_implementation_first(codebase: Codebase, question: str, first: str) -> None:
    """Tests, documents and examples repeat a question's words, and come after the code that they are about."""
    assert _found(codebase, question)[0] == first


@pytest.mark.parametrize(
    ("question", "file"),
    [
        ("which test checks that redirects are followed", "tests/test_client.py"),
        ("what do the docs say about redirects", "docs/redirects.md"),
        ("what do the docs say about SHOP_HOST", "docs/settings.md"),
    ],
)
def test_a_question_for_tests_or_documents_finds_them(codebase: Codebase, question: str, file: str) -> None:
    """A place that the question asks for is not put back."""
    assert _found(codebase, question)[0].startswith(f"{file}:")


def test_a_symbol_that_is_named_comes_first(codebase: Codebase) -> None:
    """The definition of a symbol in the question is the first hit, once, whatever the other words are."""
    found = _found(codebase, "are redirects followed by `Client.send` when the redirect is another host")
    assert found[0] == "shop/client.py:Client.send"
    assert len(found) == len(set(found))
    assert _found(codebase, "does _hop() follow redirects")[0] == "shop/client.py:Client._hop"


def test_a_heading_is_a_symbol_only_for_a_question_about_documents(codebase: Codebase) -> None:
    """A document's heading that is written like a symbol does not come first for its name alone."""
    assert codebase.index is not None
    for question, found in (("where is SHOP_HOST read", []), ("where in the docs is SHOP_HOST", ["SHOP_HOST"])):
        named = named_definitions(codebase.index, ranking.asked_for(question))
        assert [one.symbol.name for one in named] == found


def test_words_are_found_in_other_forms(codebase: Codebase) -> None:
    """Endings do not matter: a question in other tenses and numbers has the same first hit."""
    for question in ("follow redirect", "following redirection", "followed redirects"):
        assert _found(codebase, question)[0] == "shop/client.py:Client._follow_redirects"


def test_stop_words_are_dropped_unless_they_are_all() -> None:
    """What is left of a question are its telling words, or all words if none is."""
    assert ranking.asked_for("How is the timeout of a pool set?").words == ["timeout", "pool", "set"]
    assert ranking.asked_for("what is it").words == ["what", "is", "it"]


def test_symbols_of_a_question() -> None:
    """Quoted text, compound names, dotted names and calls are symbols; plain words are not."""
    asked = ranking.asked_for("does 'x y' use max_size, maxSize, Cart.total, a::b or total() as a Price?")
    assert asked.symbols == ["x y", "max_size", "maxSize", "Cart.total", "a::b", "total"]


@for_each(
    ("path", "name", "place"),
    [
        ("src/cart.py", "total", "implementation"),
        ("src/contest.py", "latest", "implementation"),
        ("doc/man_docs.go", "GenMan", "implementation"),
        ("tests/cart.py", "total", "test"),
        ("pkg/cart_test.go", "TestTotal", "test"),
        ("src/cart.spec.ts", "total", "test"),
        ("src/main/CartTest.java", "total", "test"),
        ("src/lib.rs", "tests.total_of_none", "test"),
        ("docs/cart.md", "Cart", "document"),
        ("README.rst", "module", "document"),
        ("examples/cart.py", "total", "example"),
        ("dist/cart.js", "total", "generated"),
        ("pkg/cart.pb.go", "Total", "generated"),
        ("static/cart.min.js", "total", "generated"),
    ],
)
def test_places(path: str, name: str, place: str) -> None:
    """The names of files, folders and functions tell what a chunk is part of."""
    assert ranking.place_of(path, name) == place


def test_a_declaration_comes_after_what_does_it(codebase: Codebase) -> None:
    """A definition of one line counts less than one with a body; a block of lines does not."""
    assert codebase.index is not None
    wanted = ranking.asked_for("where are redirects followed")
    hit = lookup.search_chunks(codebase.index, wanted.words, 1)[0]
    body, declared = hit._replace(kind="method", end_line=hit.line + 1), hit._replace(kind="method", end_line=hit.line)
    assert ranking.weight(declared, wanted) < ranking.weight(body, wanted)
    block = declared._replace(kind="block")
    assert ranking.weight(block, wanted) == ranking.weight(block._replace(end_line=hit.line + 1), wanted)


def test_half_of_the_benchmark_s_questions_are_held_out() -> None:
    """Each repository has different questions with answers, 200 together or more; every second one is not for choosing weights."""
    asked = [json.loads(path.read_text("utf-8"))["questions"] for path in QUESTIONS.glob("*.json")]
    assert len(asked) >= 6
    assert sum(map(len, asked)) >= 200
    for questions in asked:
        assert len({one["question"] for one in questions}) == len(questions)
        assert all(":" in answer for one in questions for answer in one["answers"])
        assert all(one["answers"] for one in questions)
        assert sum(one.get("held_out", False) for one in questions) * 2 == len(questions)


def test_a_question_in_plain_words_is_searched_for_as_a_whole(codebase: Codebase) -> None:
    """`query` puts the code that the question describes first; a symbol that is defined is looked up instead."""
    for question in ("where are redirects followed", "where are redirects of the no_such_name followed"):
        answer = query(codebase, Question(question))
        assert answer["plan"][0]["tool"] == "semantic_search"
        assert answer["results"][0]["symbol_name"] == "_follow_redirects"
    assert "semantic_search" not in {step["tool"] for step in query(codebase, Question("who calls expire()"))["plan"]}
