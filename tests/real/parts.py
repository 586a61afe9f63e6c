"""Builds the real components that suites start on loopback: a wrapper module per part pins version and sums.

usage: python3 dev.py parts [NAME...]

Binaries land in $XDG_CACHE_HOME/headroom-tests/<part>-<hash>, where the hash covers the module files, sources of ours,
the toolchain and the flags below, so an unchanged part is never built twice. `KUBEBUILDER_ASSETS`, when set, is
searched first.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.real import environments

HERE = Path(__file__).resolve().parent
KUBERNETES = "v1.36.3"
KUBERNETES_MODULE = "k8s.io/kubernetes"
KEDA = "2.21.0"
KEDA_MODULE = "github.com/kedacore/keda/v2"
LLM_D = "llm-d-inference-sim"
LWS_MODULE = "sigs.k8s.io/lws"
JOBSET_MODULE = "sigs.k8s.io/jobset"
KUEUE_MODULE = "sigs.k8s.io/kueue"
TRAINER_MODULE = "github.com/kubeflow/trainer/v2"
TRAINING_MODULE = "github.com/kubeflow/training-operator"
KARPENTER = "1.14.0"
KARPENTER_MODULE = "sigs.k8s.io/karpenter"
VERSION = "k8s.io/component-base/version"


@dataclass(frozen=True, slots=True)
class Part:
    """Programs built from one wrapper module: name of the binary -> Go package."""

    module: str
    programs: dict[str, str]
    variables: tuple[tuple[str, str], ...] = ()
    """Set at link time; an unstamped Kubernetes calls itself v0.0.0-master."""
    sources: tuple[str, ...] = field(default=(), repr=False)
    """Go files of ours in the module."""


PARTS = {
    "etcd": Part("etcd", {"etcd": "go.etcd.io/etcd/server/v3"}),
    "kubernetes": Part(
        "kubernetes",
        {
            name: f"k8s.io/kubernetes/cmd/{name}"
            for name in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
        },
        ((f"{VERSION}.gitVersion", KUBERNETES), (f"{VERSION}.gitMajor", "1"), (f"{VERSION}.gitMinor", "36")),
    ),
    "kwok": Part("kwok", {"kwok": "sigs.k8s.io/kwok/cmd/kwok"}),
    "keda": Part(
        "keda",
        {f"keda-{name}": f"{KEDA_MODULE}/cmd/{name}" for name in ("operator", "adapter")},
        ((f"{KEDA_MODULE}/version.Version", KEDA),),
    ),
    "karpenter": Part(
        "karpenter",
        {"karpenter": "headroom.dev/tests/real/karpenter"},
        ((f"{KARPENTER_MODULE}/pkg/operator.Version", KARPENTER),),
        ("main.go",),
    ),
    "llm-d": Part("llm-d", {LLM_D: f"github.com/llm-d/{LLM_D}/cmd/{LLM_D}"}),
    "lws": Part("lws", {"lws-controller": f"{LWS_MODULE}/cmd"}),
    "jobset": Part("jobset", {"jobset-controller": JOBSET_MODULE}),
    "kueue": Part("kueue", {"kueue-manager": f"{KUEUE_MODULE}/cmd/kueue"}),
    "trainer": Part("trainer", {"trainer-controller": "headroom.dev/tests/real/trainer"}, sources=("main.go",)),
    "training": Part("training", {"training-operator": "headroom.dev/tests/real/training"}, sources=("main.go",)),
}
CONTROL_PLANE = ("etcd", "kubernetes", "kwok")


def folder(name: str) -> Path:
    """Where the binaries of a part are, or will be once they are built."""
    part = PARTS[name]
    digest = hashlib.sha256(repr((_toolchain(), part)).encode())
    for file in ("go.mod", "go.sum", *part.sources):
        digest.update((HERE / part.module / file).read_bytes())
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return root / "headroom-tests" / f"{name}-{digest.hexdigest()[:16]}"


def program(name: str) -> Path | None:
    """The path of a built program, None while it is not built."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    if assets and (Path(assets) / name).is_file():
        return Path(assets) / name
    for part_name, part in PARTS.items():
        if name in part.programs:
            found = folder(part_name) / name
            return found if found.is_file() else None
    raise KeyError(name)


def missing(names: Sequence[str]) -> str | None:
    """What is not built of the parts, in one line with the remedy; None when all are here."""
    if shutil.which("go") is None and not os.environ.get("KUBEBUILDER_ASSETS"):
        return "no Go toolchain on PATH (https://go.dev/dl) to build " + ", ".join(names)
    lacking = [n for n in names if any(program(p) is None for p in PARTS[n].programs)]
    return f"not built: {', '.join(lacking)} (python3 dev.py parts {' '.join(lacking)})" if lacking else None


def source(name: str, module: str) -> Path | None:
    """Where the sources of a Go module of a part are, None while they are not downloaded; `build` downloads them."""
    if shutil.which("go") is None:
        return None
    env = os.environ | {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly", "GOPROXY": "off"}
    command = ["go", "list", "-m", "-f", "{{.Dir}}", module]
    done = subprocess.run(command, cwd=HERE / PARTS[name].module, env=env, capture_output=True, text=True, check=False)
    return Path(done.stdout.strip()) if done.returncode == 0 and done.stdout.strip() else None


@contextmanager
def _alone(target: Path) -> Iterator[None]:
    """Wait for whoever builds the same part: two builds at once take twice as long and give the same."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with (target.parent / f".{target.name}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"{target.name}: another process builds it, waiting for that one", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build(name: str) -> None:
    """Build a part into its folder, all programs or none. Raises CalledProcessError when the compiler fails."""
    target = folder(name)
    with _alone(target):
        if all((target / p).is_file() for p in PARTS[name].programs):
            print(f"{name}: already built in {target}")
            return
        _compile(name, target)


def _compile(name: str, target: Path) -> None:
    part = PARTS[name]
    begin = time.monotonic()
    print(f"{name}: building {', '.join(part.programs)}", flush=True)
    flags = " ".join(["-s -w", *(f"-X {variable}={value}" for variable, value in part.variables)])
    env = os.environ | {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly -buildvcs=false", "CGO_ENABLED": "0"}
    with tempfile.TemporaryDirectory(dir=target.parent) as fresh:
        for binary, package in part.programs.items():
            command = ["go", "build", "-trimpath", "-ldflags", flags, "-o", str(Path(fresh) / binary), package]
            subprocess.run(command, cwd=HERE / part.module, env=env, check=True)
        target.mkdir(exist_ok=True)
        for binary in part.programs:
            (Path(fresh) / binary).rename(target / binary)
    print(f"{name}: built in {(time.monotonic() - begin) / 60:.1f} min", flush=True)


def main(arguments: Sequence[str]) -> int:
    """Build the named parts, or all of them; 2 for an unknown name or without Go, 1 when a build fails."""
    known = (*PARTS, *environments.ENVIRONMENTS)
    unknown = [a for a in arguments if a not in known]
    if unknown:
        print(f"parts: unknown part {unknown[0]!r}; known are {', '.join(known)}", file=sys.stderr)
        return 2
    wanted = arguments or known
    if shutil.which("go") is None and any(name in PARTS for name in wanted):
        print("parts: no Go toolchain on PATH; install one (https://go.dev/dl) and run this again", file=sys.stderr)
        return 2
    failed = []
    for name in wanted:
        try:
            (build if name in PARTS else environments.build)(name)
        except subprocess.CalledProcessError as error:
            who = "the Go compiler" if name in PARTS else "pip"
            print(f"parts: {name}: {who} ended with {error.returncode}", file=sys.stderr)
            failed.append(name)
    return 1 if failed else 0


def _toolchain() -> str:
    go = shutil.which("go")
    return "" if go is None else subprocess.run([go, "version"], capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
