"""Missing capacity shows itself in passing: by a claim that goes before its launch, or by an event about one."""

from autoscaler.adapters.kube.informer import Change
from autoscaler.adapters.kube.pool_objects import NodeClaim
from autoscaler.adapters.kube.pool_signs import REMEMBER_S, Signs
from autoscaler.core.pool.params import CapacityType, Domain
from autoscaler.core.pool.world import Sign, Trouble
from tests.kube.pools import T0, TIER, claim, event

TIERS = {"gpu": TIER}
OPEN = Domain("h100", "", CapacityType.ON_DEMAND)
IN_B = Domain("h100", "b", CapacityType.ON_DEMAND)
B = {"requirements": [{"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["b"]}]}


def came(one: NodeClaim) -> Change[NodeClaim]:
    return Change(one.metadata.name, None, one)


def went(one: NodeClaim) -> Change[NodeClaim]:
    return Change(one.metadata.name, one, None)


def test_a_claim_that_goes_before_its_launch_is_a_sign_and_one_that_was_launched_is_none() -> None:
    signs, launched = Signs(), claim("gpu-fghij", conditions=("Launched",))
    for one in (claim(spec=B), launched):
        signs.on_claim(came(one), T0)
        signs.on_claim(went(one), T0 + 3)
    assert signs.troubles(TIERS, T0 + 4) == (Trouble(Sign.CLAIM_GONE, "gpu-abcde", T0 + 3, IN_B),)


def test_an_event_may_come_before_or_after_the_deletion_and_knows_the_domain_either_way() -> None:
    signs, one = Signs(), claim(spec=B)
    signs.on_claim(came(one), T0)
    signs.on_claim(went(one), T0 + 3)
    signs.on_no_capacity(event("gpu-abcde"), T0 + 6)
    told = signs.troubles(TIERS, T0 + 6)
    assert {(t.sign, t.claim, t.domain) for t in told} == {
        (Sign.CLAIM_GONE, "gpu-abcde", IN_B), (Sign.INSUFFICIENT, "gpu-abcde", IN_B),
    }  # fmt: skip


def test_an_event_about_a_claim_that_was_never_seen_names_its_node_pool_by_its_own_name() -> None:
    signs = Signs()
    signs.on_no_capacity(event("gpu-zzzzz"), T0 + 6)
    signs.on_no_capacity(event("other-zzzzz"), T0 + 6)
    assert signs.troubles(TIERS, T0 + 7) == (Trouble(Sign.INSUFFICIENT, "gpu-zzzzz", T0 + 5, OPEN),)


def test_a_repeated_event_is_one_sign_and_old_ones_are_forgotten() -> None:
    signs = Signs()
    signs.on_no_capacity(event("gpu-zzzzz"), T0 + 6)
    signs.on_no_capacity(event("gpu-zzzzz", second=30), T0 + 31)
    assert len(signs.troubles(TIERS, T0 + 32)) == 1
    assert signs.troubles(TIERS, T0 + 5 + REMEMBER_S + 1) == ()
    signs.on_no_capacity(event("gpu-old", second=0), T0 + REMEMBER_S + 1)
    assert signs.troubles(TIERS, T0 + REMEMBER_S + 1) == (), "an event of long ago tells nothing of now"


def test_a_node_pool_of_which_nothing_is_offered_is_a_sign_as_often_as_it_is_said() -> None:
    signs = Signs()
    signs.on_not_offered(event("gpu"), T0 + 6)
    signs.on_not_offered(event("gpu"), T0 + 7)
    signs.on_not_offered(event("gpu", second=30), T0 + 31)
    signs.on_not_offered(event("other"), T0 + 31)
    told = signs.troubles(TIERS, T0 + 32)
    assert [(t.sign, t.at_s, t.domain) for t in told] == [(Sign.NOT_OFFERED, T0 + at_s, OPEN) for at_s in (5, 30)]


def test_a_nomination_names_the_claim_that_a_slot_waits_for_until_its_pod_is_gone() -> None:
    signs = Signs()
    signs.on_nominated(event("chat-0", "Pod should schedule on: nodeclaim/gpu-abcde, node/n0", uid="u0"))
    signs.on_nominated(event("chat-1", "Pod should schedule on: node/n1", uid="u1"))
    assert (signs.nominated("u0"), signs.nominated("u1")) == ("gpu-abcde", None)
    signs.on_gone("u0")
    assert signs.nominated("u0") is None
