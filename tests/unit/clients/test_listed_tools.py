"""The refs `tools/SERVER`: what each server of a workspace listed last."""

from __future__ import annotations

import pytest

from adjourn.aex import KnownTool
from adjourn.clients.served_tools import (
    MAX_SERVERS,
    MAX_TOOLS,
    TOOLS,
    forget_dead,
    forget_own_name,
    is_anothers,
    keep_tools,
    known_tools,
    register,
)
from adjourn.host import process
from adjourn.host.process import Process
from adjourn.store import MemoryStore, Store


@pytest.fixture
def store() -> Store:
    return MemoryStore()


def tools(*names: str) -> list[KnownTool]:
    return [KnownTool(name) for name in names]


def test_tools_are_kept_with_their_hints_and_sorted(store: Store) -> None:
    """A server's tools are known by name, with the hints that they have, once for each name."""
    listed = [KnownTool("b", destructive=True), KnownTool("a", read_only=True), KnownTool("b")]
    keep_tools(store, "inv", listed, command="c1")
    known = known_tools(store)
    assert dict(known.servers) == {"inv": (KnownTool("a", read_only=True), KnownTool("b"))}
    assert known.commands["inv"] == "c1"
    assert known.with_tool("a") == ("inv",)


def test_the_same_list_is_written_once(store: Store) -> None:
    """A list that is known already is not written again, and a shorter one takes its place."""
    keep_tools(store, "inv", tools("a", "b"))
    before = store.ref(f"{TOOLS}inv")
    keep_tools(store, "inv", tools("b", "a"))
    assert store.ref(f"{TOOLS}inv") == before
    keep_tools(store, "inv", tools("a"))
    assert [name for _, name in known_tools(store).names()] == ["a"]


def test_names_that_are_none_are_not_kept(store: Store) -> None:
    """A name that is not canonical, and a tool that no rule could name, are left out."""
    keep_tools(store, "my-server", tools("a"))
    keep_tools(store, "", tools("a"))
    keep_tools(store, "inv", tools("a", "b c", "", "d" * 200))
    assert list(known_tools(store).names()) == [("inv", "a")]


def test_a_server_that_gets_a_name_loses_the_one_that_it_gave_itself(store: Store) -> None:
    """What a command's server called itself is forgotten once a person named it; another command's name is kept."""
    keep_tools(store, "Inventory", tools("a"), command="c1", is_given=False)
    keep_tools(store, "Other", tools("a"), command="c2", is_given=False)
    keep_tools(store, "work", tools("a"), command="c1")
    keep_tools(store, "home", tools("a"), command="c1")
    assert set(known_tools(store).servers) == {"Other", "work", "home"}
    forget_own_name(store, "c2")
    assert set(known_tools(store).servers) == {"work", "home"}


def test_a_name_belongs_to_its_command(store: Store) -> None:
    """A server that another command starts is distinguished from the one that has the name, whoever gave it."""
    keep_tools(store, "inv", tools("a"), command="c1")
    keep_tools(store, "self", tools("a"), command="c1", is_given=False)
    assert is_anothers(store, "inv", "c2")
    assert not is_anothers(store, "inv", "c1")
    keep_tools(store, "own", tools("a"), command="c3", is_given=False)
    assert is_anothers(store, "own", "c2")
    assert not is_anothers(store, "own", "c3")
    assert not is_anothers(store, "unheard_of", "c2")


def test_all_is_bounded(store: Store) -> None:
    """Tools beyond a thousand, and servers beyond a hundred, are not kept."""
    keep_tools(store, "many", tools(*(f"t{n}" for n in range(MAX_TOOLS + 5))))
    assert len(known_tools(store).servers["many"]) == MAX_TOOLS
    for number in range(MAX_SERVERS + 5):
        keep_tools(store, f"s{number}", tools("a"))
    assert len(known_tools(store).servers) == MAX_SERVERS


@pytest.mark.parametrize("text", ["", "[]", "{", '{"tools":[{"name":5}]}', '{"tools":[{"name":"a b"}]}'])
def test_a_ref_of_another_form_tells_nothing(store: Store, text: str) -> None:
    """What cannot be read as a list of tools has none."""
    store.swap(f"{TOOLS}inv", text, expect=None)
    store.swap(f"{TOOLS}my-server", '{"tools":[{"name":"a"}]}', expect=None)
    assert list(known_tools(store).names()) == []
    assert "my-server" not in known_tools(store).servers


def test_a_server_that_changes_its_own_name_leaves_no_others_behind(store: Store) -> None:
    """A command's server is known by the last name that it gave itself alone: names cannot crowd out other servers."""
    for number in range(MAX_SERVERS + 5):
        keep_tools(store, f"s{number}", tools("a"), command="c1", is_given=False)
    keep_tools(store, "git", tools("a"), command="c2")
    assert set(known_tools(store).servers) == {f"s{MAX_SERVERS + 4}", "git"}


def test_what_dead_proxies_wrote_is_taken_away(store: Store) -> None:
    """Of proxies and gateways' sessions whose process has ended nothing stays; what runs, or ran on another machine, is kept."""
    here, there = process.current(), Process("a:b:c", 1, 1)
    dead = Process(here.host, here.pid, here.started + 1)
    for who in (here, there, dead):
        register(store, b"k", f"g{who.host[0]}", who, ["t"])
        store.swap(f"proxy/s/{who}@key", "x", expect=None)
        store.swap(f"lister/{who}@key", f"{who} aex.resume", expect=None)
    forget_dead(store)
    left = [*store.refs("proxy/"), *store.refs("lister/")]
    assert len(left) == 6
    assert not any(str(dead) in name for name in left)
