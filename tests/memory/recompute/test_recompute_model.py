"""Recomputation inside a model: the same bits, torch's own as reference, and the bytes saved."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint as torch_checkpoint
from torch.utils.checkpoint import create_selective_checkpoint_contexts
from torch.utils.flop_counter import FlopCounterMode

from dtlib.foundations import TransformerSpec
from dtlib.memory.meter import Meter, saved_tensor_bytes
from dtlib.memory.recompute import model as recompute_model
from dtlib.memory.recompute.measure import measure_chain
from dtlib.memory.recompute.model import Recomputed, SelectiveBlock, run_selective
from dtlib.memory.recompute.policy import checkpoint, checkpoint_policy
from dtlib.memory.recompute.run import recompute_chain
from dtlib.memory.recompute.schedule import RecomputeError, keep_all, revolve, uniform
from dtlib.memory.recompute.simulation import simulate_recompute
from dtlib.models import GPT, Block, gradients, next_token_loss, relative_errors, worst
from dtlib.models.spec import MoE

KINDS = {
    "classical": {"positions": 16, "tied": True},
    "llama": {"norm": "rms", "bias": False, "gated": True, "kv_heads": 2},
    "experts": {"norm": "rms", "moe": MoE(4, 2, 24)},
}
POLICIES = ["full", "products", ["bmm"], ["mm", "addmm", "bmm", "_softmax", "gelu", "silu"]]
WAYS = ["none", "full", "selective", 2, revolve(4, 2), *map(checkpoint_policy, POLICIES)]
B, S, H, A = 2, 12, 32, 4


def spec(kind="classical"):
    return TransformerSpec(kind, 4, H, A, 40, **KINDS[kind])


def step(kind, how=None, dtype=torch.float64):
    """Loss, gradient of the first block's input, every gradient."""
    model, tokens = GPT(spec(kind), dtype=dtype), torch.arange(B * S).reshape(B, S) % 40
    entering = []

    run = model if how is None else Recomputed(model, how)
    embed = model.embed

    def remembered(*arguments):
        x = embed(*arguments)
        x.retain_grad()
        entering.append(x)
        return x

    model.embed = remembered
    loss = next_token_loss(run(tokens), tokens)
    loss.backward()
    return loss.detach(), {"dX": entering[0].grad, **gradients(model)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", WAYS, ids=str)
def test_every_way_gives_the_bits_of_the_plain_model(kind, how):
    loss, found = step(kind, how)
    plain, reference = step(kind)
    assert torch.equal(loss, plain)
    assert worst(relative_errors(found, reference))[1] == 0


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_torchs_own_selective_checkpoint_with_the_same_policy_gives_the_same_bits(policy):
    policy = checkpoint_policy(policy)
    contexts = partial(create_selective_checkpoint_contexts, policy)

    def found(run):
        block = Block(spec("llama"), dtype=torch.float64)
        torch.manual_seed(0)
        for weight in block.parameters():
            nn.init.normal_(weight)
        x = torch.randn(B, S, H, dtype=torch.float64, requires_grad=True)
        run(block, x).square().sum().backward()
        return [x.grad, *(p.grad for p in block.parameters())]

    ours = found(lambda block, x: checkpoint(block, x, policy=policy))
    theirs = found(
        lambda block, x: torch_checkpoint(block, x, use_reentrant=False, context_fn=contexts)
    )
    assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


def test_full_recomputation_keeps_the_inputs_of_the_blocks_only():
    model = GPT(spec(), dtype=torch.float32)
    x, positions = torch.randn(B, S, H, requires_grad=True), torch.arange(S)
    through = Recomputed(model, uniform(4, 1, keep_last=False))._through
    assert saved_tensor_bytes(through, x, positions, besides=[model]) == 4 * B * S * H * 4


def test_selective_recomputation_saves_the_scores_and_keeps_what_they_are_made_of():
    """5 a s^2 b of the law, here without dropout: softmax and mask, for queries, keys, values.

    Plain, torch keeps copies of queries, keys and values for its products, as many bytes.
    """
    block, x = Block(spec()), torch.randn(B, S, H, requires_grad=True)
    positions = torch.arange(S)
    plain = saved_tensor_bytes(block, x, positions, besides=[positions])
    selective = saved_tensor_bytes(SelectiveBlock(block), x, positions, besides=[positions])
    softmax, mask = 4 * B * A * S * S, S * S
    assert plain - selective == softmax + mask


def test_the_attention_core_is_what_selective_repeats():
    block, x = Block(spec()), torch.randn(B, S, H, requires_grad=True)

    def flops(run):
        with FlopCounterMode(display=False) as counter:
            run(x).sum().backward()
        return counter.get_total_flops()

    core = 2 * 2 * B * S * S * H  # Q K' and the sum of V
    assert flops(partial(run_selective, block)) - flops(block) == core
    everything = 2 * B * S * 12 * H * H + core
    assert flops(partial(checkpoint, block)) - flops(block) == everything
    keep = partial(checkpoint, block, policy=checkpoint_policy("products"))
    assert flops(keep) - flops(block) == core


class Again(nn.Module):
    """A block that runs again in its own backward pass, as one layer of a chain."""

    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x, *arguments):
        return checkpoint(self.block, x, *arguments)


@pytest.mark.parametrize("inside", [SelectiveBlock, Again])
def test_a_chain_of_layers_that_recompute_is_simulated_with_its_workspace(inside):
    model = GPT(spec("llama"), dtype=torch.float64)
    layers = [inside(block) for block in model.blocks]
    x = torch.randn(B, S, H, dtype=torch.float64, requires_grad=True)
    positions = torch.arange(S)
    chain = measure_chain(layers, x, positions)
    if inside is Again:
        plain = measure_chain(model.blocks, x, positions).layers[0]
        again = chain.layers[0]
        assert (again.interior_bytes, again.workspace_bytes) == (0, plain.interior_bytes)
    for schedule in (uniform(4, 4), uniform(4, 2), revolve(4, 2)):
        cost = simulate_recompute(schedule, chain)
        with Meter(model, positions) as meter:
            recompute_chain(schedule, layers, x, positions).sum().backward()
        assert meter.peak_bytes == cost.peak_bytes


def test_a_policy_keeps_the_outputs_that_it_names_and_the_inputs():
    linear = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 8), nn.GELU())
    x = torch.randn(5, 8, requires_grad=True)
    kept = {
        name: saved_tensor_bytes(
            partial(checkpoint, linear, policy=checkpoint_policy(name)), x, besides=[linear]
        )
        for name in ("full", "products")
    }
    assert kept["full"] == 5 * 8 * 4
    assert kept["products"] == (5 * 8 + 5 * 32 + 5 * 8) * 4
    gelu = partial(checkpoint, linear, policy=checkpoint_policy(["gelu"]))
    assert saved_tensor_bytes(gelu, x, besides=[linear]) == kept["products"]


@pytest.mark.parametrize("saved", ["native_dropout", "bernoulli_", "addmm", "rand_like"])
def test_random_numbers_stay_the_same_whether_their_operation_is_kept_or_repeated(saved):
    """A kept random operation is not run again, and those after it must not notice."""

    def noisy(x):
        x = x * (torch.rand_like(x) > 0.3)
        x = torch.native_dropout(x, 0.4, True)[0]
        return torch.dropout(x * torch.rand_like(x), 0.5, True)

    def found(run):
        torch.manual_seed(5)
        x = torch.ones(4, 8, dtype=torch.float64, requires_grad=True)
        y = run(x)
        y.sum().backward()
        return y.detach(), x.grad, torch.rand(2)

    kept = partial(checkpoint, noisy, policy=checkpoint_policy([saved]))
    if saved == "bernoulli_":  # its output is its input, which is then divided in place
        with pytest.raises(RecomputeError, match="kept output of bernoulli_ was changed in place"):
            found(kept)
        return
    assert all(torch.equal(a, b) for a, b in zip(found(kept), found(noisy), strict=True))


def test_nested_checkpoints_several_outputs_and_arguments_that_are_no_tensors():
    linear = nn.Linear(8, 8, dtype=torch.float64)

    def inner(x, power):
        return linear(x).tanh() ** power

    def outer(x, y, power, *, again):
        z = again(inner, x, power) + y
        return z, (z * x).sum(), x > 0

    def found(again):
        linear.zero_grad()
        x = torch.linspace(-1, 1, 16, dtype=torch.float64).view(2, 8).requires_grad_()
        y = torch.ones(2, 8, dtype=torch.float64, requires_grad=True)
        z, total, positive = again(partial(outer, again=again), x, y, 3)
        assert not positive.requires_grad
        (z.sum() * total).backward()
        return x.grad, y.grad, linear.weight.grad, linear.bias.grad

    def plain(function, *arguments):
        return function(*arguments)

    assert all(torch.equal(a, b) for a, b in zip(found(checkpoint), found(plain), strict=True))


def test_sabotage_another_run_is_refused():
    """A function that does other operations the second time would take tensors that are not its."""
    turns = []

    def fickle(x):
        turns.append(1)
        return (x @ x if len(turns) % 2 else x.exp()).sum()

    x = torch.eye(3, requires_grad=True)
    loss = checkpoint(fickle, x, policy=checkpoint_policy(["mm"]))
    with pytest.raises(RecomputeError, match=r"ran aten\.mm\.default first, and not again"):
        loss.backward()


def test_sabotage_a_model_that_recomputes_with_other_weights_is_refused():
    model, tokens = GPT(spec()), torch.arange(S)[None]
    for how in ("full", "selective", checkpoint_policy("products")):
        loss = Recomputed(model, how)(tokens).sum()
        with torch.no_grad():
            for weight in model.parameters():
                weight.mul_(1.5)
        with pytest.raises(RuntimeError, match=r"changed between|modified by an inplace"):
            loss.backward()


def test_what_they_refuse():
    model = GPT(spec())
    with pytest.raises(ValueError, match="how is 'fully', but must be one of"):
        Recomputed(model, "fully")
    with pytest.raises(ValueError, match="how is 5, but must be at most the number of blocks, 4"):
        Recomputed(model, 5)
    with pytest.raises(ValueError, match="the length of how is 3, but must be 4"):
        Recomputed(model, revolve(3, 2))
    with pytest.raises(ValueError, match="module is 'Linear', but must be a GPT or"):
        Recomputed(nn.Linear(2, 2), "full")
    with pytest.raises(ValueError, match="a block is 'Linear', but must be one with an att"):
        Recomputed(nn.Sequential(nn.Linear(2, 2)), "selective")
    with pytest.raises(ValueError, match="SelectiveBlock: a block is 'int'"):
        SelectiveBlock(3)
    with pytest.raises(TypeError, match="measure_chain: x is 3, but must be a Tensor"):
        measure_chain([nn.Linear(2, 2)], 3)
    with pytest.raises(ValueError, match="policy is 'some', but must be a dict, a list or one of"):
        checkpoint_policy("some")
    with pytest.raises(ValueError, match="mm is 'keep', but must be 'save' or 'recompute'"):
        checkpoint_policy({"mm": "keep"})
    with pytest.raises(RecomputeError, match="the function returns a str, not a tensor"):
        checkpoint(str, torch.ones(2))
    x = torch.ones(2, requires_grad=True)
    y = checkpoint(torch.exp, x).sum()
    y.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="a second backward pass"):
        y.backward()


@pytest.mark.parametrize("inside", [SelectiveBlock, Again])
def test_a_chain_without_data_is_measured_as_the_real_one(inside):
    def measured(device):
        with torch.device(device):
            x = torch.zeros(B, S, H)
            return measure_chain([inside(Block(spec()))], x, torch.arange(S))

    assert measured("meta") == measured("cpu")


def kept_by(how):
    """Bytes that the blocks keep for the backward pass."""
    model = GPT(spec(), dtype=torch.float32)
    x, positions = torch.randn(B, S, H, requires_grad=True), torch.arange(S)
    run = Recomputed(model, how)._through
    return saved_tensor_bytes(run, x, positions, besides=[model, positions])


def blocks_one_by_one(how):
    """The same in a plain loop: what every way is worth, without `Recomputed`."""
    model = GPT(spec(), dtype=torch.float32)
    x, positions = torch.randn(B, S, H, requires_grad=True), torch.arange(S)
    run = {"none": lambda block, *a: block(*a), "selective": run_selective}[how]

    def through(x, positions):
        for block in model.blocks:
            x = run(block, x, positions)
        return x

    return saved_tensor_bytes(through, x, positions, besides=[model, positions])


def test_every_word_keeps_the_bytes_that_it_names():
    stream = B * S * H * 4
    assert kept_by("none") == blocks_one_by_one("none")
    assert kept_by("selective") == blocks_one_by_one("selective")
    assert kept_by(uniform(4, 1, keep_last=False)) == 4 * stream
    assert kept_by("full") == kept_by(uniform(4, 1)) > 3 * stream
    assert kept_by(1) == kept_by("full") < kept_by(2) == kept_by(uniform(4, 2))
    assert kept_by(checkpoint_policy("full")) == 4 * stream
    assert kept_by("full") < kept_by("selective") < kept_by("none")


def test_full_is_the_schedule_that_keeps_every_block_s_input():
    chain = nn.Sequential(*(nn.Linear(4, 4) for _ in range(4)))
    assert Recomputed(chain, "full").how.actions == uniform(4, 1).actions
    assert Recomputed(chain, "none").how.actions == keep_all(4).actions
    assert Recomputed(chain, 3).how.actions == uniform(4, 3).actions


def test_sabotage_a_word_that_keeps_every_other_input_is_seen(monkeypatch):
    right = kept_by("full")
    monkeypatch.setattr(recompute_model, "uniform", lambda layers, k: uniform(layers, k + 1))
    chain = nn.Sequential(*(nn.Linear(4, 4) for _ in range(4)))
    assert Recomputed(chain, "full").how.actions != uniform(4, 1).actions
    assert kept_by("full") > right


@pytest.mark.parametrize("how", [*WAYS, revolve(4, 1)], ids=str)
def test_one_object_runs_again_and_twice_before_a_backward_pass(how):
    """The second time: another step, and two passes whose graphs live together."""
    model, plain = (GPT(spec(), dtype=torch.float64) for _ in range(2))
    run = Recomputed(model, how)
    tokens = [torch.arange(i, i + B * S).reshape(B, S) % 40 for i in range(3)]
    for step in range(2):
        found = []
        for forward in (run, plain):
            first, second = (next_token_loss(forward(t), t) for t in tokens[step : step + 2])
            first.backward()
            second.backward()
            found.append((first + second).detach())
        assert torch.equal(*found)
    assert worst(relative_errors(gradients(model), gradients(plain)))[1] == 0


@pytest.mark.parametrize("preserve", [True, False])
def test_a_piece_draws_the_same_random_numbers_again_unless_told_otherwise(preserve):
    def drop(x):
        return nn.functional.dropout(x, 0.5) * x

    x = torch.ones(200, requires_grad=True)
    torch.manual_seed(3)
    y = checkpoint(drop, x, preserve_rng=preserve)
    before = torch.get_rng_state()
    y.sum().backward()
    assert torch.equal(x.grad, 2 * y.detach()) == preserve
    assert torch.equal(before, torch.get_rng_state()) == preserve
