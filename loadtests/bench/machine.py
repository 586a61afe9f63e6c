"""What a figure was measured on and with: processor, cores, load, versions, command."""

import os
import platform
import resource
import shlex
import sys
from pathlib import Path

import numpy as np


def machine() -> dict[str, object]:
    """Processor model, cores this process may use, load averages of 1, 5 and 15 minutes, versions."""
    return {
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
        "python": platform.python_version(),
        "numpy": np.__version__,
        "system": f"{platform.system()} {platform.release()}",
    }


def cpu_model() -> str:
    """The processor's name, as the kernel gives it."""
    listed = Path("/proc/cpuinfo")
    if listed.exists():
        for line in listed.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def command(name: str, arguments: list[str]) -> str:
    """The command line that repeats this run."""
    return shlex.join(["python3", "dev.py", "bench", name, *arguments])


def peak_rss_mib() -> float:
    """The largest resident memory this process ever had, in MiB."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return round(most / (2**20 if sys.platform == "darwin" else 2**10), 1)


def rss_mib() -> float:
    """The resident memory of this process now, in MiB; where the system does not tell, the most it ever had."""
    listed = Path("/proc/self/statm")
    if not listed.exists():
        return peak_rss_mib()
    return int(listed.read_text().split()[1]) * resource.getpagesize() / 2**20
