"""Five engines train the same model, and their logs hold every claim, on real ranks."""

import pytest

from dtlib.micro_lab import Encoder, encoder_specs
from dtlib.micro_lab.claims import check_claims
from dtlib.micro_lab.engines import (
    ENGINES,
    make_engine,
    native_bucket_bytes,
    own_bucket_bytes,
    unit_name,
)
from dtlib.runtime import RanksError, launch

QUARTER = 0.25  # MiB
STEPS = 8


@pytest.fixture(scope="module")
def pair():
    with launch(2, timeout=60) as ranks:
        yield ranks


def train(name, bucket_mb=QUARTER, steps=STEPS):
    """One engine on 32 reviews a step: (records, weights)."""
    import torch
    import torch.distributed as dist

    from dtlib.micro_lab import Encoder, encoder_specs
    from dtlib.micro_lab.engines import make_engine
    from dtlib.micro_lab.sentiment import tensors, toy_sentiment
    from dtlib.micro_lab.step_log import StepLog

    rank, P = dist.get_rank(), dist.get_world_size()
    tokens, labels = tensors(toy_sentiment())
    log, model = StepLog(rank), Encoder(encoder_specs["mini"])
    engine = make_engine(name, model, dist.group.WORLD, log, bucket_mb=bucket_mb, lr=3e-4)
    for step in range(steps):
        rows = torch.arange(32 * step, 32 * step + 32)
        if name != "single":
            rows = rows.chunk(P)[rank]
        engine.step(tokens[rows], labels[rows])
    return log.records, engine.weights()


@pytest.fixture(scope="module")
def runs(pair):
    return {name: pair.run(train, name) for name in ENGINES}


@pytest.fixture(scope="module")
def logs(runs):
    every = {
        name: [record for records, _ in ranks for record in records] for name, ranks in runs.items()
    }
    every["single"] = runs["single"][0][0]
    return every


def predicted(size="mini", **options):
    import torch

    with torch.device("meta"):
        return native_bucket_bytes(Encoder(encoder_specs[size]).parameters(), **options)


def gap(one, other):
    assert list(one) == list(other)
    return max(float((one[name] - other[name]).abs().max()) for name in one)


def test_all_six_claims_hold(logs):
    seen = check_claims(logs, predicted(bucket_mb=QUARTER))
    assert "then 7" in seen["a"]
    assert "39% of the bytes" in seen["b"] and "38% of the bytes" in seen["b"]
    assert "fsdp: gather, gather, scatter" in seen["d"]


@pytest.mark.parametrize("name", ["zero3", "fsdp", "torch-ddp"])
def test_on_two_ranks_every_engine_ends_with_the_weights_of_ddp(runs, name):
    """Sums of two terms commute: every bit, where gloo adds."""
    for rank in range(2):
        assert gap(runs[name][rank][1], runs["ddp"][rank][1]) <= 1e-6


def test_ranks_and_one_process_end_near_each_other(runs):
    assert 0 < gap(runs["single"][0][1], runs["ddp"][0][1]) <= 5e-4


def test_both_ranks_end_with_the_same_weights(runs):
    for name in ENGINES:
        assert gap(runs[name][0][1], runs[name][1][1]) == 0


def test_training_moves_the_weights(runs):
    start = dict(Encoder(encoder_specs["mini"]).named_parameters())
    assert gap(runs["ddp"][0][1], {name: p.detach() for name, p in start.items()}) > 1e-4


def forgetful(state, bucket):
    """A hook that sums and does not divide."""
    import torch.distributed as dist

    log, group = state
    travel = log.travel("all_reduce", bucket.buffer().nbytes, bucket=bucket.index())
    work = dist.all_reduce(bucket.buffer(), group=group, async_op=True)

    def done(future):
        travel.done()
        return future.value()[0]

    return work.get_future().then(done)


def train_with(hook):
    import torch
    import torch.distributed as dist

    from dtlib.micro_lab.step_log import StepLog

    model, log = Encoder(encoder_specs["mini"]), StepLog(dist.get_rank())
    engine = make_engine("torch-ddp", model, dist.group.WORLD, log, hook=hook, lr=3e-4)
    tokens = torch.arange(1, 65).view(4, 16) + 64 * dist.get_rank()
    for _ in range(3):
        engine.step(tokens, torch.tensor([0, 1, 1, 0]))
    return engine.weights()


def test_a_hook_that_forgets_to_divide_changes_weights_and_no_line(pair):
    right, wrong = (pair.run(train_with, hook)[0] for hook in (None, forgetful))
    assert gap(right, wrong) > 1e-6


def renamed(log_and_group, gradients):
    return gradients


def test_the_arguments_of_a_hook_are_looked_up_by_their_names(pair):
    with pytest.raises(RanksError, match="KeyError"):
        pair.run(train_with, renamed)


@pytest.mark.parametrize(
    ("cap", "count", "named"), [(1, 39, 39), (5, 20, 19), (25, 8, 7), (100, 3, 2), (1000, 2, 1)]
)
def test_buckets_of_base_by_torchs_own_function(cap, count, named):
    """With the small first bucket, and as the wrapper has it where somebody names a size."""
    first = predicted("base", bucket_mb=cap, first_mb=1)
    assert len(first) == count and len(predicted("base", bucket_mb=cap)) == named
    assert sum(first) == 4 * 66_955_010


def test_the_default_of_base_is_one_bucket_for_each_layer_and_a_large_last_one():
    head, *layers, last = predicted("base")
    assert layers == [4 * 7_087_872] * 6
    assert round(head / 2**20, 2) == 2.26 and round(last / 2**20, 2) == 90.93
    assert round(last / (4 * 66_955_010), 2) == 0.36


def test_our_buckets_close_before_they_pass_their_limit():
    sizes = own_bucket_bytes(Encoder(encoder_specs["mini"]).parameters(), QUARTER)
    assert len(sizes) == 12 and sum(sizes) == 4 * 677_762
    assert max(sizes[:-1]) <= 2**18 < sizes[-1]


def test_names():
    assert unit_name("distilbert.transformer.layer.3") == "layer.3"
    with pytest.raises(ValueError, match="engine = 'horovod'; allowed are single, ddp"):
        make_engine("horovod", None, None, None)
