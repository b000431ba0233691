"""Rules that hold only for somebody: who they hold for, what is left of a policy for one, and that it is never more than is written."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjourn.aex import Policy, compiled, examine, from_text, merge, narrowed, not_granted
from adjourn.aex.format import formatted, meaning
from adjourn.policy.principal import Principal
from support import strategies

ANN = Principal(id="issuer|1", name="ann", type="human", groups=("ops", "dev"))
BOB = Principal(id="issuer|2", name="Bob", type="human", groups=("OPS",))
CI = Principal(id="key-7", name="ci", type="service")
WHO = st.sampled_from([ANN, BOB, CI, None])
Blocks = list[tuple[list[str], list[str]]]
calls = st.tuples(strategies.call_tools, strategies.call_arguments, strategies.call_paths)

TEAM = """\
policy team v1

allow docs.*
deny secrets.*
budget calls=500 per day, calls=100 per day each principal, minutes=90

for group:ops
  allow deploy.*
  confirm before deploy.production within 10m

for group:interns, service:ci
  deny deploy.production
  limit docs.* 20 per minute
  budget calls=50 per hour, calls=10, minutes=200
"""


def read(text: str) -> Policy:
    found, findings = from_text(text, "p.aex")
    assert not [finding for finding in findings if finding.severity == "error"], findings
    return found


def written(lines: list[str], blocks: Blocks = []) -> str:  # noqa: B006  # it is not changed
    text = ["policy p v1", *(line for line in lines if not line.startswith("budget"))]
    for whom, rules in blocks:
        text += [f"for {', '.join(whom)}", *(f"  {rule}" for rule in rules)]
    return "\n".join(text)


def chosen(lines: list[str], blocks: Blocks, who: Principal | None) -> str:
    """The text with the rules of the blocks that hold for somebody in the place of the blocks."""
    names = [] if who is None else [f"{'user' if who.type == 'human' else 'service'}:{who.name}"]
    names += [f"group:{group}" for group in who.groups] if who else []
    folded = {name.lower() for name in names}
    kept = list(lines)
    for whom, rules in blocks:
        exact = bool(set(whom) & set(names))
        alike = who is None or bool({name.lower() for name in whom} & folded)
        kept += [rule for rule in rules if (exact if rule.startswith("allow") else alike)]
    return written(kept)


@given(strategies.rule_lines, strategies.rule_blocks, WHO, calls)
def test_a_narrowed_policy_judges_as_one_with_only_the_rules_of_that_principal(
    lines: list[str], blocks: Blocks, who: Principal | None, call: tuple[str, dict[str, Any], list[str]]
) -> None:
    """Every call gets the verdict, the questions, the limits and the checkpoints of the policy in which somebody picked the rules by hand."""
    one = narrowed(read(written(lines, blocks)), who)
    other = read(chosen(lines, blocks, who))
    mine, theirs = one.judge_call(*call), other.judge_call(*call)
    assert mine.effect == theirs.effect
    assert {rule.meaning for rule in mine.confirms} == {rule.meaning for rule in theirs.confirms}
    limits = [{rule.meaning for rule in policy.limits_of(call[0])} for policy in (one, other)]
    assert limits[0] == limits[1]
    assert one.visible(call[0]) is other.visible(call[0])
    assert narrowed(one, who) == one


@given(strategies.rule_lines, strategies.rule_blocks, WHO, calls)
def test_nobody_is_allowed_no_more_than_somebody(
    lines: list[str], blocks: Blocks, who: Principal | None, call: tuple[str, dict[str, Any], list[str]]
) -> None:
    """What passes where nobody is known passes for everybody, without more questions."""
    policy = read(written(lines, blocks))
    unknown, known = policy.judge_call(*call), narrowed(policy, who).judge_call(*call)
    if unknown.effect == "allow":
        assert known.effect == "allow"
        assert len(known.confirms) <= len(unknown.confirms)


@given(strategies.rule_lines, strategies.rule_blocks, strategies.rule_lines, WHO, calls)
def test_a_contract_is_merged_with_what_its_principal_may(
    lines: list[str],
    blocks: Blocks,
    asked: list[str],
    who: Principal | None,
    call: tuple[str, dict[str, Any], list[str]],
) -> None:
    """Narrowing a merged policy judges as merging the narrowed one: a contract never widens what a principal may do."""
    policy = read(written(lines, blocks))
    contract = from_text("\n".join(["task t v1", 'goal "g"', *asked, "return 1"]), "c.aex")[0]
    first = merge(narrowed(policy, who), contract).judge_call(*call)
    last = narrowed(merge(policy, contract), who).judge_call(*call)
    assert first.effect == last.effect
    assert {rule.meaning for rule in first.confirms} == {rule.meaning for rule in last.confirms}


@given(strategies.rule_lines, strategies.rule_blocks)
def test_blocks_are_laid_out_and_say_the_same(lines: list[str], blocks: Blocks) -> None:
    """The formatter keeps whom each rule is for, and its own output."""
    document = examine(written(lines, blocks))
    after = formatted(document)
    assert meaning(examine(after)) == meaning(document)
    assert formatted(examine(after)) == after
    assert narrowed(read(after), ANN).allow == narrowed(read(after), ANN).allow


def effects(policy: Policy, *tools: str) -> list[str]:
    return ["ask" if (found := policy.judge(tool)).confirm else found.effect for tool in tools]


TOOLS = ("docs.read", "deploy.staging", "deploy.production", "secrets.read")


def test_an_allow_holds_for_those_it_names_and_a_deny_for_whoever_is_not_known() -> None:
    """Ann of ops deploys and is asked; ci may not deploy; who is not known has no allow of anybody, and every restriction."""
    team = read(TEAM)
    assert effects(narrowed(team, ANN), *TOOLS) == ["allow", "allow", "ask", "deny"]
    assert effects(narrowed(team, CI), *TOOLS) == ["allow", "closed", "deny", "deny"]
    assert effects(narrowed(team, None), *TOOLS) == ["allow", "closed", "deny", "deny"]
    assert effects(team, *TOOLS) == ["allow", "closed", "deny", "deny"]
    assert [str(rule) for rule in team.limits] == [
        "limit docs.* 20 per minute for group:interns, service:ci (p.aex:13)"
    ]


def test_an_allow_takes_a_name_exactly_and_a_restriction_in_any_case() -> None:
    """The group OPS is not ops where something is allowed, and is where something is asked or denied."""
    bob = narrowed(read(TEAM), BOB)
    assert effects(bob, "deploy.staging") == ["closed"]
    assert [rule.line for rule in bob.confirm] == [9]
    assert narrowed(read("policy p v1\nfor user:bob\n  allow x\n  deny y"), BOB).allow == ()
    assert effects(narrowed(read("policy p v1\nallow *\nfor user:bob\n  deny y"), BOB), "y") == ["deny"]


def test_a_service_is_no_user_of_the_same_name() -> None:
    """Whoever may name a service cannot take a person's rights with the name."""
    policy = read("policy p v1\nfor user:ci\n  allow deploy")
    assert effects(narrowed(policy, CI), "deploy") == ["closed"]
    human = Principal(id="x", name="ci", type="human")
    assert effects(narrowed(policy, human), "deploy") == ["allow"]


def test_of_each_budget_the_smallest_that_holds_counts() -> None:
    """The budgets of a task are the smaller ones; each count over all tasks applies, of all, of some, of each."""
    team = read(TEAM)
    assert (narrowed(team, ANN).budget, narrowed(team, ANN).budgets["minutes"].amount) == (None, 90)
    assert (narrowed(team, CI).budget, narrowed(team, CI).budgets["minutes"].amount) == (10, 90)
    assert (team.budget, str(team.budget_rule)) == (10, "budget calls=10 for group:interns, service:ci (p.aex:14)")
    counted = [(rule.counter, rule.owner) for rule in narrowed(team, CI).workspace_budgets]
    assert counted[0] == ("86400", "")
    assert counted[1][0].startswith("86400/each/")
    assert counted[1][1] == "ci"
    assert counted[2][0].startswith("3600/for/")
    assert counted[2][1] == "group:interns, service:ci"
    assert len(narrowed(team, ANN).workspace_budgets) == 2


def test_each_principal_has_a_count_by_id_and_not_by_name() -> None:
    """Two with the same name have two counts; one who is renamed keeps theirs; who is not known shares one."""
    team = read(TEAM)
    ids = [ANN, Principal(id="other|1", name="ann", type="human"), Principal(id=ANN.id, name="anna", type="human")]
    first, second, renamed = (narrowed(team, who).workspace_budgets[1].counter for who in ids)
    assert first == renamed != second
    assert team.workspace_budgets[1].counter == "86400/each"
    assert team.workspace_budgets[1].owner == "clients without a login"


def test_a_group_has_one_count_however_its_rule_is_written() -> None:
    """The same names in another order and case are the same count."""
    text = "policy p v1\nfor {}\n  budget calls=5 per day"
    one, other = (
        read(text.format(whom)).workspace_budgets[0].counter for whom in ("group:a, user:b", "user:B, group:a")
    )
    assert one == other


def test_names_that_cannot_be_read_allow_nothing_and_restrict_all() -> None:
    """With a typing error in `for`, its allows are gone and its denies hold for everybody."""
    policy, findings = from_text("policy p v1\nallow x\nfor group:ops, tem:y\n  allow z\n  deny x", "p.aex")
    assert [found.code for found in findings] == ["AEX146"]
    assert effects(narrowed(policy, ANN), "x", "z") == ["deny", "closed"]


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("for ops", "write `for user:ops`, `for group:ops`, `for service:ops`, `for client:ops`"),
        ("for team:ops", "did you mean group:ops?"),
        ("for bot:ci", "did you mean service:ci?"),
        ("for group:ops allow x", "put `allow x` in the next line, indented; separate names by commas"),
        ("for user:*", "leave out the `for`: a rule without one holds for all"),
    ],
)
def test_the_remedy_says_what_was_most_likely_meant(line: str, remedy: str) -> None:
    """Each mistake behind `for` gets the line as it should be."""
    found = next(one for one in examine(f"policy p v1\n{line}\n  deny x").findings if one.code == "AEX146")
    assert found.help == remedy


def test_what_some_principal_may_is_not_reported_as_never_granted() -> None:
    """A contract's request that the policy grants to somebody is no mistake."""
    contract = from_text('task t v1\ngoal "g"\nuse deploy.*, other\nreturn 1', "c.aex")[0]
    assert [found.message for found in not_granted(read(TEAM), contract)] == [
        "the policy does not grant all of `other`, so none of it is permitted"
    ]


def test_the_published_forms_keep_rules_for_somebody_apart() -> None:
    """`use`, `deny` and `permissions` hold what is for all, and `blocks` the rest, so that a program takes none of it for all."""
    document = examine(TEAM)
    program = compiled(document)
    assert program.permissions.use == ["docs.*"]
    assert isinstance(program.blocks, list)
    assert [block.whom for block in program.blocks] == [["group:ops"], ["group:interns", "service:ci"]]
    assert program.blocks[1].permissions.deny == ["deploy.production"]


def test_layout_of_a_policy_with_blocks() -> None:
    """Blocks follow what holds for all, each with its comments."""
    text = "for group:ops,user:ann\n    # why\n    allow  a,b\npolicy p v1\n\nallow c\nconfirm before c\n"
    assert formatted(examine(text)) == (
        "policy p v1\n\nallow c\n\nconfirm before c\n\nfor group:ops, user:ann\n  # why\n  allow a, b\n"
    )


EVE = Principal(id="issuer u2", name="u2", type="service", label="ann")


def test_a_label_permits_nothing_and_restricts_all_the_same() -> None:
    """Who calls itself ann gets no rule that permits ann something, and those that restrict ann, person or service."""
    team = read("policy p v1\nallow a.*\nfor user:ann\n  allow b.*\n  deny a.write\n  limit a.read 5 per minute")
    assert [rule.pattern for rule in narrowed(team, ANN).allow] == ["a.*", "b.*"]
    assert [rule.pattern for rule in narrowed(team, EVE).allow] == ["a.*"]
    assert [rule.pattern for rule in narrowed(team, EVE).deny] == ["a.write"]
    assert len(narrowed(team, EVE).limits) == 1


def test_who_was_a_person_by_its_subject_keeps_what_restricts_it() -> None:
    """A rule that restricts a subject holds for it as a person and as a service; for a key of that name it does not."""
    team = read("policy p v1\nallow a.*\nfor user:u2\n  deny a.write")
    assert narrowed(team, EVE).deny
    assert not narrowed(team, Principal(id="key:1", name="u2", type="service")).deny


def test_a_label_spends_nothing_of_whom_it_names() -> None:
    """A budget of ann counts ann's calls; whoever calls itself so has the same budget, and a count of its own."""
    team = read("policy p v1\nallow a.*\nfor user:ann\n  budget calls=5 per day")
    other = Principal(id="issuer u3", name="u3", type="human", label="Ann")
    another = Principal(id="key:2", name="Ann", type="human")
    everybody = (ANN, EVE, other, another)
    budgets = [narrowed(team, who).workspace_budgets[0] for who in everybody]
    assert {budget.amount for budget in budgets} == {5}
    assert len({budget.counter for budget in budgets}) == len(everybody)


@pytest.mark.parametrize("name", ["auth0|6553da60a54af58e", "00u5t60iloOHN9pBi0h7", "abc@clients", "8d0f3a86-7c3f"])
def test_a_subject_of_a_token_can_be_named(name: str) -> None:
    """As issuers form them."""
    team = read(f"policy p v1\nallow a.*\nfor user:{name}, service:{name}\n  allow b.*")
    who = Principal(id=f"issuer {name}", name=name, type="human", label="ann")
    assert len(narrowed(team, who).allow) == 2


BY_CLIENT = """\
policy p v1

allow shell.exec:ls*

for client:claude-code
  allow shell.exec
  confirm before shell.exec

for client:codex, user:ann
  deny shell.exec:rm *
"""


def test_rules_for_a_client_hold_for_its_hook_alone() -> None:
    """A client gets what is written for it, and neither the rights nor the limits of another; where none is known, only the limits."""
    policy = read(BY_CLIENT)

    def judged(client: str, command: str, who: Principal | None = None) -> tuple[str, bool]:
        verdict = narrowed(policy, who, client).judge_call("shell.exec", {"command": command}, [command])
        return verdict.effect, bool(verdict.confirms)

    assert judged("claude-code", "make") == ("allow", True)
    assert judged("codex", "ls src") == ("allow", False)
    assert judged("codex", "make") == ("closed", False)
    assert judged("codex", "rm x")[0] == "deny"
    assert judged("claude-code", "rm x", BOB) == ("allow", True)
    assert judged("claude-code", "rm x", ANN)[0] == "deny"
    assert judged("", "make") == ("closed", False)
    assert judged("", "ls src") == ("allow", True)
    assert judged("", "rm x")[0] == "deny"
    assert judged("CODEX", "rm x")[0] == "deny"
