"""Profiles of engine servers: the file's form, and what is said of a faulty one."""

from pathlib import Path

import pytest

from autoscaler.errors import InputError
from loadtests.engines.profile import BUILT_IN, read_speed

HEADER = "model,gpu_model,tp,prompt_tokens,batch,output_tokens,prefill_ms,tpot_ms\n"


def written(folder: Path, text: str) -> Path:
    path = folder / "p.csv"
    path.write_text(text)
    return path


def test_the_built_in_profile_is_llama_on_four_h100_with_64_slots() -> None:
    read = read_speed(BUILT_IN)
    assert (read.name, read.slots, read.kv_tokens) == ("llama2-70b/h100-80gb/4", 64, 457_000)
    assert read.decode.at(64) == pytest.approx(0.052356)


def test_one_engine_of_several_is_chosen_by_name(tmp_path: Path) -> None:
    path = written(tmp_path, f"{HEADER}a,g,1,8,1,1,5,10\nb,g,1,8,1,1,7,20\n")
    assert read_speed(path, only="b/g/1", kv_tokens=99).prefill.at(8) == pytest.approx(0.007)
    with pytest.raises(InputError, match="it has a/g/1; b/g/1"):
        read_speed(path, kv_tokens=99)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("model,gpu_model\nx,y\n", "line 1: no column 'tp'"),
        (HEADER, "line 2: no row follows"),
        (f"{HEADER}a,g,1,8,1,1,5,fast\n", "line 2, field tpot_ms: 'fast' is no positive number"),
        (f"{HEADER}a,g,1,8,1,1,-5,1\n", "line 2, field prefill_ms: '-5'"),
        (f"{HEADER}a,g,1,8,1,1,5\n", "line 2, field tpot_ms: None"),
        (f"{HEADER}a,g,1,8,2,1,5,1\n", "no row with batch 1"),
        (f"{HEADER}a,g,1,0.5,1,1,5,1\n", "line 2, field prompt_tokens: '0.5' is no whole number"),
        (f"{HEADER}a,g,1,8,1,1,5,1\na,g,1,8,1.5,1,5,1\n", "line 3, field batch: '1.5' is no whole number"),
    ],
    ids=["another file", "no rows", "a word", "negative", "a row cut off", "no lone prompt", "half a token",
         "half a request"],
)  # fmt: skip
def test_a_faulty_profile_is_told_of_by_line_and_field(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_speed(written(tmp_path, text), kv_tokens=99)


def test_a_profile_of_ones_own_needs_the_cache_to_be_given(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--kv-tokens"):
        read_speed(written(tmp_path, f"{HEADER}a,g,1,8,1,1,5,10\n"))
    with pytest.raises(InputError, match="cannot be read"):
        read_speed(tmp_path / "none.csv", kv_tokens=1)


@pytest.mark.parametrize("kv_tokens", [1, 15])
def test_a_cache_without_a_single_block_of_16_tokens_is_refused(kv_tokens: int) -> None:
    with pytest.raises(InputError, match=f"--kv-tokens is {kv_tokens}; the KV cache is held in blocks of 16"):
        read_speed(BUILT_IN, kv_tokens=kv_tokens)
    assert read_speed(BUILT_IN, kv_tokens=16).kv_tokens == 16
