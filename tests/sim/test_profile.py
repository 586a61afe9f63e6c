"""Latency profiles: what the built-in one says, what is read from a file, what is dropped, and what is refused."""

from pathlib import Path

import pytest

from autoscaler.errors import InputError
from autoscaler.sim.serving.profile import DEFAULT_PROFILE, Profile, kv_tokens_from_memory, read_profile

HEADER = "model,gpu_model,tp,prompt_tokens,batch,output_tokens,runs,prefill_ms,tpot_ms\n"
SPLITWISE = Path("profiles") / "splitwise_llm_latency.csv"


def written(tmp_path: Path, *rows: str, header: str = HEADER) -> Path:
    path = tmp_path / "profile.csv"
    path.write_text(header + "".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path


def small(**changes: object) -> Profile:
    fields: dict[str, object] = {
        "name": "small",
        "source": "made up",
        "prefill_points": ((100, 0.1), (200, 0.3)),
        "tpot_points": ((1, 0.02), (3, 0.04)),
        "max_num_seqs": 8,
        "kv_tokens": 1000,
    }
    return Profile(**(fields | changes))  # type: ignore[arg-type]  # a table of fields


@pytest.mark.parametrize(
    ("tokens", "seconds"),
    [
        pytest.param(1, 0.1, id="a prompt shorter than any measured takes the shortest one's time"),
        pytest.param(100, 0.1, id="a measured point is kept"),
        pytest.param(150, 0.2, id="halfway is the mean"),
        pytest.param(300, 0.5, id="beyond the last point the last slope goes on"),
    ],
)
def test_prefill_time(tokens: int, seconds: float) -> None:
    assert small().prefill_s(tokens) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("batch", "seconds"),
    [
        pytest.param(0, 0.0, id="an empty batch takes no time"),
        pytest.param(1, 0.02, id="a lone request"),
        pytest.param(2, 0.03, id="between two batches"),
        pytest.param(5, 0.06, id="beyond the largest batch the last slope goes on"),
    ],
)
def test_decode_step_time(batch: int, seconds: float) -> None:
    assert small().tpot_s(batch) == pytest.approx(seconds)


def test_one_measured_point_holds_for_all_sizes() -> None:
    assert small(tpot_points=((4, 0.05),)).tpot_s(64) == 0.05


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        pytest.param({"prefill_points": ()}, "prefill_points is empty", id="no point"),
        pytest.param({"tpot_points": ((1, 0.04), (2, 0.03))}, r"falls from \(1, 0.04\)", id="a bigger batch is faster"),
        pytest.param({"tpot_points": ((2, 0.04), (2, 0.05))}, "must ascend", id="one batch twice"),
        pytest.param({"tpot_points": ((1, float("nan")),)}, "positive and finite", id="a time that is not a number"),
        pytest.param({"prefill_points": ((0, 0.1),)}, "positive and finite", id="a prompt of no tokens"),
        pytest.param({"max_num_seqs": 0}, "max_num_seqs is 0", id="no slot"),
        pytest.param({"kv_tokens": 0}, "kv_tokens is 0", id="no memory"),
        pytest.param({"chunk_tokens": 0}, "chunk_tokens is 0", id="chunks of nothing"),
        pytest.param(
            {"prompts_share": True, "chunk_tokens": None}, "chunk_tokens is None; where prompts share", id="none share"
        ),
        pytest.param(
            {"prompts_share": True, "max_num_seqs": 9, "chunk_tokens": 8}, "at least max_num_seqs, 9", id="all decode"
        ),
    ],
)
def test_a_profile_without_meaning_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        small(**changes)


@pytest.mark.needs("shared-data")
def test_the_built_in_profile_is_what_its_source_says(shared_data: Path) -> None:
    read = read_profile(shared_data / SPLITWISE)
    assert read.name == DEFAULT_PROFILE.name
    for field in ("prefill_points", "tpot_points"):
        for (x, seconds), (built_in_x, built_in_s) in zip(
            getattr(read, field), getattr(DEFAULT_PROFILE, field), strict=True
        ):
            assert (x, seconds) == (built_in_x, pytest.approx(built_in_s, abs=5e-7))
    assert (read.max_num_seqs, read.kv_tokens) == (DEFAULT_PROFILE.max_num_seqs, DEFAULT_PROFILE.kv_tokens)


@pytest.mark.needs("shared-data")
@pytest.mark.parametrize(
    ("gpu_model", "tp", "largest_batch"),
    [
        pytest.param("a100-80gb", 2, 32, id="two A100: batch 64 is faulty at the source and dropped"),
        pytest.param("h100-80gb", 2, 32, id="two H100: batch 64 is faulty at the source and dropped"),
        pytest.param("a100-80gb", 8, 64, id="eight A100: all batches stand"),
        pytest.param("h100-80gb", 8, 64, id="eight H100: all batches stand"),
    ],
)
def test_only_the_faulty_rows_of_the_source_are_dropped(
    shared_data: Path, gpu_model: str, tp: int, largest_batch: int
) -> None:
    profile = read_profile(shared_data / SPLITWISE, gpu_model=gpu_model, tp=tp)
    assert [batch for batch, _ in profile.tpot_points] == [b for b in (1, 2, 4, 8, 16, 32, 64) if b <= largest_batch]
    assert [prompt for prompt, _ in profile.prefill_points] == [128, 256, 512, 1024, 2048, 4096, 8192]
    assert profile.max_num_seqs == largest_batch


def test_a_point_that_noise_made_faster_than_a_smaller_one_is_raised_to_it(tmp_path: Path) -> None:
    rows = ("m,g,1,128,1,16,1,58,20", "m,g,1,256,1,16,1,51,20", "m,g,1,256,2,16,1,90,19.5", "m,g,1,256,4,16,1,180,25")
    profile = read_profile(written(tmp_path, *rows), kv_tokens=1000, max_num_seqs=16)
    assert profile.prefill_points == ((128, 0.058), (256, 0.058))
    assert profile.tpot_points == ((1, 0.02), (2, 0.02), (4, 0.025))
    assert profile.max_num_seqs == 16


@pytest.mark.parametrize(
    ("row", "batches"),
    [
        pytest.param("m,g,1,128,8,16,1,90,24", [1, 4], id="faster than a smaller batch in both phases: faulty"),
        pytest.param("m,g,1,128,8,16,1,90,26", [1, 4, 8], id="faster in prefill alone: stands"),
        pytest.param("m,g,1,128,8,16,1,300,24", [1, 4, 8], id="faster in decode alone: noise, stands"),
    ],
)
def test_a_row_is_faulty_when_it_beats_a_smaller_batch_in_both_phases(
    tmp_path: Path, row: str, batches: list[int]
) -> None:
    path = written(tmp_path, "m,g,1,128,1,16,1,50,20", "m,g,1,128,4,16,1,180,25", row)
    assert [batch for batch, _ in read_profile(path, kv_tokens=1000).tpot_points] == batches


def test_repeats_of_one_point_count_by_their_median(tmp_path: Path) -> None:
    rows = [f"m,g,1,128,1,{output},1,{prefill},20" for output, prefill in ((16, 50), (32, 51), (64, 90))]
    assert read_profile(written(tmp_path, *rows), kv_tokens=1000).prefill_points == ((128, 0.051),)


def test_columns_are_found_by_name_in_any_order(tmp_path: Path) -> None:
    header = "tpot_ms,note,prefill_ms,output_tokens,batch,prompt_tokens,tp,gpu_model,model\n"
    profile = read_profile(written(tmp_path, "20,hi,50,16,1,128,2,g,m", header=header), kv_tokens=1000)
    assert (profile.name, profile.prefill_points, profile.tpot_points) == ("m/g/tp2", ((128, 0.05),), ((1, 0.02),))


GOOD = "m,g,1,128,1,16,1,50,20"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        pytest.param((), "no row", id="a header and nothing else"),
        pytest.param((GOOD, "m,g,1,256,1,16,1,fast,20"), "line 3: prefill_ms is 'fast'", id="a word for a time"),
        pytest.param(("m,g,1,128,1,16,1,nan,20",), "line 2: prefill_ms is 'nan'", id="not a number"),
        pytest.param(("m,g,1,128,1,16,1,50,inf",), "line 2: tpot_ms is 'inf'", id="infinite time"),
        pytest.param(("m,g,1,128,1,16,1,-5,20",), "line 2: prefill_ms is '-5'", id="negative time"),
        pytest.param(("m,g,1,128.5,1,16,1,50,20",), "line 2: prompt_tokens is '128.5'", id="half a token"),
        pytest.param(("m,g,1,128",), "line 2: batch is None", id="a row cut short"),
        pytest.param((GOOD, "m,g,2,128,1,16,1,50,20"), "several profiles", id="two engines and no choice"),
        pytest.param(("m,g,1,128,2,16,1,50,20",), "no row with batch 1", id="no lone prompt"),
        pytest.param((GOOD,), "KV capacity of m on g is not known", id="a model whose memory is not known"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_line_and_field(
    tmp_path: Path, rows: tuple[str, ...], message: str
) -> None:
    with pytest.raises(InputError, match=message) as refused:
        read_profile(written(tmp_path, *rows))
    assert "profile.csv" in str(refused.value)


def test_missing_columns_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="line 1: no column tp, batch, output_tokens"):
        read_profile(written(tmp_path, header="model,gpu_model,prompt_tokens,prefill_ms,tpot_ms\n"))


def test_an_empty_file_a_binary_one_and_an_absent_one_are_refused(tmp_path: Path) -> None:
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"PAR1\xff\xfe\x00")
    for path, message in (
        (written(tmp_path, header=""), "no column model"),
        (binary, "not a text CSV"),
        (tmp_path / "absent.csv", "cannot be read"),
    ):
        with pytest.raises(InputError, match=message):
            read_profile(path)


def test_kv_memory_is_what_the_weights_leave() -> None:
    # 0.9 of 2 x 80 GB less 138 GB leaves 6 GB; at 0.3 MB a token that is 20,000.
    assert kv_tokens_from_memory(gpus=2, gpu_bytes=80e9, weight_bytes=138e9, kv_bytes_per_token=0.3e6) == 20_000


def test_weights_that_fill_the_memory_are_refused() -> None:
    with pytest.raises(InputError, match="1 GPUs of 80 GB leave no memory"):
        kv_tokens_from_memory(gpus=1, gpu_bytes=80e9, weight_bytes=138e9, kv_bytes_per_token=0.3e6)
