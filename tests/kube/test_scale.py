"""Patches of ``/scale``: what becomes of them, whatever the server does, and that none is sent without the lead."""

import json
from collections.abc import Callable

import pytest

from autoscaler.adapters.kube.answers import KubeError
from autoscaler.adapters.kube.scale import ScaleSeen, patch_scale, read_scale
from autoscaler.api.claims import TargetRef
from autoscaler.ports import Fault, Patch, PortError, RefusedError
from tests.kube.apis import Apis, Ill, Reply, deployment, ref_to, serving


async def patch(
    apis: Apis,
    ref: TargetRef,
    seen_replicas: int,
    replicas: int,
    *,
    may_write: Callable[[], bool] = lambda: True,
    remaining_s: float = 5.0,
    timeout_s: float = 1.0,
) -> Patch:
    async with serving(apis) as api:
        return await patch_scale(
            api,
            ref,
            seen_replicas=seen_replicas,
            replicas=replicas,
            may_write=may_write,
            remaining_s=lambda: remaining_s,
            timeout_s=timeout_s,
        )


def count(apis: Apis, ref: TargetRef) -> int:
    replicas = apis.objects[ref.path]["spec"]["replicas"]
    assert isinstance(replicas, int)
    return replicas


@pytest.mark.parametrize(
    ("seen", "wanted"),
    [
        pytest.param(3, 5, id="three to five"),
        pytest.param(3, 0, id="three to zero"),
        pytest.param(0, 4, id="zero, which the server leaves out, to four"),
        pytest.param(3, 3, id="three to three"),
    ],
)
async def test_a_count_is_written_where_the_seen_one_stands(seen: int, wanted: int) -> None:
    apis = Apis()
    ref = ref_to(apis, replicas=seen)
    assert await patch(apis, ref, seen, wanted) is Patch.APPLIED
    assert count(apis, ref) == wanted


@pytest.mark.parametrize(
    ("stands", "seen", "wanted"),
    [
        pytest.param(4, 3, 5, id="somebody wrote four"),
        pytest.param(0, 3, 5, id="somebody wrote zero"),
        pytest.param(2, 0, 5, id="somebody woke it"),
    ],
)
async def test_another_count_than_the_seen_one_is_a_conflict_and_stays(stands: int, seen: int, wanted: int) -> None:
    apis = Apis()
    ref = ref_to(apis, replicas=stands)
    assert await patch(apis, ref, seen, wanted) is Patch.CONFLICT
    assert count(apis, ref) == stands


async def test_a_conflict_stays_one_when_the_count_cannot_be_read_back() -> None:
    apis = Apis()
    ref = ref_to(apis, replicas=4)
    apis.ills = [None, Ill.UNAVAILABLE]
    assert await patch(apis, ref, 3, 5) is Patch.CONFLICT


async def test_a_count_that_the_server_does_not_allow_is_refused_in_its_words_and_is_no_conflict() -> None:
    apis = Apis()
    ref = ref_to(apis)
    apis.most_replicas = 8
    with pytest.raises(RefusedError, match=r"422 Invalid: spec.replicas: Invalid value: 9: should be less"):
        await patch(apis, ref, 3, 9)
    assert count(apis, ref) == 3


def conflict(apis: Apis) -> None:
    """Have every patch answered as by a webhook that wants none, or of an object that is written all the time."""
    said = {"kind": "Status", "status": "Failure", "message": "not during a drain", "reason": "Conflict", "code": 409}
    apis.replies["PATCH"] = Reply(409, json.dumps(said).encode(), {"Content-Type": "application/json"})


async def test_a_conflict_over_a_count_that_stands_as_it_was_is_a_refusal_that_may_pass_in_the_servers_words() -> None:
    apis = Apis()
    ref = ref_to(apis)
    conflict(apis)
    apis.change_scale = 3  # nothing is written
    with pytest.raises(RefusedError, match="409 Conflict: not during a drain") as refused:
        await patch(apis, ref, 3, 5)
    assert refused.value.fault is Fault.OUTDATED
    assert count(apis, ref) == 3


async def test_a_conflict_over_a_count_that_somebody_wrote_is_one() -> None:
    apis = Apis()
    ref = ref_to(apis, replicas=4)
    conflict(apis)
    assert await patch(apis, ref, 3, 5) is Patch.CONFLICT


async def test_a_target_made_anew_with_the_same_count_is_not_touched() -> None:
    apis = Apis()
    ref = ref_to(apis)
    apis.put(ref.path, deployment())
    with pytest.raises(RefusedError, match="prod/deployments/llama/scale: the target was deleted and made anew"):
        await patch(apis, ref, 3, 5)
    assert count(apis, ref) == 3


async def test_a_target_that_is_gone_is_a_refusal_that_says_so() -> None:
    apis = Apis()
    ref = ref_to(apis)
    del apis.objects[ref.path]
    with pytest.raises(RefusedError, match='404 NotFound: "scale" not found'):
        await patch(apis, ref, 3, 5)


async def test_a_target_that_goes_away_between_patch_and_look_is_a_refusal() -> None:
    apis = Apis()
    ref = ref_to(apis, replicas=4)

    def vanish(method: str, path: str) -> None:
        if method == "GET":
            del apis.objects[ref.path]

    apis.before = vanish
    with pytest.raises(RefusedError, match="404"):
        await patch(apis, ref, 3, 5)


async def test_an_admission_that_changes_the_count_is_not_taken_for_success() -> None:
    apis = Apis()
    ref = ref_to(apis)
    apis.change_scale = 4
    with pytest.raises(RefusedError, match="9 replicas asked for, 4 kept"):
        await patch(apis, ref, 3, 9)


@pytest.mark.parametrize(
    ("ill", "fault", "words"),
    [
        pytest.param(Ill.FORBIDDEN, Fault.DENIED, '403 Forbidden: User "headroom" cannot do that', id="no right"),
        pytest.param(Ill.TOO_MANY, Fault.UNAVAILABLE, "429", id="too many requests"),
    ],
)
async def test_an_answer_that_means_nothing_was_written_is_a_refusal(ill: Ill, fault: Fault, words: str) -> None:
    apis = Apis()
    ref = ref_to(apis)
    apis.ills = [ill]
    with pytest.raises(RefusedError, match=words) as refused:
        await patch(apis, ref, 3, 5)
    assert refused.value.fault is fault
    assert count(apis, ref) == 3


@pytest.mark.parametrize(
    "why", ["connect: connection refused", "context deadline exceeded"], ids=["is not there", "does not answer"]
)
async def test_a_webhook_that_cannot_be_asked_keeps_the_count_and_is_a_refusal_that_may_pass(why: str) -> None:
    apis = Apis()
    ref = ref_to(apis)
    message = f'Internal error occurred: failed calling webhook "a.example.com": failed to call webhook: Post: {why}'
    said = {"kind": "Status", "status": "Failure", "message": message, "reason": "InternalError", "code": 500}
    apis.replies["PATCH"] = Reply(500, json.dumps(said).encode(), {"Content-Type": "application/json"})
    with pytest.raises(RefusedError, match=r'500 InternalError: .*failed calling webhook "a.example.com"') as refused:
        await patch(apis, ref, 3, 5)
    assert refused.value.fault is Fault.UNAVAILABLE


async def test_an_error_of_the_servers_own_that_only_speaks_of_webhooks_leaves_the_outcome_unknown() -> None:
    apis = Apis()
    ref = ref_to(apis)
    message = "Internal error occurred: etcdserver: leader changed while a webhook was called"
    said = {"kind": "Status", "status": "Failure", "message": message, "reason": "InternalError", "code": 500}
    apis.replies["PATCH"] = Reply(500, json.dumps(said).encode(), {"Content-Type": "application/json"})
    with pytest.raises(PortError) as unknown:
        await patch(apis, ref, 3, 5)
    assert not isinstance(unknown.value, RefusedError)


@pytest.mark.parametrize(
    ("ill", "fault"),
    [
        pytest.param(Ill.HTML_500, Fault.UNAVAILABLE, id="500 with HTML"),
        pytest.param(Ill.UNAVAILABLE, Fault.UNAVAILABLE, id="503"),
        pytest.param(Ill.WAITED_408, Fault.INVALID, id="408 of a proxy that waited"),
        pytest.param(Ill.HTML_200, Fault.INVALID, id="a login page with 200"),
        pytest.param(Ill.EMPTY_200, Fault.INVALID, id="an empty object with 200"),
        pytest.param(Ill.HANG, Fault.TIMEOUT, id="no answer, not written"),
        pytest.param(Ill.LATE_HANG, Fault.TIMEOUT, id="no answer, written"),
        pytest.param(Ill.CLOSE, Fault.UNAVAILABLE, id="cut, not written"),
        pytest.param(Ill.LATE_CLOSE, Fault.UNAVAILABLE, id="cut, written"),
    ],
)
async def test_without_a_clear_answer_the_outcome_is_unknown_and_nothing_is_sent_again(ill: Ill, fault: Fault) -> None:
    apis = Apis()
    ref = ref_to(apis)
    apis.ills = [ill]
    with pytest.raises(PortError) as unknown:
        await patch(apis, ref, 3, 5, timeout_s=0.2 if fault is Fault.TIMEOUT else 20.0)
    assert not isinstance(unknown.value, RefusedError)
    assert unknown.value.fault is fault
    assert len(apis.asked) == 1
    assert count(apis, ref) == (5 if ill.late else 3)


async def test_without_the_lead_nothing_is_sent() -> None:
    apis = Apis()
    ref = ref_to(apis)
    with pytest.raises(RefusedError, match="not sent: this process does not lead"):
        await patch(apis, ref, 3, 5, may_write=lambda: False)
    with pytest.raises(RefusedError, match="not sent: this process does not lead"):
        await patch(apis, ref, 3, 5, remaining_s=0.0)
    assert apis.asked == []


async def test_a_patch_is_not_waited_for_longer_than_the_lead_lasts() -> None:
    apis = Apis()
    ref = ref_to(apis)
    apis.ills = [Ill.HANG]
    with pytest.raises(KubeError, match=r"no answer within 0.1 s"):
        await patch(apis, ref, 3, 5, remaining_s=0.1, timeout_s=30.0)


async def test_the_scale_is_read_with_its_zeros() -> None:
    apis = Apis()
    ref = ref_to(apis, replicas=0)
    apis.edit(ref.path, status={"replicas": 2})
    async with serving(apis) as api:
        seen = await read_scale(api, ref, 1.0)
    assert seen == ScaleSeen(0, 2, "app=llama", ref.uid, seen.resource_version)


@pytest.mark.parametrize("ill", [Ill.HTML_200, Ill.EMPTY_200])
async def test_an_answer_of_somebody_else_is_no_count_of_zero(ill: Ill) -> None:
    apis = Apis()
    ref = ref_to(apis)
    apis.ills = [ill]
    async with serving(apis) as api:
        with pytest.raises(KubeError, match="200, but not the object"):
            await read_scale(api, ref, 1.0)
