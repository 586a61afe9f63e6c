"""What is read of pods behind our gate, what is sent to let them in, and gangs that are written in part."""

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
import pytest

from autoscaler.adapters.kube.answers import Answer, KubeError
from autoscaler.adapters.kube.batch_members import free_seats
from autoscaler.adapters.kube.batch_objects import QueuedPod
from autoscaler.adapters.kube.batch_pod_groups import QueuedPods, pod_gang
from autoscaler.adapters.kube.batch_pod_writer import PodWriter
from autoscaler.adapters.kube.batch_pods import gang_of
from autoscaler.adapters.kube.batch_work import Put, Work
from autoscaler.adapters.kube.batch_writer import BatchWriter
from autoscaler.adapters.kube.informer import Change
from autoscaler.adapters.kube.meta import Meta
from autoscaler.adapters.kube.pool_writer import Became
from autoscaler.ports import Fault
from autoscaler.runtime.clock import ScaledClock

GATE: Final = "headroom.dev/admission"
HOSTS: Final = "headroom.dev/hosts"


def pod(
    name: str, *, group: str = "", size: str = "", gates: Sequence[str] = (GATE,), gpus: int = 8, version: str = "7",
    labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None, phase: str = "Pending",
    meta: dict[str, Any] | None = None, **spec: Any,
) -> dict[str, Any]:  # fmt: skip
    """A pod of queue `team`, as the API server shows it."""
    return {
        "metadata": {
            "name": name, "namespace": "ns", "uid": name, "resourceVersion": version,
            "creationTimestamp": "1970-01-01T00:00:30Z",
            "labels": {"headroom.dev/queue": "team"} | ({"headroom.dev/pod-group": group} if group else {})
            | (labels or {}),
            "annotations": ({"headroom.dev/pod-group-size": size} if size else {}) | (annotations or {}),
        } | (meta or {}),
        "spec": {
            "schedulingGates": [{"name": gate} for gate in gates],
            "containers": [{"resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}], **spec,
        },
        "status": {"phase": phase},
    }  # fmt: skip


def read(*pods: dict[str, Any]) -> QueuedPods:
    books = QueuedPods()
    for each in pods:
        made = msgspec.convert(each, QueuedPod, strict=False)
        books.note(Change(made.metadata.key, None, made))
    return books


def work(*pods: dict[str, Any], name: str = "podgroup/ns/g") -> Work:
    made = read(*pods).work(name, 100.0)
    assert made is not None
    return made


def group(pods: int, size: int, **given: Any) -> list[dict[str, Any]]:
    return [pod(f"g-{at}", group="g", size=str(size), **given) for at in range(pods)]


def findings(one: Work) -> list[tuple[str, bool, str]]:
    """Code, whether it passes by itself, and words of what keeps it from starting."""
    assert one.says is not None
    return [(each.code, each.waits, each.words) for each in one.says.findings if each.stops]


def test_a_pod_in_a_queue_is_a_gang_of_one() -> None:
    one = work(pod("solo"), name="pod/ns/solo")
    assert (one.name, one.suspended, one.can_be_stopped, findings(one)) == ("pod/ns/solo", True, False, [])
    assert [(each.pods, each.asks.units) for each in one.sets] == [(1, {"nvidia.com/gpu": 8.0})]


def test_a_group_waits_until_all_its_pods_are_there_and_says_how_many_are() -> None:
    (found,) = findings(work(*group(5, 8)))
    assert found[:2] == ("INCOMPLETE", True)
    assert found[2] == "headroom.dev/pod-group-size: 5 of 8 pods are there; it waits for the others"
    assert findings(work(*group(8, 8))) == []


def test_a_group_of_hundreds_that_is_made_at_once_is_read_once_and_each_look_only_what_changed() -> None:
    books = read(*group(256, 256))
    assert (books.due(), books.due()) == (("podgroup/ns/g",), ())
    assert findings(work(*group(256, 256))) == []


def test_pods_that_are_told_to_end_or_have_ended_are_not_there() -> None:
    going = pod("g-7", group="g", size="8", meta={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    ended = pod("g-8", group="g", size="8", gates=(), annotations={"headroom.dev/placement": "[]"}, phase="Succeeded")
    assert "7 of 8 pods are there" in findings(work(*group(7, 8), going, ended))[0][2]


REFUSED: Final = {
    "more pods than it has": (group(3, 2), "3 pods are there, and the group has 2"),
    "no size": ([pod("g-0", group="g")], "''; give"),
    "a size of nothing": (group(1, 0), "'0'; give how many pods the group has, 1 to 256"),
    "a size beyond all": (group(1, 257), "'257'; give"),
    "a negative size": ([pod("g-0", group="g", size="-1")], "'-1'; give"),
    "two sizes": ([*group(1, 2), pod("g-1", group="g", size="3")], "say '2' and '3'"),
    "two queues": (
        [*group(1, 2), pod("g-1", group="g", size="2", labels={"headroom.dev/queue": "other"})],
        "are in 'other' and 'team'",
    ),
}


@pytest.mark.parametrize(("pods", "words"), REFUSED.values(), ids=REFUSED)
def test_what_a_group_cannot_mean_is_refused_with_the_field_and_the_remedy(
    pods: list[dict[str, Any]], words: str
) -> None:
    (found,) = findings(work(*pods))
    assert not found[1]
    assert words in found[2]


def test_pods_of_different_form_are_sets_of_one_gang_in_the_same_order_whoever_came_first() -> None:
    pods = [pod("g-0", group="g", size="3", gpus=2), *group(3, 3)[1:]]
    assert sorted((each.pods, each.asks.units["nvidia.com/gpu"]) for each in work(*pods).sets) == [(1, 2.0), (2, 8.0)]
    assert [each.at for each in work(*pods).sets] == [each.at for each in work(*reversed(pods)).sets]


def test_a_gate_of_somebody_else_is_waited_for() -> None:
    (found,) = findings(work(pod("solo", gates=("example.com/quota", GATE)), name="pod/ns/solo"))
    words = "spec.schedulingGates: example.com/quota is there besides; it waits for whoever set it"
    assert found == ("OTHER_GATES", True, words)


MANAGED: Final[dict[str, tuple[dict[str, Any], str]]] = {
    "Kueue, by a label": (pod("p", labels={"kueue.x-k8s.io/queue-name": "q"}), "Kueue"),
    "Kueue, by its gate": (pod("p", gates=("kueue.x-k8s.io/admission", GATE)), "Kueue"),
    "Volcano": (pod("p", schedulerName="volcano"), "Volcano"),
    "KAI": (pod("p", schedulerName="kai-scheduler"), "KAI"),
    "YuniKorn": (pod("p", schedulerName="yunikorn"), "YuniKorn"),
}


@pytest.mark.parametrize(("one", "manager"), MANAGED.values(), ids=MANAGED)
def test_a_pod_that_others_manage_is_theirs(one: dict[str, Any], manager: str) -> None:
    assert work(one, name="pod/ns/p").manager == manager


@pytest.mark.parametrize("kind", ["Job", "PyTorchJob", "RayCluster"])
def test_a_pod_of_an_object_that_is_suspended_is_no_gang_and_with_our_gate_it_is_told_so(kind: str) -> None:
    owners = {"ownerReferences": [{"kind": kind, "name": "train", "controller": True}]}
    bound = pod("p", gates=(), meta=owners, annotations={"headroom.dev/placement": "[]"})
    assert read(bound).work("pod/ns/p", 0.0) is None
    (found,) = findings(work(pod("p", meta=owners), name="pod/ns/p"))
    assert (found[0], f"the pod is a part of {kind}/train" in found[2]) == ("PART_OF_WORK", True)


def test_a_pod_that_was_never_behind_our_gate_is_nobodys_gang() -> None:
    assert read(pod("p", gates=())).work("pod/ns/p", 0.0) is None
    assert pod_gang(Meta("p", "ns", labels={"headroom.dev/queue": "team"})) is None


def test_a_bound_pod_is_known_by_where_it_was_put() -> None:
    labels = {"headroom.dev/queue": "team", "headroom.dev/pod-group": "g"}
    put = {"headroom.dev/placement": "[]"}
    assert gang_of(Meta("g-0", "ns", labels=labels, annotations=put)) == "podgroup/ns/g"
    assert gang_of(Meta("g-0", "ns", labels={"headroom.dev/queue": "team"}, annotations=put)) == "pod/ns/g-0"


def test_a_pod_that_changes_its_group_leaves_the_old_one() -> None:
    books = read(*group(2, 2))
    old, new = (msgspec.convert(pod("g-1", group=name, size="2"), QueuedPod, strict=False) for name in ("g", "h"))
    assert sorted(books.note(Change("ns/g-1", old, new))) == ["podgroup/ns/g", "podgroup/ns/h"]
    left, joined = (books.work(f"podgroup/ns/{name}", 0.0) for name in ("g", "h"))
    assert left is not None
    assert joined is not None
    assert [len(each.members) for each in (left, joined)] == [1, 1]


def test_what_was_heard_is_not_older_than_what_the_server_answered() -> None:
    books = read(pod("p", version="7"))
    books.answered([msgspec.convert(pod("p", gates=(), version="9", annotations={"headroom.dev/placement": "[]"}),
                                    QueuedPod, strict=False)])  # fmt: skip
    stale = msgspec.convert(pod("p", version="8"), QueuedPod, strict=False)
    assert books.note(Change("ns/p", None, stale)) == ()
    found = books.work("pod/ns/p", 0.0)
    assert found is not None
    assert not found.suspended


class Server:
    """Takes patches of pods, but those that a webhook refuses, by pod; `tries` tells whether it can be asked first."""

    def __init__(self, refuses: Sequence[str] = (), *, later: bool = False, tries: bool = True) -> None:
        self.refuses, self.later, self.tries = refuses, later, tries
        self.silent = ""
        self.sent: list[tuple[str, bool]] = []
        self.changes: dict[str, list[dict[str, Any]]] = {}

    async def request(
        self, method: str, path: str, *, query: Sequence[tuple[str, str]] = (), body: bytes | None = None, **_: Any
    ) -> Answer:
        name, is_try = path.rpartition("/")[2], ("dryRun", "All") in query
        assert method == "PATCH"
        assert body is not None
        self.sent.append((name, is_try))
        if is_try and not self.tries:
            raise refusal(400, 'admission webhook "w" does not support dry run')
        if name == self.silent and not is_try:
            raise KubeError(Fault.TIMEOUT, "no answer")
        if name in self.refuses and not (is_try and self.later):
            raise refusal(403, f"{name} is refused by webhook w")
        self.changes[name] = msgspec.json.decode(body)
        notes = next(each["value"] for each in self.changes[name] if each["path"] == "/metadata/annotations")
        return Answer(200, msgspec.json.encode(pod(name, group="g", gates=(), version="8", annotations=notes)), {})


def refusal(code: int, words: str) -> KubeError:
    error = KubeError(Fault.DENIED, words, status=code)
    error.sent = True
    return error


def writer(server: Server) -> PodWriter:
    return PodWriter(BatchWriter(server, ScaledClock(), lambda: True))


PUTS: Final = [Put("n1", "h100", 0, 1), Put("n2", "h100", 0, 1)]
HOSTNAMES: Final = {"n1": "h1", "n2": "h2"}


@pytest.mark.looptime
async def test_each_pod_is_let_in_by_one_patch_that_holds_it_to_its_node_and_takes_our_gate_only() -> None:
    server, tolerations = Server(), [{"key": "theirs", "operator": "Exists"}]
    one = pod("g-0", group="g", size="2", gates=("other", GATE), tolerations=tolerations,
              annotations={"theirs": "kept"}, nodeSelector={"zone": "a"})  # fmt: skip
    both = work(one, pod("g-1", group="g", size="2", nodeSelector={"zone": "a"}))
    done = await writer(server).admit(both, PUTS, HOSTNAMES, ["nvidia.com/gpu"])
    assert (done.became, done.words, [each.metadata.name for each in done.pods]) == (Became.DONE, "", ["g-0", "g-1"])
    assert server.sent == [("g-0", True), ("g-1", True), ("g-0", False), ("g-1", False)], "tried out, then written"
    changes = server.changes["g-0"]
    assert [each for each in changes if each["op"] == "test"] == [
        {"op": "test", "path": "/metadata/uid", "value": "g-0"},
        {"op": "test", "path": "/metadata/resourceVersion", "value": "7"},
        {"op": "test", "path": "/spec/schedulingGates/1/name", "value": GATE},
    ]
    assert changes[-1] == {"op": "remove", "path": "/spec/schedulingGates/1"}
    by_path: dict[str, Any] = {each["path"]: each.get("value") for each in changes}
    assert by_path["/spec/nodeSelector/kubernetes.io~1hostname"] == "h1", "beside what its author selects"
    assert by_path["/spec/tolerations/-"] == {"key": "nvidia.com/gpu", "operator": "Exists"}
    notes = by_path["/metadata/annotations"]
    assert (notes["theirs"], notes[HOSTS]) == ("kept", "h1")
    assert [seat["pod"] for seat in msgspec.json.decode(notes["headroom.dev/placement"])] == ["g-0", "g-1"]


@pytest.mark.looptime
async def test_a_single_pod_is_one_write_and_gets_a_selector_where_it_has_none() -> None:
    server = Server()
    await writer(server).admit(work(pod("solo"), name="pod/ns/solo"), PUTS[:1], HOSTNAMES, [])
    assert server.sent == [("solo", False)]
    by_path = {each["path"]: each.get("value") for each in server.changes["solo"]}
    assert by_path["/spec/nodeSelector"] == {"kubernetes.io/hostname": "h1"}


@pytest.mark.looptime
async def test_a_webhook_that_refuses_one_pod_refuses_the_gang_before_any_pod_is_let_in() -> None:
    server = Server(refuses=["g-1"])
    done = await writer(server).admit(work(*group(2, 2)), PUTS, HOSTNAMES, [])
    assert (done.became, done.pods, "g-1 is refused by webhook w" in done.words) == (Became.REFUSED, (), True)
    assert all(is_try for _, is_try in server.sent)


@pytest.mark.looptime
async def test_a_webhook_that_cannot_be_asked_first_stops_nobody() -> None:
    server = Server(tries=False)
    done = await writer(server).admit(work(*group(2, 2)), PUTS, HOSTNAMES, [])
    assert (done.became, len(done.pods)) == (Became.DONE, 2)


@pytest.mark.looptime
@pytest.mark.parametrize(
    ("every", "server", "became", "asked"),
    [
        (False, Server(), Became.DONE, ["g-0"]),
        (True, Server(), Became.DONE, ["g-0", "g-1"]),
        (False, Server(refuses=["g-1"]), Became.DONE, ["g-0"]),
        (True, Server(refuses=["g-1"]), Became.REFUSED, ["g-0", "g-1"]),
        (True, Server(tries=False), Became.DONE, ["g-0", "g-1"]),
    ],
    ids=["one", "every one", "one, and the other is refused", "every one, one is refused", "no dry run"],
)
async def test_a_gang_is_tried_out_by_the_patch_that_would_let_it_in(
    every: bool, server: Server, became: Became, asked: list[str]
) -> None:
    done = await writer(server).try_out(work(*group(2, 2)), "h1", ["nvidia.com/gpu"], every=every)
    assert (done.became, done.pods, server.sent) == (became, (), [(name, True) for name in asked])
    for changes in server.changes.values():
        assert changes[-1] == {"op": "remove", "path": "/spec/schedulingGates/0"}
        assert {"op": "add", "path": "/spec/nodeSelector", "value": {"kubernetes.io/hostname": "h1"}} in changes


@pytest.mark.looptime
async def test_a_gang_that_is_written_in_part_says_of_how_many_and_the_seat_of_the_other_stays_its_own() -> None:
    server, pods = Server(refuses=["g-1"], later=True), group(2, 2)
    done = await writer(server).admit(work(*pods), PUTS, HOSTNAMES, [])
    assert done.became is Became.DONE
    assert re.match("1 of 2 pods were not let in: .*g-1 is refused by webhook w", done.words)
    books = read(*pods)
    assert books.answered(done.pods) == ("podgroup/ns/g",)
    half = books.work("podgroup/ns/g", 0.0)
    assert half is not None
    assert (half.suspended, half.ended) == (False, False)
    assert sorted(put.node for put in half.put) == ["n1", "n2"]
    [(member, seat)] = free_seats(half.members, half.seats)
    assert (member.name, seat.node) == ("g-1", "n2")


@pytest.mark.looptime
async def test_where_one_write_is_refused_and_another_not_answered_the_gang_may_be_in_part_of_it() -> None:
    server = Server(refuses=["g-0", "g-1"], later=True)
    server.silent = "g-1"
    done = await writer(server).admit(work(*group(2, 2)), PUTS, HOSTNAMES, [])
    assert (done.became, done.pods) == (Became.UNKNOWN, ()), "its places are kept until that is known"


@pytest.mark.looptime
async def test_pods_that_changed_since_it_was_decided_are_decided_about_anew() -> None:
    server = Server()
    done = await writer(server).admit(work(*group(3, 3)), PUTS, HOSTNAMES, [])
    assert (done.became, done.changed, server.sent) == (Became.REFUSED, True, [])


def test_one_made_anew_gets_the_place_of_the_one_that_is_gone_and_nobody_gets_one_that_is_held() -> None:
    seats = [
        {"pod": f"g-{at}", "node": f"n{at}", "host": f"h{at}", "shape": "h100", "form": work(*group(1, 1)).sets[0].at}
        for at in range(3)
    ]
    put = {"headroom.dev/placement": msgspec.json.encode(seats).decode()}
    inside = [pod(f"g-{at}", group="g", size="3", gates=(), annotations=put | {HOSTS: f"h{at}"}) for at in (0, 2)]
    anew = [pod(name, group="g", size="3") for name in ("g-x", "g-y")]
    found = work(*inside, *anew)
    assert [(member.name, seat.node) for member, seat in free_seats(found.members, found.seats)] == [("g-x", "n1")]
    other = [pod("g-x", group="g", size="3", gpus=4)]
    assert list(free_seats((half := work(*inside, *other)).members, half.seats)) == [], "it is of another form"


@pytest.mark.parametrize("text", ["{", '[{"x":' + "[" * 100_000], ids=["no list", "too deep"])
def test_a_placement_that_somebody_edited_beyond_reading_is_none(text: str) -> None:
    broken = pod("g-0", group="g", size="1", gates=(), annotations={"headroom.dev/placement": text})
    assert (work(broken).put, work(broken).suspended) == ((), False)


def test_a_gang_all_of_whose_pods_have_ended_well_is_finished() -> None:
    def ended(*phases: str) -> tuple[bool, bool]:
        put = {"headroom.dev/placement": "[]"}
        made = [
            pod(f"g-{at}", group="g", size="2", gates=(), annotations=put, phase=phase)
            for at, phase in enumerate(phases)
        ]
        one = work(*made)
        return one.ended, one.finished

    found = [ended(*phases) for phases in (("Succeeded", "Running"), ("Succeeded", "Failed"), ("Succeeded",) * 2)]
    assert found == [(False, False), (True, False), (True, True)]
