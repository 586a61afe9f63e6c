"""`headroom doctor --leftovers`: what is left of an installation, with the command that removes it."""

from tests.cli.doctor import examined, installed, job, rows
from tests.cli.plane import FREEZE, LEASE, OWN, Plane


def test_pods_behind_the_gate_are_left_with_the_command_that_takes_it_away(cluster: Plane) -> None:
    pods = [
        {"metadata": {"name": name, "namespace": "lab"}, "spec": {"schedulingGates": [{"name": gate}]}}
        for name, gate in (("b", "headroom.dev/admission"), ("a", "headroom.dev/admission"), ("other", "theirs"))
    ]
    cluster.objects |= {"/api/v1/pods": {"items": pods}}
    told = [(row["words"], row["remedy"]) for row in examined(cluster, "--leftovers")[1]]
    change = '{"spec":{"schedulingGates":[{"$patch":"delete","name":"headroom.dev/admission"}]}}'
    assert (
        "2 pods in lab behind the gate headroom.dev/admission: without Headroom nobody lets them in",
        f"kubectl -n lab patch pod a b -p '{change}'",
    ) in told


def test_what_is_left_of_an_installation_is_listed_with_the_command_that_removes_it(cluster: Plane) -> None:
    ours = {"metadata": {"name": "headroom-checkpoint-0-a"}}
    cluster.objects |= installed(lambda spec: None) | {
        "/apis/headroom.dev/v1alpha1/scalingpolicies": {"items": [{"metadata": {"name": "chat"}}]},
        "/apis/karpenter.sh/v1/nodepools": {"items": [{"metadata": {"name": "chat-h100"}}]},
        "/api/v1/namespaces/headroom-slots/pods": {"items": [ours, ours]},
        f"/api/v1/namespaces/{OWN}/configmaps": {"items": [ours]},
        "/apis/batch/v1/jobs": {"items": [job("one", True), job("two", True), job("runs", False)]},
        FREEZE: {"data": {}},
    }
    code, found = examined(cluster, "--leftovers")
    label = "app.kubernetes.io/managed-by=headroom"
    assert code == 0
    assert [(row["words"], row["remedy"]) for row in found] == [
        ("2 jobs in lab that wait in BatchQueues: suspended, and without Headroom nobody starts them",
         "kubectl -n lab patch jobs one two --type=merge -p '{\"spec\":{\"suspend\":false}}'"),
        ("the definition scalingpolicies.headroom.dev and 1 of its objects",
         "kubectl delete crd scalingpolicies.headroom.dev"),
        ("NodePools of warm pools, with their nodes: chat-h100", "kubectl delete nodepool chat-h100"),
        ("2 slots in headroom-slots", f"kubectl -n headroom-slots delete pods -l {label}"),
        (f"1 checkpoints in {OWN}", f"kubectl -n {OWN} delete configmap -l {label}"),
        (f"the configmap {OWN}/headroom-freeze", f"kubectl -n {OWN} delete configmap headroom-freeze"),
        (f"the lease {OWN}/headroom", f"kubectl -n {OWN} delete lease headroom"),
    ]  # fmt: skip
    assert cluster.written == []


def test_work_that_somebody_else_would_start_is_not_listed_for_us_to_start(cluster: Plane) -> None:
    taken = {"kind": "Job", "name": "taken", "uid": "taken", "controller": True}
    cluster.objects |= {
        "/apis/batch/v1/jobs": {"items": [
            job("kueue", True, mark="kueue.x-k8s.io/queue-name"),
            job("dispatched", True, managedBy="kueue.x-k8s.io/multikueue"),
            job("volcano", True, template={"spec": {"schedulerName": "volcano"}}),
            job("part", True, owner="JobSet"),
            job("taken", True),
            job("unreadable", True, parallelism="many"),
            job("over", True) | {"status": {"conditions": [{"type": "Failed", "status": "True"}]}},
        ]},
        "/apis/jobset.x-k8s.io/v1alpha2/jobsets": {"items": [
            job("trainer", True, owner="TrainJob"), job("ours", True),
        ]},
        "/apis/kubeflow.org/v1/pytorchjobs": {"items": [
            job("theirs", True, mark="kueue.x-k8s.io/queue-name"), job("torch", True, runPolicy={"suspend": True}),
        ]},
        "/apis/kueue.x-k8s.io/v1beta1/workloads": {"items": [
            {"metadata": {"namespace": "lab", "name": "job-taken-1f", "ownerReferences": [taken]}},
        ]},
    }  # fmt: skip
    _, found = examined(cluster, "--leftovers")
    assert [row["remedy"] for row in found if "patch" in row["remedy"]] == [
        'kubectl -n lab patch jobsets ours --type=merge -p \'{"spec":{"suspend":false}}\'',
        'kubectl -n lab patch pytorchjobs torch --type=merge -p \'{"spec":{"runPolicy":{"suspend":false}}}\'',
    ]


def test_where_nothing_is_left_that_is_told(cluster: Plane) -> None:
    del cluster.objects[LEASE]
    code, found = examined(cluster, "--leftovers")
    assert (code, rows(found, "ok")) == (0, [("left", "nothing of Headroom is in the cluster")])
