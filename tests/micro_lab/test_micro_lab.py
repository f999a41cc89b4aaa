"""The micro-lab's runs on two ranks: they log to files, learn, and refuse what they cannot do."""

import pytest
import torch

from dtlib.micro_lab.engines import native_bucket_bytes
from dtlib.micro_lab.runs import bare_all_reduces, build, load, rows_of, run_engine, sweep
from dtlib.micro_lab.step_log import of_step, read_log
from dtlib.runtime import RanksError, launch


@pytest.fixture(scope="module")
def pair():
    with launch(2, timeout=60) as ranks:
        yield ranks


def test_a_run_writes_one_file_for_each_rank(pair, tmp_path):
    runs = pair.run(run_engine, "zero3", steps=2, folder=tmp_path)
    for rank, run in enumerate(runs):
        assert read_log(tmp_path / f"zero3.rank{rank}.jsonl") == run.records
    assert torch.equal(*(run.weights["classifier.weight"] for run in runs))


def test_more_steps_lower_the_loss_of_both_ranks_together(pair):
    runs = pair.run(run_engine, "ddp", steps=60, evaluate=True)
    losses = [[r["loss"] for r in run.records if r["op"] == "step"] for run in runs]
    means = [sum(pair) / 2 for pair in zip(*losses, strict=True)]
    assert sum(means[-10:]) < sum(means[:10])
    assert runs[0].accuracy == runs[1].accuracy > 0.4


def test_a_sweep_rebuilds_the_buckets_that_torchs_function_predicts(pair):
    logs = pair.run(sweep, [None, 0.25, 1], steps=2)
    for rank in range(2):
        for cap, records in logs[rank].items():
            found = [line["bytes"] for line in of_step(records, 1, rank)]
            assert found == native_bucket_bytes(build("mini").parameters(), cap)
            assert len(of_step(records, 0, rank)) == 1


def test_bare_all_reduces_give_the_same_samples_to_every_rank(pair):
    one, other = pair.run(bare_all_reduces, [4, 4096], repetitions=2)
    assert one == other and [n for n, _ in one] == [4, 4096]


def test_the_rows_of_a_step_are_the_same_everywhere():
    assert torch.equal(rows_of(3, 8, 100), rows_of(3, 8, 100))
    assert not torch.equal(rows_of(3, 8, 100), rows_of(4, 8, 100))


def test_bad_arguments_are_named(pair):
    with pytest.raises(RanksError, match="batch = 7; 2 ranks cannot share it evenly"):
        pair.run(run_engine, "ddp", batch=7)
    with pytest.raises(ValueError, match="size = 'huge'; allowed are mini, base, pretrained"):
        build("huge")
    with pytest.raises(ValueError, match="data = 'imdb'; allowed are toy, sst2"):
        load("imdb", "train")
