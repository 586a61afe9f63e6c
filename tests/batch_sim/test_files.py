"""Recorded batch work: what is read of it, and a file that cannot be used is refused with file, line and field."""

from pathlib import Path

import pytest

from autoscaler.errors import InputError
from autoscaler.sim.batch import files
from tests.batch_sim.cases import MINUTES, NODES, PHILLY, PODS, QUOTA
from tests.sim.trace_files import edited, write

FAULTS = [
    pytest.param(files.philly, "", "line 1: the file is empty", id="an empty file"),
    pytest.param(
        files.philly, edited(PHILLY, 1, "gang_size", "gangs"), "unknown column 'gangs'", id="a misspelt column"
    ),
    pytest.param(files.philly, QUOTA, "line 1: unknown column 'gpus_if_8_per_node'", id="quotas for jobs"),
    pytest.param(
        files.philly, edited(PHILLY, 2, ",60,", ",-60,"), "line 2, field duration_s: '-60' is neg", id="negative"
    ),
    pytest.param(
        files.philly, edited(PHILLY, 2, ",60,", ",nan,"), "line 2, field duration_s: 'nan'", id="not a number"
    ),
    pytest.param(files.philly, edited(PHILLY, 2, ",60,", ",1e999,"), "field duration_s: '1e999'", id="an overflow"),
    pytest.param(
        files.philly, edited(PHILLY, 3, "86400", "5"), "line 3, field submit_s: '5' goes back", id="time backwards"
    ),
    pytest.param(
        files.philly, edited(PHILLY, 3, ",2,8,", ",2.5,8,"), "line 3, field gang_size: '2.5'", id="half a pod"
    ),
    pytest.param(
        files.philly, edited(PHILLY, 3, ",16", ",17"), "line 3, field total_gpus: '17' is not 2 pods of 8", id="sum"
    ),
    pytest.param(
        files.philly, edited(PHILLY, 3, ",2,8,", ",2,99999999,"), "line 3, field gpus_per_pod", id="absurd GPUs"
    ),
    pytest.param(
        files.philly, edited(PHILLY, 5, "j3", "j0"), "line 5, field job_id: 'j0' stands on line 2", id="a name twice"
    ),
    pytest.param(files.philly, edited(PHILLY, 5, "j3", ""), "line 5, field job_id: '' is empty", id="no name"),
    pytest.param(files.philly, edited(PHILLY, 5, ",50,,1", ",50,"), "line 5: 8 fields", id="cut off"),
    pytest.param(files.quotas, QUOTA + "a,1,8\n", "line 4, field tenant: 'a' stands on line 2", id="a quota twice"),
    pytest.param(files.quotas, edited(QUOTA, 2, "8", "many"), "line 2, field gpus_if_8_per_node: 'many'", id="a word"),
    pytest.param(files.pods, edited(PODS, 3, "8.0", "1.5"), "line 3, field gpus_per_pod: '1.5'", id="a GPU and a half"),
    pytest.param(
        files.pods, edited(PODS, 2, ",1,0.25", ",2,0.25"), "gang_size 2 cannot be used", id="a gang of shares"
    ),
    pytest.param(
        files.hosts, edited(NODES, 2, "T4", ""), "line 2, field gpu_model: '' is empty", id="GPUs of no model"
    ),
    pytest.param(
        files.hosts, edited(NODES, 3, "h1", "h0"), "line 3, field node: 'h0' stands on line 2", id="a node twice"
    ),
    pytest.param(
        files.minutes, MINUTES + "1,y,8,8,0,0,0,1,0\n", "minute 1, tenant y: stands 2 times", id="a minute twice"
    ),
    pytest.param(files.minutes, MINUTES + "2,y,8,8,0,0,0,1,0\n", "minute 2, tenant x: stands 0 times", id="a hole"),
    pytest.param(files.minutes, MINUTES + "999999,y,8,8,0,0,0,1,0\n", "the minutes have holes", id="a minute far off"),
]


@pytest.mark.parametrize(("read", "text", "message"), FAULTS)
def test_a_file_that_cannot_be_used_is_refused_with_line_and_field(read, text, message, tmp_path):
    path = write(tmp_path, text)
    with pytest.raises(InputError, match=message) as caught:
        read(path)
    assert str(path) in str(caught.value)


def test_days_are_counted_from_the_files_begin_and_time_from_the_first_of_them(tmp_path):
    path = write(tmp_path, PHILLY, "philly.csv.gz")
    assert [(job.name, job.submit_s) for job in files.philly(path)] == [("j0", 10.0), ("j1", 86400.0), ("j3", 172900.0)]
    (job,) = files.philly(path, first_day=1, days=1)
    assert (job.name, job.submit_s, job.pods, job.gpus, job.tenant) == ("j1", 0.0, 2, 8, "b")
    with pytest.raises(InputError, match="no job in 1 days from day 7 on; it has days 0 to 2"):
        files.philly(path, first_day=7, days=1)


def test_the_other_files_are_read_by_their_columns(tmp_path):
    assert files.quotas(write(tmp_path, QUOTA)) == {"a": 8, "b": 16}
    share, whole = files.pods(write(tmp_path, PODS))
    assert (share.gpus, share.models, share.memory_gib) == (0.25, frozenset({"T4", "G2"}), 2.0)
    assert (whole.gpus, whole.models, whole.cpu) == (8.0, frozenset(), 64.0)
    (host,) = files.hosts(write(tmp_path, NODES))
    assert (host.name, host.model, host.gpus) == ("h0", "T4", 2)
    seen = files.minutes(write(tmp_path, MINUTES))
    assert seen.tenants == ("x", "y")
    assert seen.pending.tolist() == [[0.0, 8.0], [0.0, 0.0]]


@pytest.mark.needs("shared-data")
def test_the_recorded_files_are_read_whole(shared_data: Path):
    folder = shared_data / "batch"
    jobs = files.philly(folder / "philly_dev_jobs.csv.gz")
    assert len(jobs) == 54_784
    assert max(job.total_gpus for job in jobs) == 32
    assert sum(files.quotas(folder / "philly_quota.csv").values()) == 2816
    assert len(files.pods(folder / "openb_dev_pods.csv.gz")) == 3959
    assert sum(host.gpus for host in files.hosts(folder / "openb_nodes.csv.gz")) == 6212


@pytest.mark.slow
@pytest.mark.needs("shared-data")
def test_the_minutes_of_all_virtual_clusters_are_read(shared_data: Path):
    folder = shared_data / "batch"
    assert files.minutes(folder / "helios_earth_vc_minutes_dev.csv.gz").running.shape == (21_600, 16)
