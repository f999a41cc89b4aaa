"""Answers of the labs with ranks, computed."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from dtlib.collectives import execute, ring_all_reduce
from dtlib.exercises import NotYet
from dtlib.exercises.judges.tensors import normal
from dtlib.exercises.labs import all_reduce
from dtlib.exercises.labs import ddp_from_hooks as ddp
from dtlib.exercises.labs import moe_all_to_all as moe
from dtlib.exercises.labs import tensor_parallel_block as tp
from dtlib.exercises.labs import zero_by_hand as zero
from dtlib.exercises.labs.moe_all_to_all import programs as layer
from dtlib.exercises.labs.ring_attention import programs as ring
from dtlib.exercises.labs.ring_attention.laws import zigzag_law
from dtlib.exercises.labs.zero_by_hand import trainers
from dtlib.exercises.worlds import Deadlock, record, record_replicas, record_team
from dtlib.models import GPT, gradients, next_token_loss, relative_errors, worst
from dtlib.parallelism.sequence import layouts


def test_three_mlps_with_a_wrong_g_multiply_the_first_ones_gradient_by_p_cubed():
    torch.manual_seed(0)
    weights = [torch.randn(6, 6, dtype=torch.float64) for _ in range(6)]

    def program(comm, g):
        mine = []
        x = torch.ones(2, 6, dtype=torch.float64)
        for up, down in zip(weights[::2], weights[1::2], strict=True):
            up, down = up.chunk(2, 0)[comm.rank], down.chunk(2, 1)[comm.rank]
            mine.append(up.clone().requires_grad_())
            x = x.requires_grad_() if x.is_leaf else x
            x = g(comm, torch.tanh(tp.f(comm, x) @ mine[-1].T) @ down.T)
        x.sum().backward()
        return [w.grad for w in mine]

    right, wrong = record_team(program, 2, tp.g)[0], record_team(program, 2, tp.both)[0]
    for k, (a, b) in enumerate(zip(right, wrong, strict=True)):
        torch.testing.assert_close(b, 2.0 ** (3 - k) * a)


def test_the_hasty_ring_of_the_page_deadlocks_backwards():
    table = torch.arange(8).reshape(2, 4)

    def program(comm, qkv):
        ring.thrifty(comm, *qkv.requires_grad_().unbind(), table, keep=False).sum().backward()

    with pytest.raises(Deadlock):
        record(program, [torch.randn(3, 4, 2) for _ in range(2)])


def test_the_librarys_zigzag_is_balanced_and_its_contiguous_is_not():
    zigzag_law(layouts.zigzag)
    with pytest.raises(NotYet):
        zigzag_law(layouts.contiguous)


def test_a_recorded_ring_sends_what_the_librarys_schedule_says():
    schedule = ring_all_reduce(5)
    inputs = [torch.arange(10.0, dtype=torch.float64) + r for r in range(5)]
    trace = record(all_reduce.all_reduce.right(), inputs)
    assert trace.sent_bytes() == schedule.sent_bytes(80)
    assert trace.rounds == len(schedule)
    own = record(lambda comm, x: execute(schedule, x, transport=comm), inputs)
    assert [m[:3] for m in own.messages] == [m[:3] for m in trace.messages]


def test_a_whole_gpt_with_a_tied_head_passes_through_the_wrapper():
    """The lab's own model, by the lab's own wrapper: the gradients of the whole batch."""
    spec = replace(ddp.SPEC, hidden=16, vocab=32, ffn=None, head_dim=None, tied=True)
    tokens = torch.randint(32, (4, 9), generator=torch.Generator().manual_seed(0))

    def program(comm):
        model = GPT(spec, dtype=torch.float64)
        wrapped = ddp.robust.right()(model, comm, 4000)
        mine = tokens[comm.rank :: comm.size]
        next_token_loss(model(mine[:, :-1]), mine[:, 1:]).backward()
        wrapped.finish()
        return gradients(model)

    model = GPT(spec, dtype=torch.float64)
    next_token_loss(model(tokens[:, :-1]), tokens[:, 1:]).backward()
    for found in record_replicas(program, 4).results:
        assert worst(relative_errors(found, gradients(model)))[1] < 1e-12
    assert len(list(GPT(ddp.SPEC).parameters())) == ddp.predict.right()["naive_calls"]


@pytest.mark.parametrize("kind", ["Recomputing", "Emptying"])
def test_other_ways_to_forget_a_whole_weight_pass(kind):
    zero.stage3.judge(partial(zero.sharded, kind=kind))


def test_other_trainers_of_zero_pass():
    zero.stage1.judge(trainers.InReverse)
    zero.stage2.judge(trainers.LookingAtGradients)
    zero.clip.judge(trainers.clip_by_gathering_squares)
    zero.flat.judge((trainers.lay_out, trainers.cut_one_by_one))


def test_what_a_step_holds_and_sends_is_that_of_the_model_of_the_lab():
    assert sum(p.numel() for p in GPT(zero.SPEC).parameters()) == zero.SPEC.params()


def _spoiled(comm, x, dy, w, mistake):
    """What a rank of the layer finds with one of the mistakes that no loss shows."""
    P, r = comm.size, comm.rank
    mine = {n: (p if "router" in n else p.chunk(P)[r]).clone() for n, p in w.items()}
    leaf = x.chunk(P)[r].clone()
    for tensor in (leaf, *mine.values()):
        tensor.requires_grad_()
    options = {"detach": mistake == "input detached"}
    if mistake == "gate detached":
        options["combine"] = partial(layer.combine, gates="detached")
    out = layer.moe(comm, leaf, mine, 2, **options)
    (out * dy.chunk(P)[r]).sum().backward()
    router, *experts = (torch.zeros_like(p) if p.grad is None else p.grad for p in mine.values())
    if mistake != "router kept":
        router = comm.all_reduce(router)
    if mistake == "experts summed":
        experts = [comm.all_reduce(g) for g in experts]
    experts = torch.cat([g.flatten() for g in experts])
    return {"out": out.detach(), "dX": leaf.grad, "router": router, "experts": experts}


def test_what_the_blind_mistakes_do_is_computed():
    """The table that the exercise asks for: outputs are exact, and these gradients are not."""
    shapes = {"router.weight": (4, 6), "experts.up": (4, 5, 6), "experts.down": (4, 6, 5)}
    w = {name: normal(*shape, seed=i) for i, (name, shape) in enumerate(shapes.items())}
    x, dy = normal(2, 8, 6, seed=9)
    right = record_team(_spoiled, 2, x, dy, w, None)
    for mistake, expected in moe.blind.right().items():
        wrong = {
            name
            for found, good in zip(record_team(_spoiled, 2, x, dy, w, mistake), right, strict=True)
            for name in good
            if not torch.allclose(found[name], good[name], rtol=1e-10)
        }
        assert wrong == expected, mistake


def test_other_layers_and_routers_pass():
    moe.route.judge(layer.route_in_one_step)
    moe.sort_copies.judge((layer.sort_copies, torch.argsort))
    moe.dispatch.judge(layer.dispatch_with_counts_of_32_bits)
    moe.balance.judge(layer.balance_with_smaller_steps)
