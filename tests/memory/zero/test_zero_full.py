"""Stage 3: weights come before they are used and go afterwards, of any module, and come back
exactly; and what cannot work says so."""

import pytest

from dtlib.memory import sharded_sent_bytes
from dtlib.runtime import RanksError, launch


@pytest.fixture(scope="module")
def pair():
    with launch(2, timeout=60) as ranks:
        yield ranks


@pytest.fixture(scope="module")
def four():
    with launch(4, timeout=60) as ranks:
        yield ranks


def gathered_units(prefetch, reshard=True, layers=5):
    """The most units that are whole at once, and the names of those that are after each phase."""
    import torch
    import torch.distributed as dist
    from torch import nn

    from dtlib.memory import FullySharded

    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(layers))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x).tanh()
                if x.requires_grad:
                    x.register_hook(lambda gradient: most.append(len(whole())))
            return x

    def whole():
        """Units with memory for their weights, gathered or on their way."""
        return [
            u.name
            for u in sharded.units
            if any(f.whole.untyped_storage().nbytes() for f in u.flats)
        ]

    most, after = [], {}
    sharded = FullySharded(Stack(), dist.group.WORLD, prefetch=prefetch, reshard=reshard)
    after["wrapped"] = whole()
    for layer in sharded.module.layers:
        layer.register_forward_pre_hook(lambda *call: most.append(len(whole())))
    for _ in range(2):
        y = sharded(torch.randn(3, 4, requires_grad=True))
        after["forward"] = whole()
        y.sum().backward()
        after["backward"] = whole()
    with torch.no_grad():
        sharded(torch.randn(3, 4))
    after["inference"] = whole()
    gradients = [p.grad for p in sharded.module.parameters() if p.grad is not None]
    return max(most), after, len(gradients), [p.numel() for p in sharded.module.parameters()]


@pytest.mark.parametrize("prefetch", [0, 1, 2])
def test_only_the_units_that_are_needed_are_whole(pair, prefetch):
    for most, after, whole_gradients, sizes in pair.run(gathered_units, prefetch):
        assert most == 1 + prefetch
        assert not any(after.values()), after
        assert whole_gradients == 0
        assert set(sizes) == {0}


def test_kept_weights_stay_until_their_backward_pass(pair):
    for most, after, _, _ in pair.run(gathered_units, 0, reshard=False):
        assert most == 5
        assert len(after.pop("forward")) == 5
        assert not any(after.values())


def order_of_calls(prefetch):
    """What a rank does in a step, in order, after a first step has shown the order."""
    import torch
    import torch.distributed as dist
    from torch import nn

    from dtlib.memory import FullySharded
    from dtlib.memory.zero.parts import PartedFlat

    model = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)])
    model.forward = lambda x: model[2](model[1](model[0](x)))
    sharded = FullySharded(model, dist.group.WORLD, prefetch=prefetch)
    for i, layer in enumerate(model):
        layer.register_forward_pre_hook(lambda *_, i=i: events.append(f"forward {i}"))
    names = {flat: unit.name for unit in sharded.units for flat in unit.flats}
    kept = PartedFlat.gather, PartedFlat.reduce
    events = []

    def gather(flat):
        events.append(f"gather {names[flat]}")
        return kept[0](flat)

    def reduce(flat, *how):
        events.append(f"reduce {names[flat]}")
        return kept[1](flat, *how)

    PartedFlat.gather, PartedFlat.reduce = gather, reduce
    try:
        for _ in range(2):
            events.clear()
            sharded(torch.randn(2, 3)).sum().backward()
    finally:
        PartedFlat.gather, PartedFlat.reduce = kept
    return events


def test_with_prefetch_the_next_gather_starts_before_this_units_work(pair):
    assert pair.run(order_of_calls, 0)[0] == [
        *("gather 0", "forward 0", "gather 1", "forward 1", "gather 2", "forward 2"),
        *("gather 2", "reduce 2", "gather 1", "reduce 1", "gather 0", "reduce 0"),
    ]
    assert pair.run(order_of_calls, 1)[0] == [
        *("gather 0", "gather 1", "forward 0", "gather 2", "forward 1", "forward 2"),
        *("gather 2", "gather 1", "reduce 2", "gather 0", "reduce 1", "reduce 0"),
    ]


def restored(dtype):
    """Weights and buffers before, inside, after; in full precision though computed in another."""
    import torch
    import torch.distributed as dist
    from torch import nn

    from dtlib.memory import FullySharded

    def module(seed):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(3, 7), nn.BatchNorm1d(7), nn.Linear(7, 5, bias=False))

    rank = dist.get_rank()
    before = module(0).state_dict()
    wrapped = module(rank)  # those of rank 0 become everyone's
    sharded = FullySharded(wrapped, dist.group.WORLD, units=[wrapped[0]], dtype=dtype)
    state = sharded.state_dict()
    same = state.keys() == before.keys() and all(v.equal(before[k]) for k, v in state.items())
    with sharded.gathered() as whole:
        seen = {name: p.float().clone() for name, p in whole.named_parameters()}
    rounded = all(seen[k].equal(before[k].to(dtype or torch.float32).float()) for k in seen)
    with sharded.gathered(write=True):
        pass
    same &= all(v.equal(before[k]) for k, v in sharded.state_dict().items())
    with sharded.gathered(write=True) as whole:
        for parameter in whole.parameters():
            parameter.data.fill_(2.0)
    written = all(v.eq(2).all() for k, v in sharded.state_dict().items() if k in seen)
    other = module(5).state_dict()
    sharded.load_state_dict(other)
    loaded = all(v.equal(other[k]) for k, v in sharded.state_dict().items())
    return same, rounded, bool(written), loaded


@pytest.mark.parametrize("dtype", [None, "bfloat16"])
def test_parameters_come_back_exactly(four, dtype):
    import torch

    for found in four.run(restored, dtype and getattr(torch, dtype)):
        assert found == (True, True, True, True)


def any_module(kind, prefetch=1):
    """The largest error of loss, input gradient and every gradient against the plain module."""
    import copy

    import any_modules
    import torch
    import torch.distributed as dist

    from dtlib.memory import FullySharded
    from dtlib.models import gradients, relative_errors, worst

    made, units = any_modules.made(kind)
    plain = copy.deepcopy(made)
    rank, P = dist.get_rank(), dist.get_world_size()
    sharded = FullySharded(made, dist.group.WORLD, units=units, prefetch=prefetch)
    errors = []
    for step in range(3):
        generator = torch.Generator().manual_seed(step)
        x = torch.randn(2 * P, 6, dtype=torch.float64, generator=generator, requires_grad=True)
        mine = x.detach()[2 * rank : 2 * rank + 2].requires_grad_()
        for module, data in ((plain, x), (sharded, mine)):
            module.zero_grad()
            module(data).sin().mean().backward()  # of squares, a norm makes a constant
        errors.append(
            worst(relative_errors({"dX": mine.grad / P}, {"dX": x.grad[2 * rank : 2 * rank + 2]}))
        )
        whole, reference = sharded.gradients(), gradients(plain)
        for name in set(whole) - set(reference):  # without a gradient, which counts as zero
            assert not whole.pop(name).any()
        errors.append(worst(relative_errors(whole, reference)))
    return max(error for _, error in errors)


@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("kind", ["twice", "nested", "recomputed", "encoder", "one linear"])
def test_any_module_has_the_gradients_of_the_plain_one(pair, kind, prefetch):
    assert max(pair.run(any_module, kind, prefetch)) <= 1e-12


def two_passes_before_one_backward(reshard):
    """The largest error of a gradient when a loss has two forward passes, and a third one none."""
    import copy

    import torch
    import torch.distributed as dist
    from torch import nn

    from dtlib.memory import FullySharded

    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3)).double()
    made, x = copy.deepcopy(plain), torch.randn(4, 5, dtype=torch.float64)
    sharded = FullySharded(made, dist.group.WORLD, units=[made[0], made[2]], reshard=reshard)
    rank, P, errors = dist.get_rank(), dist.get_world_size(), []
    for _ in range(2):
        for module, rows in ((plain, x), (sharded, x.chunk(P)[rank])):
            module.zero_grad()
            loss = module(rows).square().mean() + module(2 * rows).square().mean()
            with torch.no_grad():
                module(rows)
            loss.backward()
        found = sharded.gradients()
        for name, p in plain.named_parameters():
            errors.append((found[name] - p.grad).abs().max().item())
    return max(errors)


@pytest.mark.parametrize("reshard", [True, False])
def test_two_forward_passes_may_share_a_backward_pass(pair, reshard):
    assert max(pair.run(two_passes_before_one_backward, reshard)) <= 1e-14


def mixed(reduce_dtype):
    """In 16 bits with a master copy: dtypes seen, bytes, and how close a step comes."""
    import torch
    import torch.distributed as dist
    from zero_job import ADAM, batch, model, own

    from dtlib.memory import FullySharded
    from dtlib.models import next_token_loss
    from dtlib.parallelism import counted

    plain, seen = model(dtype="float32"), set()
    made = model(dtype="float32")
    made.blocks[0].register_forward_hook(lambda m, a, out: seen.add(out.dtype))
    dtypes = {"dtype": torch.bfloat16, "reduce_dtype": reduce_dtype}
    sharded = FullySharded(made, dist.group.WORLD, **dtypes)
    optimizer = torch.optim.AdamW(sharded.parameters(), **ADAM)
    x, y = batch(0)
    with counted(dist.group.WORLD) as log:
        next_token_loss(sharded(own(x)).float(), own(y)).backward()
    next_token_loss(plain(x), y).backward()
    grads = sharded.gradients()
    reference = {name: p.grad for name, p in plain.named_parameters()}
    optimizer.step()
    parts = {part.dtype for part in sharded.parameters()}
    moments = {t.dtype for s in optimizer.state.values() for t in s.values() if t.dim()}
    numbers = sum(flat.whole.numel() for flat in sharded._flats())
    scale = max(g.abs().max() for g in reference.values())
    gap = max((grads[n] - g).abs().max() / scale for n, g in reference.items())
    return seen, parts | moments, log.bytes, numbers, float(gap)


@pytest.mark.parametrize("reduce_bytes", [2, 4])
def test_mixed_precision_computes_and_gathers_in_16_bits_and_updates_in_32(pair, reduce_bytes):
    import torch

    for seen, kept, sent, numbers, gap in pair.run(
        mixed, torch.float32 if reduce_bytes == 4 else None
    ):
        assert (seen, kept) == ({torch.bfloat16}, {torch.float32})
        assert sent["all_gather"] == sharded_sent_bytes(numbers, 2, 0, 2, 2)
        assert sent["reduce_scatter"] == sharded_sent_bytes(numbers, 0, 1, 2, reduce_bytes)
        assert 1e-5 < gap < 0.05


def wrong(how):
    import torch
    import torch.distributed as dist
    from torch import nn

    from dtlib.memory import FullySharded

    group, model = dist.group.WORLD, nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    wrongly_sharded(how, model, group)
    plain = torch.optim.SGD(model.parameters())
    sharded = FullySharded(model, group, units=[model[0]])
    wrongly_used(how, sharded, model, plain)
    wrongly_loaded(how, sharded, model)


def wrongly_sharded(how, model, group):
    from types import SimpleNamespace

    from torch import nn

    from dtlib.memory import FullySharded

    class Answer(SimpleNamespace):
        def __init__(self, value):
            super().__init__(value=value)

    if how == "stranger":
        FullySharded(model, group, units=[nn.Linear(3, 3)])
    if how == "prefetch":
        FullySharded(model, group, prefetch=-1)
    if how == "part of one":
        FullySharded(model, group, prefetch=1.5)
    if how == "name of a dtype":
        FullySharded(model, group, dtype="bf16")
    if how == "not a module":
        FullySharded(3, group)
    if how == "frozen":
        FullySharded(model.requires_grad_(False), group)
    if how == "no group":
        FullySharded(model, None)
    if how == "object":
        model[1].register_forward_hook(lambda module, inputs, output: Answer(output))


def wrongly_used(how, sharded, model, plain):
    import torch

    from dtlib.memory import clip_gradients

    if how == "plain optimizer":
        sharded.optimizer_state_dict(plain)
    if how == "no part":
        clip_gradients([], 1.0, sharded.group)
    if how == "norm":
        clip_gradients(sharded.parameters(), 0, sharded.group)
    if how == "moved":
        sharded.double()
    if how == "object":
        sharded(torch.ones(1, 3))
    if how == "used outside":
        model[0].weight @ torch.randn(3)


def wrongly_loaded(how, sharded, model):
    import torch

    if how == "names":
        sharded.load_state_dict({"0.weight": torch.zeros(3, 3)})
    if how == "shape":
        state = sharded.state_dict()
        wrong = {name: value + 1 for name, value in state.items()} | {"1.bias": torch.zeros(1)}
        try:
            sharded.load_state_dict(wrong)
        finally:  # nothing of it was taken
            now = sharded.state_dict()
            assert all(torch.equal(now[name], value) for name, value in state.items())
    if how == "shape of a buffer":
        model.register_buffer("mean", torch.zeros(3))
        sharded.load_state_dict({**sharded.state_dict(), "mean": torch.zeros(1)})
    if how == "no state":
        sharded.load_state_dict([1, 2])
    if how in ("two groups", "shape of a moment", "no optimizer's state"):
        parts = [{"params": [part]} for part in sharded.parameters()]
        optimizer = torch.optim.Adam(sharded.parameters())
        sharded(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        state = sharded.optimizer_state_dict(optimizer)
        state["state"][1]["exp_avg"] = torch.zeros(2)
        loaded = state["state"] if how == "no optimizer's state" else state
        optimizer = torch.optim.Adam(parts) if how == "two groups" else optimizer
        sharded.load_optimizer_state_dict(optimizer, loaded)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("stranger", "units: a Linear that is not part of the module"),
        ("prefetch", "prefetch is -1"),
        ("frozen", "no parameter requires a gradient"),
        ("no group", "group = None"),
        ("moved", "cannot be moved or cast"),
        ("names", "names that only one of the two has: .*0.bias"),
        ("shape", r"the shape of '1.bias' is torch.Size\(\[1\]\), but must be .*\[3\]"),
        ("shape of a buffer", r"the shape of 'mean' is torch.Size\(\[1\]\)"),
        ("no state", r"state_dict is \[1, 2\], but must be a Mapping"),
        ("two groups", r"groups of \[4\] parameters; here they have \[1, 1, 1, 1\]"),
        ("shape of a moment", r"'exp_avg' has shape \[2\], but must have .* \[3\]"),
        ("no optimizer's state", r"is \[0, 1, 2, 3\], but must be a dict of 'state'"),
        ("object", "unit 'root' returns a Answer, but must return tensors"),
        ("norm", "max_norm is 0"),
        ("no part", r"parts is \[\], but must be at least one parameter"),
        ("part of one", "prefetch is 1.5"),
        ("name of a dtype", "dtype is 'bf16', but must be a floating-point torch.dtype"),
        ("not a module", "module is 3, but must be a Module"),
        ("plain optimizer", "it has 4 parameters that are no parts of the sharded ones"),
        ("used outside", "'0.weight' is not here now.*`with net.gathered"),
    ],
)
def test_what_cannot_work_is_refused(pair, how, said):
    with pytest.raises(RanksError, match=said):
        pair.run(wrong, how)


def recomputed_units(how, late=True):
    """Parameters whose gradient is lost or wrong; units recomputed from without or from within."""
    import torch.distributed as dist
    import zero_job
    from torch import nn
    from torch.utils.checkpoint import checkpoint as torch_checkpoint

    from dtlib.memory import FullySharded, Recomputed, checkpoint, checkpoint_policy
    from dtlib.memory.zero.parts import PartedFlat
    from dtlib.models import next_token_loss

    class Again(nn.Module):
        def __init__(self, block):
            super().__init__()
            self.block = block

        def forward(self, *arguments):
            if how == "inside":
                return checkpoint(self.block, *arguments)
            return torch_checkpoint(self.block, *arguments, use_reentrant=True)

    x, y = zero_job.batch(0)
    plain, model = zero_job.model(), zero_job.model()
    next_token_loss(plain(x), y).backward()
    names, units, run = [name for name, _ in model.named_parameters()], list(model.blocks), model
    if how in ("inside", "reentrant"):
        model.blocks = nn.ModuleList(map(Again, units))
        units = list(model.blocks) if how == "inside" else units
    elif how == "one unit":
        run, units = Recomputed(model, "full"), []
    else:
        run = Recomputed(model, checkpoint_policy("full") if how == "policy" else how)
    sharded = FullySharded(run, dist.group.WORLD, units=units, reshard=how != "policy")
    kept = PartedFlat.has_gradients
    PartedFlat.has_gradients = kept if late else lambda flat: False
    try:
        for _ in range(2):
            sharded.zero_grad()
            next_token_loss(sharded(zero_job.own(x)), zero_job.own(y)).backward()
    finally:
        PartedFlat.has_gradients = kept
    found = dict(zip(names, sharded.gradients().values(), strict=True))
    return [
        name for name, p in plain.named_parameters() if (found[name] - p.grad).abs().max() > 1e-12
    ]


@pytest.mark.parametrize("how", ["selective", "inside", "reentrant", "one unit"])
def test_units_may_be_recomputed_from_within_and_by_torch_from_without(pair, how):
    assert pair.run(recomputed_units, how) == [[], []]


@pytest.mark.parametrize("how", ["full", "none", "policy"])
def test_a_piece_that_holds_units_is_refused(pair, how):
    owner = "checkpoint" if how == "policy" else "recompute_chain"
    with pytest.raises(RanksError, match=f"(?s)unit 'module.blocks.0' runs inside .*{owner}"):
        pair.run(recomputed_units, how)


def test_sabotage_gradients_that_come_from_a_graph_of_their_own_are_lost(pair):
    lost = pair.run(recomputed_units, "reentrant", late=False)[0]
    assert len(lost) == 26
    assert all(name.startswith("blocks.") for name in lost)


def after_a_failed_backward_pass(zero, forget=True):
    """Whether the next step has the gradients that it would have had without the failure."""
    import torch
    import torch.distributed as dist
    from torch import nn

    from dtlib.memory import FullySharded, ShardedOptimizer
    from dtlib.memory.zero.parts import Reductions

    def fail(*_):
        raise KeyError("on the way")

    model, x = nn.Sequential(*(nn.Linear(4, 4) for _ in range(4))), torch.ones(2, 4)
    if zero == 3:
        trained = owner = FullySharded(model, dist.group.WORLD, units=list(model))
        parts = list(owner.parameters())
    else:
        sizes = {"zero": 2, "bucket_bytes": 16, "lr": 0.1}
        owner = ShardedOptimizer(model.parameters(), torch.optim.SGD, dist.group.WORLD, **sizes)
        trained, parts = model, [flat.own for flat in owner.flats]

    def gradients():
        owner.zero_grad()
        trained(x).sum().backward()
        return [part.grad.clone() for part in parts]

    kept, expected = Reductions.forget, gradients()
    hook = model[1].register_full_backward_hook(fail)
    with pytest.raises(KeyError):
        gradients()
    hook.remove()
    Reductions.forget = kept if forget else lambda reductions: None
    try:
        return all(map(torch.equal, gradients(), expected))
    finally:
        Reductions.forget = kept


@pytest.mark.parametrize("zero", [2, 3])
def test_a_backward_pass_that_failed_leaves_nothing_in_the_next(pair, zero):
    assert all(pair.run(after_a_failed_backward_pass, zero))
    assert not any(pair.run(after_a_failed_backward_pass, zero, forget=False))
