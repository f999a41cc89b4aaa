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
    from dtlib.parallelism import context_parallel
    from dtlib.parallelism.sequence import layouts

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


def foreign_models():
    """What is told, on a rank, to one without blocks, and to one whose attention is fixed."""
    import torch.distributed as dist
    from torch import nn

    from dtlib.models import GPT
    from dtlib.parallelism import context_parallel

    renamed, fixed = nn.Module(), GPT(LLAMA)
    renamed.layers = nn.ModuleList()
    del fixed.blocks[1].attention.mix
    said = []
    for model in (renamed, fixed):
        try:
            context_parallel(model, dist.group.WORLD)
        except TypeError as error:
            said.append(str(error))
    return said


def test_a_model_that_lacks_a_part_is_told_which(ranks):
    for first, second in ranks.run(foreign_models):
        assert (
            "model must have .blocks and .forward (a PositionedModel): Module has no .blo" in first
        )
        assert "blocks[1].attention must have .heads, .kv_heads and .mix" in second
        assert "Attention has no .mix" in second


def frozen_and_unused(spoil=False):
    """On a rank: gradients after the sum, where rank 0 alone used the first parameter."""
    import torch
    import torch.distributed as dist

    from dtlib.models import GPT
    from dtlib.parallelism import context_parallel
    from dtlib.parallelism.sequence import model as context

    def with_a_gradient(module):
        return [p for p in module.parameters() if p.grad is not None]

    module = GPT(CLASSIC, dtype=torch.float64)
    module.norm.weight.requires_grad_(False)
    shared = context_parallel(module, dist.group.WORLD)
    if dist.get_rank() == 0:
        module.position_embedding.weight.grad = torch.ones_like(module.position_embedding.weight)
    module.head.weight.grad = torch.full_like(module.head.weight, 2.0)
    sums = context.trained_parameters
    context.trained_parameters = with_a_gradient if spoil else sums
    try:
        shared.sum_gradients()
    finally:
        context.trained_parameters = sums
    named = dict(module.named_parameters())
    return (
        named["norm.weight"].grad is None,
        named["position_embedding.weight"].grad.unique().tolist(),
        named["embedding.weight"].grad.unique().tolist(),
        named["norm.bias"].grad.unique().tolist(),
    )


def test_what_one_rank_alone_used_is_summed_with_itself_and_what_is_frozen_stays(ranks):
    """A sum that leaves out what has no gradient here would meet another parameter's there."""
    for frozen, used, head, unused in ranks.run(frozen_and_unused):
        assert (frozen, used, head, unused) == (True, [1.0], [2.0 * ranks.n], [0.0])


def test_sabotage_a_sum_of_what_has_a_gradient_leaves_a_rank_waiting():
    with launch(2, timeout=5) as doomed, pytest.raises(RanksError, match="rank 1 failed"):
        doomed.run(frozen_and_unused, spoil=True)


def experts_too():
    """On a rank: the errors of a model with experts over the same ranks, and what is refused."""
    import torch
    import torch.distributed as dist

    from dtlib.foundations import MoE
    from dtlib.models import GPT, gradients, next_token_loss, relative_errors, worst
    from dtlib.parallelism import context_parallel, expert_parallel, sum_gradients

    spec = TransformerSpec(
        "moe", layers=1, hidden=8, heads=2, vocab=11, gated=True, moe=MoE(4, active=2, ffn=6)
    )
    group = dist.group.WORLD
    drawn = torch.Generator().manual_seed(17)
    tokens, targets = torch.randint(11, (2, 2, 16), generator=drawn)
    whole, module = (GPT(spec, dtype=torch.float64) for _ in range(2))
    next_token_loss(whole(tokens), targets, "sum").backward()
    shared = context_parallel(expert_parallel(module, group), group)
    next_token_loss(shared(tokens), shared.own(targets), "sum").backward()
    try:
        shared.sum_gradients()
    except ValueError as error:
        said = str(error)
    sum_gradients(module, group)
    found, right = gradients(module), gradients(whole)
    return worst(relative_errors(found, {name: right[name] for name in found})), said


def test_tokens_and_experts_over_the_same_ranks_equal_one_process(ranks):
    for (name, error), said in ranks.run(experts_too):
        assert error < 1e-12, name
        assert "part that is spread is ['blocks.0.feed_forward'], but must be none" in said


def averaged_copy():
    """On a rank: a copy of the model, moved, and what saving says."""
    import copy
    import io

    import torch
    import torch.distributed as dist

    from dtlib.models import GPT
    from dtlib.parallelism import context_parallel

    tokens = torch.arange(16)[None]
    shared = context_parallel(GPT(LLAMA, dtype=torch.float64), dist.group.WORLD)
    before = shared(tokens)
    other = copy.deepcopy(shared)
    with torch.no_grad():
        other.module.head.weight.zero_()
    try:
        torch.save(shared, io.BytesIO())
    except TypeError as error:
        said = str(error)
    return torch.equal(shared(tokens), before), other(tokens).abs().max().item(), said


def test_a_copy_is_another_model_and_saving_says_what_to_save(ranks):
    for same, of_the_copy, said in ranks.run(averaged_copy):
        assert same and of_the_copy == 0
        assert "ContextParallel keeps a process group" in said and "state_dict()" in said
