"""How `headroom simulate` runs policies: the instance, its optimum, an entry for each policy, and the page on them.

Enters: what the command's options mean. Leaves: entries and a page. It reads no option and writes no file.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass

from autoscaler.cli.progress import Meter
from autoscaler.cli.results import knob_note, page_notes
from autoscaler.cli.simulation_report import ReportRun, report_html
from autoscaler.sim.bounds import reference
from autoscaler.sim.contest import Bounds, make_policy
from autoscaler.sim.entry import Entry, enter, enter_swept
from autoscaler.sim.instance import Cluster, Instance, make_instance
from autoscaler.sim.requestlevel import measured_instance
from autoscaler.sim.rivals import RIVALS
from autoscaler.sim.score import Reference
from autoscaler.sim.serving.profile import Profile
from autoscaler.sim.traffic import Traffic


def instance_of(traffic: Traffic, cluster: Cluster, engine: Profile | None, seed: int, meter: Meter) -> Instance:
    """The traffic before the cluster; with an engine, the capacity of a replica is measured."""
    if engine is None:
        meter.begin("instance")
        return make_instance(traffic, cluster, seed=seed)
    meter.begin("capacity of a replica")
    return measured_instance(traffic, cluster, engine, seed=seed)


@dataclass(frozen=True, slots=True)
class Play:
    """How the policies of one command are run."""

    instance: Instance
    bounds: Bounds
    engine: Profile | None
    sweepers: int
    """Processes that sweep rivals; 0 runs each at its default."""
    keep_decisions: bool

    def run(self, names: Sequence[str], meter: Meter) -> tuple[Reference, list[Entry]]:
        """The instance's optimum and every policy's entry, in order."""
        instance = self.instance
        for name in names:  # what cannot be made is refused before anything runs
            make_policy(name, instance, self.bounds)
        needed, most = instance.traffic.peak_minute_rps / instance.spec.capacity_rps, instance.spec.max_replicas
        if needed > most:
            note = f"note: the busiest minute alone needs {needed:.0f} replicas, --max-replicas is {most}"
            print(note, file=sys.stderr)
        meter.begin("optimum")
        optimum = reference(instance.traffic, instance.spec)
        entries = []
        for name in names:
            meter.begin(name)
            entries.append(self._entry(name, optimum, meter))
        return optimum, entries

    def _entry(self, name: str, optimum: Reference, meter: Meter) -> Entry:
        if self.sweepers and name in RIVALS:
            return enter_swept(name, self.instance, optimum, processes=self.sweepers, progress=meter.move)
        return enter(
            name, self.instance, optimum, self.bounds,
            profile=self.engine, progress=meter.move, keep_decisions=self.keep_decisions,
        )  # fmt: skip


def page(entries: Sequence[Entry], bounds: Reference, command: str, model: str) -> str:
    """The report on all entries; `model` says how replicas served."""
    runs = [
        ReportRun(
            entry.name, entry.run, entry.score, knob_note(entry),
            ours=entry.name not in RIVALS, decisions=entry.decisions, forecasts=entry.forecasts,
        )
        for entry in entries
    ]  # fmt: skip
    return report_html(entries[0].run.traffic.name, runs, reference=bounds, command=command, notes=page_notes(model))
