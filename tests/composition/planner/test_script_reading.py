"""What is read from a script without a GPU is what real ranks send, and what the book derives."""

from functools import cache
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from script_on_gloo import second_step
from torch.distributed._tools.mem_tracker import MemTracker

from dtlib.composition import read_script
from dtlib.composition.planner.script.reading import ScriptReading
from dtlib.foundations import TransformerSpec
from dtlib.layout import Layout
from dtlib.memory.account.gpt import gpt_kept_tensors
from dtlib.memory.zero.cost import sharded_sent_bytes, zero_sent_bytes
from dtlib.models import GPT
from dtlib.parallelism.tensor.cost import tensor_parallel_layer_bytes
from dtlib.runtime import launch

SCRIPTS = Path(__file__).parent / "scripts"
SPEC = TransformerSpec("tiny", 2, 64, 4, 256, positions=32, dropout=False)
BATCH, SEQ = 16, 32
ONE_RANK = f"""
import torch
import torch.nn.functional as F
from dtlib.foundations import TransformerSpec
from dtlib.models import GPT

model = GPT(TransformerSpec("tiny", 2, 64, 4, 256, positions=32, dropout=False)).cuda()
optimizer = torch.optim.AdamW(model.parameters())
while True:
    tokens = torch.randint(256, ({BATCH}, {SEQ} + 1), device="cuda")
    loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.fixture(scope="module")
def four():
    with launch(4, timeout=120) as ranks:
        yield ranks


@cache
def read(name: str, ranks: int, *argv: str) -> ScriptReading:
    return read_script(SCRIPTS / f"{name}.py", ranks, argv)


def changed(folder: Path, name: str, old: str, new: str) -> Path:
    """A copy of a script in which one thing is another."""
    text = (SCRIPTS / f"{name}.py").read_text(encoding="utf-8")
    assert old in text
    copy = folder / f"{name}.py"
    copy.write_text(text.replace(old, new), encoding="utf-8")
    return copy


def sent_by(reading: ScriptReading) -> list[tuple[str, int]]:
    """Names and bytes as real ranks have them: DDP makes its buckets anew in the second step."""
    again = [each for each in reading.start if each.dtype == "int32"]
    return [(each.operation, each.bytes) for each in (*again, *reading.collectives)]


@pytest.mark.parametrize("name", ["ddp_gpt", "fsdp2_gpt", "fsdp2_tp_gpt", "titan_gpt"])
def test_a_script_is_read_as_four_real_ranks_run_it(name, four):
    sent, params = four.run(second_step, SCRIPTS / f"{name}.py")[0]
    assert sent_by(read(name, 4)) == sent
    assert read(name, 4).param_count == params


def test_another_bucket_is_another_list_and_the_same_sum(four, tmp_path):
    """The twin: the comparison above sees a bucket of another size, the sum does not."""
    script = changed(tmp_path, "ddp_gpt", "bucket_cap_mb=1", "bucket_cap_mb=2")
    other, usual = read_script(script, 4), read("ddp_gpt", 4)
    assert sent_by(other) == four.run(second_step, script)[0][0] != sent_by(usual)
    assert other.sent() == usual.sent()


@pytest.mark.parametrize("ranks", [4, 64])
def test_ddp_sends_the_gradients_once_in_buckets(ranks):
    reading = read("ddp_gpt", ranks)
    assert {each.operation for each in reading.collectives} == {"all_reduce"}
    assert reading.sent("backward") == reading.sent() == 4 * reading.param_count
    ring = 2 * (ranks - 1) / ranks
    assert reading.sent() * ring == zero_sent_bytes(reading.param_count, 0, ranks, 1, 4)


@pytest.mark.parametrize("again, zero", [(True, 3), (False, 2)])
def test_fsdp_gathers_twice_or_once_and_scatters_once(again, zero, tmp_path):
    """Weights travel in two bytes, gradients in four; what is not resharded is gathered once."""
    new = f"mp_policy=policy, reshard_after_forward={again})"
    reading = read_script(changed(tmp_path, "fsdp2_gpt", "mp_policy=policy)", new), 8)
    params, gathers = reading.param_count, 1 + again
    assert reading.sent("forward", "all_gather") == 2 * params
    assert reading.sent("backward", "all_gather") == 2 * params * again
    assert reading.sent("backward", "reduce_scatter") == 4 * params
    sent = sharded_sent_bytes(params, gathers, 0, 8, 2) + sharded_sent_bytes(params, 0, 1, 8, 4)
    assert (reading.sent() - reading.sent("step")) * 7 / 8 == sent
    assert reading.layout == Layout(dp=8, zero=zero, micro_batch=2)


def test_tensor_parallelism_adds_up_activations_twice_a_layer():
    reading = read("fsdp2_tp_gpt", 16, "--tp", "4")
    inside = [each for each in reading.collectives if each.ranks == (0, 1, 2, 3)]
    forward = sum(each.bytes for each in inside if each.phase == "forward")
    ring = 2 * (4 - 1) / 4
    assert forward * ring == 2 * tensor_parallel_layer_bytes(2, 64, 128, 4, 4)
    assert {each.ranks for each in reading.collectives} == {(0, 1, 2, 3), (0, 4, 8, 12)}
    assert {each.apart for each in reading.collectives} == {1, 4}
    assert reading.layout == Layout(tp=4, dp=4, zero=3, micro_batch=2)


def test_a_layout_is_guessed_with_all_its_axes():
    assert read("titan_gpt", 4).layout == Layout(
        tp=2, dp=2, zero=3, micro_batch=2, sequence_parallel=True, recompute="full"
    )


def test_bytes_held_and_kept_are_those_of_the_account_and_of_torchs_tracker(tmp_path):
    script = tmp_path / "one_rank.py"
    script.write_text(ONE_RANK, encoding="utf-8")
    reading, tracked = read_script(script, 1), tracked_peak()
    params = SPEC.params()
    assert reading.param_count == params
    assert reading.held["parameters"] == tracked["Parameter"] == 4 * params
    # not counted: whole numbers and the mask, which a program may read; single numbers
    rows = gpt_kept_tensors(SPEC, SEQ, BATCH, 4)
    real = sum({row.name: row.bytes for row in rows if row.name in ("mask", "places")}.values())
    single, weights = 4, len(reading.params)
    assert reading.held["optimizer state"] == tracked["Optstate"] - weights * single == 8 * params
    assert reading.held["activations"] == tracked["Activation"] - real
    assert reading.held["temporary"] == tracked["Temp"]
    assert reading.peak_bytes == sum(reading.held.values())
    loss_and_its_gradient = 2 * single
    assert reading.kept_bytes == sum(row.bytes for row in rows) - real + loss_and_its_gradient


def tracked_peak() -> dict[str, int]:
    """The most that torch's own tracker sees in two steps of the same model, cause by cause."""
    model = GPT(SPEC)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    tokens = torch.randint(256, (BATCH, SEQ + 1))
    tracker = MemTracker()
    tracker.track_external(model, optimizer, tokens)
    with tracker:
        for _ in range(2):
            loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            tracker.reset_mod_stats()
    peak = tracker.get_tracker_snapshot("peak")[torch.device("cpu")]
    return {getattr(cause, "value", cause): size for cause, size in peak.items()}


def test_flops_are_those_of_the_matrices_and_of_attention():
    """Forward 2 per weight and token, and 4 per pair of tokens and width; backward twice that."""
    tokens, width, layers, vocab, seq = 2 * 64, 128, 4, 512, 64
    weights = layers * 12 * width**2 + vocab * width
    forward = 2 * weights * tokens + layers * 4 * tokens * seq * width
    again = layers * 2 * tokens * seq * width  # the scores, which no kernel has stored
    assert read("ddp_gpt", 64).flops == {
        "forward": forward, "backward": 2 * forward + again, "step": 0,
    }  # fmt: skip


def test_a_reading_is_a_table_and_survives_as_plain_data():
    reading = read("ddp_gpt", 64)
    assert str(reading).splitlines()[:3] == [
        "ddp_gpt.py as rank 0 of 64: dp 64, 2 sequences at a time",
        "  because gradients of 64 replicas are added",
        "53 parameters of 932,608 elements, 932,608 here",
    ]
    row = "backward  all_reduce         64, 1 apart       4      3.7 MB"
    assert str(reading).splitlines()[-1].split() == row.split()
    assert ScriptReading.from_dict(reading.as_dict()) == reading
    assert (reading.batch, reading.micro_batches) == ((2, 64), 1)
