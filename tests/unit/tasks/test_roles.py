"""Who may say yes to a question, where its rule names a person or a group."""

from __future__ import annotations

import pytest

from adjourn.errors import RefusedError
from adjourn.log.event import Actor
from adjourn.policy.principal import Principal
from adjourn.store.memory import MemoryStore
from adjourn.tasks.approvals import PersonsAnswer, answer_first, roles_of
from adjourn.tasks.task import Task
from support.task_sessions import SECRET
from support.waiting import asked

NOON = 1_777_700_000_000


def test_a_persons_roles_are_its_name_and_groups() -> None:
    """Whoever has an account that is named as a group is has no role by that name."""
    ann = Principal(id="1", name="ann", type="human", groups=("ops", "leads"), label="group:boss")
    assert roles_of(ann) == {"ann", "group:ops", "group:leads"}
    assert roles_of(Principal(id="2", name="group:leads", type="human")) == frozenset()


def answered(who: str, by: str, *roles: str, yes: bool = True) -> bool:
    """Whether a question for `who` takes an answer."""
    task = Task(MemoryStore(), "t", clock=lambda: NOON, secret=SECRET)
    asked(task, "k1", who=who)
    try:
        answer_first(task, "k1", PersonsAnswer(yes, "page", Actor(by, "human"), roles=roles))
    except RefusedError:
        return False
    return True


@pytest.mark.parametrize(
    ("who", "by", "roles", "may"),
    [
        ("", "ann", (), True),
        ("ann", "ann", (), True),
        ("ann", "Ann (ann)", ("ann",), True),
        ("ann", "ann (bob)", ("bob", "group:ann"), False),
        ("ann", "bob", (), False),
        ("group:leads", "ann", ("ann", "group:leads"), True),
        ("group:leads", "ann", ("ann", "group:ops", "group:leads2", "leads"), False),
        ("group:leads", "group:leads", (), False),
        ("group:leads", "leads", (), False),
        ("group:", "ann", ("ann", "group:ops"), False),
    ],
)
def test_a_yes_is_of_the_named_person_or_group(who: str, by: str, roles: tuple[str, ...], may: bool) -> None:
    """A group counts where the answering person was authenticated as its member; a name that looks like a group is none."""
    assert answered(who, by, *roles) is may
    assert answered(who, by, *roles, yes=False)
