"""A GPT on shares of its sequences equals one process: loss, logits, dX, every gradient.

The functions that run on the ranks import what they need themselves.
"""

import pytest

from dtlib.foundations import TransformerSpec
from dtlib.runtime import RanksError, launch

LLAMA = TransformerSpec(
    "llama", layers=2, hidden=16, heads=4, kv_heads=2, vocab=24, gated=True, norm="rms", bias=False
)
CLASSIC = TransformerSpec(
    "classic", layers=2, hidden=16, heads=4, vocab=24, positions=16, tied=True
)
WAYS = [("ring", "contiguous"), ("ring", "zigzag"), ("ring", "striped")]
WAYS += [("all-gather", "zigzag"), ("ulysses", "contiguous"), ("ulysses", "zigzag")]


@pytest.fixture(scope="module", params=[2, 4])
def ranks(request):
    with launch(request.param, timeout=60) as ranks:
        yield ranks


def model_errors(spec, dtype, attention, layout, spoil=None):
    """On a rank: the worst error over loss, logits, dX and parameters, and of the loss alone."""
    import torch
    import torch.distributed as dist

    from dtlib.models import GPT, gradients, next_token_loss, relative_errors, worst
    from dtlib.parallelism import context_parallel, layouts

    dtype, group = getattr(torch, dtype), dist.group.WORLD
    drawn = torch.Generator().manual_seed(17)
    tokens, targets = torch.randint(spec.vocab, (2, 2, 16), generator=drawn)
    targets[0, 3] = -100
    counting = (targets != -100).sum()
    entering = []

    def keep(module, inputs, output):
        output.retain_grad()
        entering.append(output)

    whole = GPT(spec, dtype=dtype)
    whole.embedding.register_forward_hook(keep)
    logits = whole(tokens)
    loss = next_token_loss(logits, targets)
    loss.backward()

    module = GPT(spec, dtype=dtype)
    module.embedding.register_forward_hook(keep)
    shared = context_parallel(module, group, getattr(layouts, layout), attention)
    own = shared.positions(16)
    local = torch.arange(len(own))
    own_logits = module(tokens[:, own], local) if spoil == "local" else shared(tokens)
    part = next_token_loss(own_logits, shared.own(targets), "sum") / counting
    part.backward()
    if spoil != "no sum":
        shared.sum_gradients()
    total = part.detach().clone()
    dist.all_reduce(total)
    found = gradients(module) | {"loss": total, "logits": own_logits, "dX": entering[1].grad}
    right = gradients(whole) | {
        "loss": loss.detach(),
        "logits": logits[:, own],
        "dX": entering[0].grad[:, own],
    }
    errors = relative_errors(found, right)
    return worst(errors), errors["loss"]


@pytest.mark.parametrize(("attention", "layout"), WAYS)
def test_the_whole_model_equals_one_process(ranks, attention, layout):
    for spec in (LLAMA, CLASSIC):
        for (name, error), _ in ranks.run(model_errors, spec, "float64", attention, layout):
            assert error < 1e-12, (spec.name, name)
        for (name, error), loss in ranks.run(model_errors, spec, "float32", attention, layout):
            assert error < 1e-5, (spec.name, name)
            assert loss < 1e-6


def test_sabotage_without_the_sum_the_loss_is_right_and_the_gradients_are_not(ranks):
    for (name, error), loss in ranks.run(
        model_errors, LLAMA, "float64", "ring", "zigzag", "no sum"
    ):
        assert loss < 1e-12
        assert error > 0.1, name


def test_sabotage_local_positions_are_noticed(ranks):
    for (_, error), loss in ranks.run(model_errors, LLAMA, "float64", "ring", "zigzag", "local"):
        assert error > 0.01
        assert loss > 1e-4


def refused(spec, attention, tokens):
    import torch
    import torch.distributed as dist

    from dtlib.models import GPT
    from dtlib.parallelism import context_parallel

    context_parallel(GPT(spec), dist.group.WORLD, attention=attention)(
        torch.zeros(1, tokens, dtype=torch.int64)
    )


THREE = TransformerSpec("three", layers=1, hidden=12, heads=3, vocab=24)


@pytest.mark.parametrize(
    ("spec", "attention", "tokens", "said"),
    [
        (LLAMA, "flash", 16, "attention is 'flash', but must be 'ring', 'all-gather', 'ulysses'"),
        (THREE, "ulysses", 16, "must be a divisor of the query heads, which is 3"),
        (LLAMA, "ring", 14, "zigzag layout: seq must be a multiple of 2P = "),
    ],
)
def test_what_does_not_fit_is_refused(ranks, spec, attention, tokens, said):
    with pytest.raises(RanksError, match=said):
        ranks.run(refused, spec, attention, tokens)
