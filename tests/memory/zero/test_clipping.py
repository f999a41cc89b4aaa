"""Clipping over ranks that divide a model in any way is clipping in one process."""

import math

import pytest

from dtlib.runtime import RanksError, launch

SIZE = {"layers": 2, "hidden": 16, "heads": 4, "vocab": 32, "positions": 8}
NORMS = [(2.0, 0.01), (math.inf, 1e-4), (3.0, 0.01), (2.0, 1e6)]


@pytest.fixture(scope="module")
def four():
    with launch(4, timeout=60) as ranks:
        yield ranks


def model_and_loss(**options):
    """A GPT with its gradients, made by one process from all tokens."""
    import torch

    from dtlib.foundations import TransformerSpec
    from dtlib.models import GPT, next_token_loss

    model = GPT(TransformerSpec("small", **SIZE, **options), seed=1, dtype=torch.float64)
    tokens = torch.randint(32, (4, 9), generator=torch.Generator().manual_seed(0))
    next_token_loss(model(tokens[:, :-1]), tokens[:, 1:]).backward()
    return model, tokens


def against_one(model, parts, group, expected_of, copies):
    """For each norm: how far the norm, and this rank's clipped gradients, are from one process."""
    import torch

    from dtlib.memory import clip_gradients

    before = {p: p.grad.clone() for p in [*model.parameters(), *parts]}
    found = []
    for p, bound in NORMS:
        for parameter, gradient in before.items():
            parameter.grad = gradient.clone()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), bound, p)
        mine = clip_gradients(parts, bound, group, copies=copies, norm_type=p)
        expected = expected_of({name: w.grad for name, w in model.named_parameters()})
        errors = [abs(mine / norm - 1)]
        errors += [(part.grad - expected[part]).abs().max() for part in parts]
        found.append(max(map(float, errors)))
    return found


def by_tensors_and_stages(tied, kv_heads, right=True):
    """Two ranks for the matrices, two for the layers; a tied table has two places."""
    import torch.distributed as dist

    from dtlib.memory import copies_held
    from dtlib.mesh import Mesh, make_groups
    from dtlib.models import GPT
    from dtlib.parallelism import tensor_parallel, vocab_parallel_cross_entropy
    from dtlib.parallelism.pipeline import stages_of
    from dtlib.parallelism.tensor.model import shard_state

    whole, tokens = model_and_loss(tied=tied, kv_heads=kv_heads)
    groups, everyone = make_groups(Mesh.of(pp=2, tp=2)), dist.group.WORLD
    place, rank = dist.get_rank(groups["pp"]), dist.get_rank(groups["tp"])
    blank = GPT(whole.spec, seed=1, dtype=whole.embedding.weight.dtype)
    divided = tensor_parallel(blank, groups["tp"])
    logits = divided(tokens[:, :-1])
    vocab_parallel_cross_entropy(logits, tokens[:, 1:], groups["tp"]).backward()
    stage = stages_of(divided, 2)[place]
    names = {parameter: name for name, parameter in divided.named_parameters()}

    def expected(gradients):
        own = shard_state(gradients, whole.spec, rank, 2)
        return {parameter: own[names[parameter]] for parameter in stage.parameters()}

    copies = copies_held(stage, everyone, stages=2) if right else None
    return against_one(whole, list(stage.parameters()), everyone, expected, copies)


@pytest.mark.parametrize(("tied", "kv_heads"), [(False, 4), (True, 4), (True, 1)])
def test_tensor_and_pipeline_parallel_ranks_clip_as_one_process(four, tied, kv_heads):
    for errors in four.run(by_tensors_and_stages, tied, kv_heads):
        assert max(errors) <= 1e-12
    for errors in four.run(by_tensors_and_stages, tied, kv_heads, right=False):  # sabotage
        assert max(errors) > 1e-4


def by_experts_and_replicas(right=True):
    import torch.distributed as dist

    from dtlib.memory import copies_held
    from dtlib.mesh import Mesh, make_groups
    from dtlib.models import GPT, next_token_loss
    from dtlib.models.spec import MoE
    from dtlib.parallelism import expert_parallel, sum_gradients

    whole, tokens = model_and_loss(bias=False, moe=MoE(4, 1, 16))
    groups, everyone = make_groups(Mesh.of(edp=2, ep=2)), dist.group.WORLD
    model = GPT(whole.spec, seed=1, dtype=whole.embedding.weight.dtype)
    expert_parallel(model, groups["ep"])
    own = tokens.chunk(4)[dist.get_rank()]
    loss = next_token_loss(model(own[:, :-1]), own[:, 1:], reduction="sum")
    (loss / tokens[:, 1:].numel()).backward()
    sum_gradients(model, everyone, groups["edp"])
    names = {parameter: name for name, parameter in model.named_parameters()}

    def expected(gradients):
        return {parameter: gradients[name] for parameter, name in names.items()}

    copies = copies_held(model, everyone) if right else None
    return against_one(whole, list(model.parameters()), everyone, expected, copies)


def test_expert_and_data_parallel_ranks_clip_as_one_process(four):
    for errors in four.run(by_experts_and_replicas):
        assert max(errors) <= 1e-12
    for errors in four.run(by_experts_and_replicas, right=False):  # sabotage
        assert max(errors) > 1e-4


def by_parts(stage, alone=False):
    """Stage 2, or 3, whose ranks each own a quarter: the norms' and the clipped norms' errors."""
    import torch
    import torch.distributed as dist

    from dtlib.memory import FullySharded, ShardedOptimizer, clip_gradients
    from dtlib.models import GPT, next_token_loss

    one, tokens = model_and_loss()
    before = [p.grad.clone() for p in one.parameters()]
    group, found = dist.group.WORLD, []
    for p, bound in NORMS:
        model = trained = GPT(one.spec, seed=1, dtype=torch.float64)
        if stage == 3:
            trained = FullySharded(model, group)
        else:
            optimizer = ShardedOptimizer(
                model.parameters(), torch.optim.SGD, group, zero=stage, lr=1.0, bucket_bytes=4000
            )
        own = tokens.chunk(4)[dist.get_rank()]
        next_token_loss(trained(own[:, :-1]), own[:, 1:]).backward()
        for parameter, gradient in zip(one.parameters(), before, strict=True):
            parameter.grad = gradient.clone()
        norm = torch.nn.utils.clip_grad_norm_(one.parameters(), bound, p)
        if stage == 3 or alone:
            parts = trained.parameters() if stage == 3 else [f.own for f in optimizer.flats]
            over = dist.new_group([dist.get_rank()], use_local_synchronization=True)
            mine = clip_gradients(parts, bound, over if alone else group, norm_type=p)
        else:
            mine = optimizer.clip_gradients(bound, norm_type=p)
        errors = [abs(mine / norm - 1)]
        if stage != 3:
            start = [w.detach().clone() for w in model.parameters()]
            optimizer.step()
            moved = zip(start, model.parameters(), one.parameters(), strict=True)
            errors += [(a - b - c.grad).abs().max() for a, b, c in moved]
        else:
            gradients = trained.gradients()
            errors += [(gradients[n] - w.grad).abs().max() for n, w in one.named_parameters()]
        found.append(max(map(float, errors)))
    return found


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_ranks_that_own_parts_clip_as_one_process(four, stage):
    for errors in four.run(by_parts, stage):
        assert max(errors) <= 1e-12


def test_sabotage_ranks_that_clip_alone_clip_by_other_norms(four):
    assert max(max(errors) for errors in four.run(by_parts, 2, alone=True)) > 1e-4


def overflowed(p, value, error=False):
    """The norm where one rank's gradient is not finite, and what is left of the gradients."""
    import torch
    import torch.distributed as dist

    from dtlib.memory import clip_gradients

    part = torch.nn.Parameter(torch.zeros(3))
    part.grad = torch.ones(3)
    part.grad[1] = value if dist.get_rank() == 2 else 1
    said = ""
    try:
        norm = clip_gradients(
            [part], 1.0, dist.group.WORLD, norm_type=p, error_if_nonfinite=error
        ).item()
    except RuntimeError as found:
        said, norm = str(found), None
    return norm, said, part.grad.nan_to_num(7, 8).tolist()


@pytest.mark.parametrize("p", [2.0, math.inf])
def test_a_norm_that_is_not_finite_is_so_on_every_rank_and_an_error_leaves_the_gradients(four, p):
    for norm, _, _ in four.run(overflowed, p, math.inf):
        assert norm == math.inf
    for norm, _, _ in four.run(overflowed, p, math.nan):
        assert math.isnan(norm)
    for rank, (norm, said, left) in enumerate(four.run(overflowed, p, math.nan, error=True)):
        assert norm is None
        assert said == "clip_gradients: the norm of all gradients is nan"
        assert left == [1, 7 if rank == 2 else 1, 1]


def refused(**options):
    import torch
    import torch.distributed as dist

    from dtlib.memory import clip_gradients, copies_held

    part = torch.nn.Linear(2, 2)
    if "stages" in options:
        copies_held(part, dist.group.WORLD, **options)
    parts = options.pop("parts", part.parameters())
    clip_gradients(parts, options.pop("max_norm", 1.0), dist.group.WORLD, **options)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_norm": 0.0}, "max_norm is 0.0, but must be a positive number"),
        ({"norm_type": 0}, "norm_type is 0, but must be a positive number, or infinity"),
        ({"norm_type": "2"}, "norm_type is '2'"),
        ({"parts": []}, r"parts is \[\], but must be at least one parameter"),
        ({"stages": 3}, "the number of ranks is 4, but must be a multiple of 1 pieces x 3 stages"),
        ({"stages": 0}, "stages is 0"),
    ],
    ids=str,
)
def test_what_cannot_be_clipped_is_refused(four, options, said):
    with pytest.raises(RanksError, match=said):
        four.run(refused, **options)
