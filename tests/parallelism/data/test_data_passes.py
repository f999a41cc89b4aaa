"""What users do between two steps: passes that fail, meet, recompute or are added up; parameters
that are frozen, unfrozen, cast or replaced; copies and files. One process is the reference.

The functions that run on the ranks import the rest of what they need themselves.
"""

from dataclasses import dataclass
from itertools import pairwise

import pytest
import torch
from torch import nn

from dtlib.runtime import RanksError, launch


@pytest.fixture(scope="module")
def ranks():
    with launch(3, timeout=60) as ranks:
        yield ranks


def layers(widths=(3, 5, 5, 2)):
    """The same few layers in every process, in 64 bits."""
    drawn = torch.Generator().manual_seed(4)
    made = nn.Sequential(*(nn.Linear(a, b) for a, b in pairwise(widths)))
    with torch.no_grad():
        for parameter in made.double().parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=drawn))
    return made


def share(rank, step=0, width=3):
    """What a rank works on."""
    drawn = torch.Generator().manual_seed(100 * step + rank)
    return torch.randn(4, width, generator=drawn, dtype=torch.float64)


def error(model, reference):
    """The largest difference of two gradients; where one has none it counts as zero."""
    pairs = zip(model.parameters(), reference.parameters(), strict=True)
    zero = torch.zeros((), dtype=torch.float64)
    return max(
        ((zero if a.grad is None else a.grad) - (zero if b.grad is None else b.grad))
        .abs().max().item()
        for a, b in pairs
    )  # fmt: skip


def forget_what_is_under_way(self):
    """As if no all-reduce were under way."""
    self._pass = None
    for bucket in self.buckets:
        bucket.work = None


def after_a_failure(set_to_none, places, spoilt=False):
    """A backward pass that fails, on each rank at a layer of its own; the error of the next."""
    import time
    from contextlib import nullcontext
    from unittest import mock

    import torch.distributed as dist

    from dtlib.parallelism import DataParallel

    def fail(module, args, out):
        out.register_hook(lambda gradient: 1 // 0)

    rank, P = dist.get_rank(), dist.get_world_size()
    store = dist.distributed_c10d._get_default_store()
    reference, model = layers(), layers()
    wrapped = DataParallel(model, dist.group.WORLD, bucket_bytes=1, first_bucket_bytes=1)
    wrapped(share(rank)).sum().backward()  # gradients live in the buckets now
    wrapped.zero_grad(set_to_none)
    handle = model[places[rank]].register_forward_hook(fail)
    x = share(rank, step=1).requires_grad_()
    if spoilt:
        x.register_hook(lambda gradient: store.set("filled", "again"))
    if spoilt and not rank:
        store.wait(["filled"])  # the others have gone on
    elif not rank:
        time.sleep(0.3)
    with pytest.raises(ZeroDivisionError):
        wrapped(share(rank)).square().sum().backward()
    handle.remove()
    wrapped.zero_grad(set_to_none)
    spoil = mock.patch.object(DataParallel, "_settle", forget_what_is_under_way)
    with spoil if spoilt else nullcontext():
        wrapped(x).square().mean().backward()
    for r in range(P):
        (reference(share(r, step=1)).square().mean() / P).backward()
    return error(model, reference)


@pytest.mark.parametrize("places", [(0, 0, 0), (0, 1, 0), (1, 0, 1)])
@pytest.mark.parametrize("set_to_none", [True, False])
def test_a_backward_pass_that_failed_leaves_nothing_behind(ranks, places, set_to_none):
    assert max(ranks.run(after_a_failure, set_to_none, places)) <= 1e-12


def test_sabotage_a_bucket_that_is_filled_again_while_it_travels_is_wrong(ranks):
    assert max(ranks.run(after_a_failure, True, (0, 0, 0), spoilt=True)) > 1e-3


def after_a_restored_gradient():
    """What had been collected before a pass failed is put back, and added to: the error."""
    import torch.distributed as dist

    from dtlib.parallelism import DataParallel

    def fail(module, args, out):
        out.register_hook(lambda gradient: 1 // 0)

    rank, P = dist.get_rank(), dist.get_world_size()
    reference, model = layers(), layers()
    wrapped = DataParallel(model, dist.group.WORLD, bucket_bytes=1, first_bucket_bytes=1)
    with wrapped.no_sync():
        wrapped(share(rank)).sin().sum().backward()
    kept = [parameter.grad.clone() for parameter in model.parameters()]
    handle = model[0].register_forward_hook(fail)
    with pytest.raises(ZeroDivisionError):
        wrapped(share(rank)).sin().sum().backward()
    handle.remove()
    for parameter, gradient in zip(model.parameters(), kept, strict=True):
        parameter.grad = gradient
    wrapped(share(rank, step=1)).sin().sum().backward()
    for r in range(P):
        for step in range(2):
            (reference(share(r, step)).sin().sum() / P).backward()
    return error(model, reference)


def test_gradients_that_are_put_back_after_a_failure_count(ranks):
    assert max(ranks.run(after_a_restored_gradient)) <= 1e-12


def one_rank_failed(order):
    """Rank 1's backward pass fails; the gradients that the others are left with."""
    import torch.distributed as dist

    from dtlib.parallelism import DataParallel

    def fail(module, args, out):
        out.register_hook(lambda gradient: 1 // 0)

    rank, model = dist.get_rank(), layers()
    wrapped = DataParallel(
        model, dist.group.WORLD, bucket_bytes=1, first_bucket_bytes=1, order=order
    )
    if rank == 1:
        model[0].register_forward_hook(fail)
        with pytest.raises(ZeroDivisionError):
            wrapped(share(rank)).sum().backward()
        model[0]._forward_hooks.clear()
    else:
        wrapped(share(rank)).sum().backward()
    found = [bool(p.grad is not None and p.grad.isnan().all()) for p in model.parameters()]
    wrapped.zero_grad()
    wrapped(share(rank)).sum().backward()
    return found, all(p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("order", ["reverse", "observed"])
def test_a_gradient_that_lacks_a_rank_is_nan(ranks, order):
    first, failed, last = ranks.run(one_rank_failed, order)
    assert first == last == ([True, True, False, False, False, False], True)
    assert not any(failed[0]) and failed[1]


class Scaled(nn.Module):
    """Its graph keeps a buffer; one that `grows` writes to it in its first forward pass."""

    def __init__(self, grows=False):
        super().__init__()
        self.inner, self.grows = layers((3, 3)), grows
        self.register_buffer("scale", torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64))

    def forward(self, x):
        if self.grows:
            self.scale += 1
            self.grows = False
        return self.inner(x) * self.scale


def two_forwards(kind, plainly=False):
    """The loss of two batches of a rank, one backward pass: its error against one process."""
    from contextlib import nullcontext
    from unittest import mock

    import torch.distributed as dist

    from dtlib.parallelism import DataParallel
    from dtlib.parallelism.data.alike import Buffers, broadcast_coalesced

    def hand_out(self):
        broadcast_coalesced(self.module.buffers(), self.group)

    rank, P = dist.get_rank(), dist.get_world_size()
    make = {
        "scaled": Scaled,
        "grows": lambda: Scaled(grows=True),
        "batch norm": lambda: nn.Sequential(layers((3, 3)), nn.BatchNorm1d(3).double()),
    }[kind]
    model, reference = make(), make()
    with mock.patch.object(Buffers, "hand_out", hand_out) if plainly else nullcontext():
        wrapped = DataParallel(model, dist.group.WORLD)
        (wrapped(share(rank)) * wrapped(share(rank, step=1))).sum().backward()
    for r in range(P):
        ((reference(share(r)) * reference(share(r, step=1))).sum() / P).backward()
    return error(model, reference)


@pytest.mark.parametrize("kind", ["scaled", "batch norm"])
def test_two_forward_passes_may_come_before_one_backward_pass(ranks, kind):
    assert max(ranks.run(two_forwards, kind)) <= 1e-12


@pytest.mark.parametrize("kind", ["scaled", "batch norm"])
def test_sabotage_a_buffer_that_counts_as_written_to_is_refused_by_autograd(ranks, kind):
    with pytest.raises(RanksError, match="modified by an inplace operation"):
        ranks.run(two_forwards, kind, plainly=True)


def test_a_graph_whose_buffer_was_really_written_to_is_refused(ranks):
    with pytest.raises(RanksError, match="modified by an inplace operation"):
        ranks.run(two_forwards, "grows")


class Recomputed(nn.Module):
    """Blocks in checkpointed pieces; `tied` uses the first one's weight after all of them, too."""

    def __init__(self, path, reentrant, tied=False):
        super().__init__()
        self.blocks, self.path = layers((3, 3, 3)), path
        self.reentrant, self.tied, self.result = reentrant, tied, lambda x: x

    def forward(self, x):
        from torch.utils.checkpoint import checkpoint

        for i in self.path:
            if self.reentrant is None:
                x = self.blocks[i](x).tanh()
            else:
                x = checkpoint(
                    lambda x, i: self.blocks[i](x).tanh(), x, i, use_reentrant=self.reentrant
                )
        x = x @ self.blocks[0].weight.T if self.tied else x
        return self.result(x)


@dataclass
class Result:
    """As some libraries return it."""

    tensors: dict
    note: str = "nothing to differentiate"


RESULTS = {
    "tensor": (lambda x: x, lambda out: out),
    "tuple": (lambda x: (0, [x]), lambda out: out[1][0]),
    "dataclass": (lambda x: Result({"out": x}), lambda out: out.tensors["out"]),
}


def recomputed(path, reentrant, tied=False, spoil=None, result="tensor", **options):
    from contextlib import nullcontext
    from unittest import mock

    import torch.distributed as dist

    from dtlib.parallelism import DataParallel

    rank, P = dist.get_rank(), dist.get_world_size()
    reference, model = Recomputed(path, None, tied), Recomputed(path, reentrant, tied)
    model.result, unpack = RESULTS[result]
    with mock.patch.object(DataParallel, *spoil) if spoil else nullcontext():
        wrapped = DataParallel(
            model, dist.group.WORLD, bucket_bytes=1, first_bucket_bytes=1, **options
        )
        for step in range(2):
            wrapped.zero_grad()
            unpack(wrapped(share(rank, step).requires_grad_())).sin().sum().backward()
    for r in range(P):
        loss = reference(share(r, step=1)).sin().sum()
        (loss / P if options.get("average", True) else loss).backward()
    return error(model, reference)


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("path", [[0, 1], [0, 1, 0, 0]])
def test_recomputed_pieces_are_reduced_together(ranks, path, reentrant, average):
    for order in ("reverse", "observed"):
        found = ranks.run(recomputed, path, reentrant, average=average, order=order)
        assert max(found) <= 1e-12


@pytest.mark.parametrize("result", RESULTS)
def test_a_pass_begins_wherever_the_module_puts_its_tensors(ranks, result):
    assert max(ranks.run(recomputed, [0, 1, 0], True, average=False, result=result)) <= 1e-12


def around(reentrant):
    """The wrapper itself in a recomputed piece: the error of its gradients."""
    import torch.distributed as dist
    from torch.utils.checkpoint import checkpoint

    from dtlib.parallelism import DataParallel

    rank, P = dist.get_rank(), dist.get_world_size()
    reference, model = Scaled(), Scaled()
    wrapped = DataParallel(model, dist.group.WORLD)
    for _ in range(2):
        wrapped.zero_grad()
        x = share(rank).requires_grad_()
        checkpoint(wrapped, x, use_reentrant=reentrant).sin().sum().backward()
    for r in range(P):
        (reference(share(r)).sin().sum() / P).backward()
    return error(model, reference)


@pytest.mark.parametrize("reentrant", [True, False])
def test_the_wrapper_may_be_recomputed_as_a_whole(ranks, reentrant):
    assert max(ranks.run(around, reentrant)) <= 1e-12


def end_with_each_piece(self, gradient):
    """Nobody sees where a pass begins."""


def ready_at_once(self, parameter):
    """A first contribution to a gradient passes for the last one."""
    if not self._running:
        self._begin()
    self._pass.ready[parameter] = None
    for missing in self._pass.missing.values():
        missing.discard(parameter)
    self._pass.launch_complete()


def test_sabotage_pieces_that_are_reduced_one_by_one_are_wrong(ranks):
    for spoil in (("_on_output", end_with_each_piece), ("_on_ready", ready_at_once)):
        found = ranks.run(recomputed, [0, 1, 0], True, average=False, spoil=spoil)
        assert max(found) > 1e-3, spoil


def test_a_gradient_that_grows_after_it_was_sent_is_an_error_or_waits(ranks):
    with pytest.raises(RanksError, match=r"ranks 0-2 failed: (.|\n)*'blocks.0.weight' got more of"):
        ranks.run(recomputed, [0, 0], True, tied=True, order="observed")
    for reentrant, overlap in ((True, False), (False, True)):
        found = ranks.run(
            recomputed, [0, 0], reentrant, tied=True, order="observed", overlap=overlap
        )
        assert max(found) <= 1e-12


def changed(change, spoilt=False):
    """One step; a change to what is trained; the error of the next, and who has a gradient."""
    from contextlib import nullcontext
    from unittest import mock

    import torch.distributed as dist

    from dtlib.parallelism import DataParallel

    def only_first(self, follow=DataParallel._follow):
        return None if self._kinds else follow(self)

    def apply(model):
        if change == "unfrozen":
            model[1].weight.requires_grad_()
        elif change == "frozen":
            model[0].requires_grad_(False)
        elif change == "replaced":
            model[2] = layers((5, 4))[0]
            if model is not reference:  # rank 0's are the ones that count
                model[2].weight.data += rank
        elif change == "loaded":
            model.load_state_dict(layers().state_dict(), assign=True)
        elif change == "cast":
            model.float().double()

    rank, P = dist.get_rank(), dist.get_world_size()
    reference, model = layers(), layers()
    reference[1].weight.requires_grad_(False)
    model[1].weight.requires_grad_(False)
    with mock.patch.object(DataParallel, "_follow", only_first) if spoilt else nullcontext():
        wrapped = DataParallel(model, dist.group.WORLD)
        wrapped(share(rank)).sum().backward()
        for net in (model, reference):
            net.zero_grad()
            apply(net)
        wrapped(share(rank, step=1)).square().mean().backward()
    for r in range(P):
        (reference(share(r, step=1)).square().mean() / P).backward()
    trained = [p.grad is not None for p in model.parameters()]
    return error(model, reference), trained == [p.grad is not None for p in reference.parameters()]


CHANGES = ["unfrozen", "frozen", "replaced", "loaded", "cast"]


@pytest.mark.parametrize("change", CHANGES)
def test_what_the_module_trains_may_change_between_two_steps(ranks, change):
    for found, same in ranks.run(changed, change):
        assert found <= 1e-12 and same


@pytest.mark.parametrize("change", CHANGES[:4])
def test_sabotage_buckets_that_stay_are_noticed(ranks, change):
    assert any(found > 1e-3 or not same for found, same in ranks.run(changed, change, spoilt=True))


def thawed(keeps_hook):
    """A layer that is frozen for one step, and trained before and after it: who has a gradient."""
    from contextlib import nullcontext
    from unittest import mock

    import torch.distributed as dist
    from torch.utils.hooks import RemovableHandle

    from dtlib.parallelism import DataParallel

    model, found = layers(), []
    wrapped = DataParallel(model, dist.group.WORLD, bucket_bytes=1, first_bucket_bytes=1)
    stays = mock.patch.object(RemovableHandle, "remove", lambda handle: None)
    with stays if keeps_hook else nullcontext():
        for trains in (True, False, True):
            model[2].requires_grad_(trains)
            wrapped.zero_grad()
            wrapped(share(0)).sum().backward()
            found.append([parameter.grad is not None for parameter in model.parameters()])
    return found


def test_a_layer_may_be_frozen_for_a_while(ranks):
    every, first = [True] * 6, [True] * 4 + [False] * 2
    assert ranks.run(thawed, False) == [[every, first, every]] * 3


def test_sabotage_a_hook_that_stays_is_called_twice(ranks):
    with pytest.raises(RanksError, match=r"'2.(bias|weight)' got more of its gradient"):
        ranks.run(thawed, True)


def order_after_one_sum(way):
    """What is observed in a first step: the buckets' parameters, by name."""
    from contextlib import nullcontext

    import torch.distributed as dist

    from dtlib.parallelism import DataParallel

    model = Recomputed([1, 0], None)
    size = {"bucket_bytes": 1, "first_bucket_bytes": 1}
    wrapped = DataParallel(model, dist.group.WORLD, order="observed", **size)
    for i in range(2):
        with wrapped.synced_once() if i < way else nullcontext():
            wrapped(share(0)).sum().backward()
    names = {parameter: name for name, parameter in model.named_parameters()}
    return [names[p].split(".")[1] for bucket in wrapped.buckets for p in bucket.parameters]


def test_an_order_is_learned_in_the_first_pass_that_shows_one(ranks):
    assert ranks.run(order_after_one_sum, 0) == [["0", "0", "1", "1"]] * 3
    assert ranks.run(order_after_one_sum, 1) == [["0", "0", "1", "1"]] * 3
    assert ranks.run(order_after_one_sum, 2) == [["1", "1", "0", "0"]] * 3


def in_one_sum(way, average):
    """Three backward passes: the error of their sum, and what was sent for them."""
    from contextlib import ExitStack

    import torch.distributed as dist

    from dtlib.parallelism import DataParallel, counted

    rank, P = dist.get_rank(), dist.get_world_size()
    reference, model = layers(), layers()
    size = {"bucket_bytes": 100, "first_bucket_bytes": 100}
    wrapped = DataParallel(model, dist.group.WORLD, average=average, **size)
    several = {
        "once": [wrapped.synced_once()],
        "within": [wrapped.synced_once(), wrapped.no_sync(), wrapped.synced_once()],
        "each": [],
    }
    with counted(dist.group.WORLD) as log, ExitStack() as stack:
        for context in several[way]:
            stack.enter_context(context)
        for step in range(3):
            wrapped(share(rank, step)).sin().sum().backward()
    for r in range(P):
        for step in range(3):
            loss = reference(share(r, step)).sin().sum()
            (loss / P if average else loss).backward()
    return error(model, reference), log.calls, len(wrapped.buckets)


@pytest.mark.parametrize("average", [True, False])
def test_passes_that_are_synced_once_are_reduced_once(ranks, average):
    for way in ("once", "within"):
        for found, calls, buckets in ranks.run(in_one_sum, way, average):
            assert found <= 1e-12
            assert calls == {"all_reduce": buckets} and buckets > 2


def test_sabotage_each_sum_that_is_sent_by_itself_counts_the_ones_before_again(ranks):
    for found, calls, buckets in ranks.run(in_one_sum, "each", False):
        assert found > 1e-3
        assert calls == {"all_reduce": 3 * buckets}


def gradient_penalty():
    """The square of an input gradient is part of the loss: its error, and what was sent."""
    import torch.distributed as dist

    from dtlib.parallelism import DataParallel, counted

    def loss(net, x):
        x = x.requires_grad_()
        out = net(x).sin()
        (dx,) = torch.autograd.grad(out.sum(), x, create_graph=True)
        return out.mean() + dx.square().mean()

    rank, P = dist.get_rank(), dist.get_world_size()
    reference, model = layers(), layers()
    wrapped = DataParallel(model, dist.group.WORLD)
    with counted(dist.group.WORLD) as log:
        value = loss(wrapped, share(rank))
    before = log.calls
    value.backward()
    for r in range(P):
        (loss(reference, share(r)) / P).backward()
    return error(model, reference), before


def test_a_gradient_that_goes_round_the_parameters_sends_nothing(ranks):
    for found, sent in ranks.run(gradient_penalty):
        assert found <= 1e-12 and sent == {}


def own_buffers(broadcast):
    """This rank's buffer after wrapping, and after a forward pass."""
    import torch.distributed as dist

    from dtlib.parallelism import DataParallel

    model = Scaled()
    model.scale.fill_(dist.get_rank())
    wrapped = DataParallel(model, dist.group.WORLD, broadcast_buffers=broadcast)
    found = [model.scale[0].item()]
    model.scale += 10 + dist.get_rank()
    wrapped(share(0))
    return [*found, model.scale[0].item()]


def test_buffers_are_rank_0s_or_each_ranks_own(ranks):
    assert ranks.run(own_buffers, True) == [[0, 10]] * 3
    assert ranks.run(own_buffers, False) == [[0, 10], [1, 12], [2, 14]]


def refused(what):
    import copy
    import io

    import torch.distributed as dist

    from dtlib.parallelism import DataParallel, average_each, average_flat, token_mean_loss

    rank, world, model = dist.get_rank(), dist.group.WORLD, layers()
    if what == "other shapes":
        DataParallel(layers((3, 2 + rank // 2)), world)
    if what == "frozen on one rank":
        model[1].bias.requires_grad_(rank != 1)
        DataParallel(model, world)
    if what == "all frozen on one rank":
        DataParallel(model.requires_grad_(rank != 1), world)
    if what in ("not a member", "no mean", "no flat mean", "no tokens"):
        group = dist.new_group([0, 1])
        if rank == 2:
            model(share(rank)).sum().backward()
            {
                "not a member": lambda: DataParallel(model, group),
                "no mean": lambda: average_each(model, group),
                "no flat mean": lambda: average_flat(model, group),
                "no tokens": lambda: token_mean_loss(share(0).sum(), 3, group),
            }[what]()
    if what == "sparse":
        table = DataParallel(nn.Embedding(4, 2, sparse=True), world)
        table(torch.tensor([1, 2])).sum().backward()
    wrapped = DataParallel(model, world)
    if what == "create_graph":
        wrapped(share(rank)).square().sum().backward(create_graph=True)
    if what == "attribute":
        wrapped[0].weight  # noqa: B018
    if what == "hidden":
        wrapped.in_features  # noqa: B018
    if what == "inside":
        DataParallel(model[0], world).weight  # noqa: B018
    if what == "copy":
        copy.deepcopy(wrapped)
    if what == "file":
        torch.save(wrapped, io.BytesIO())


REFUSED = {
    "other shapes": r"rank 2 of the group trains other parameters than rank 0: 0.weight \(3, 3\)",
    "frozen on one rank": r"rank 1 of the group (.|\n)*: 2.weight \(2, 5\) torch.float64, where ra",
    "all frozen on one rank": r"ranks 0-2 failed: (.|\n)*rank 1 of the group(.|\n)*: none, where",
    "not a member": "this process does not belong to it",
    "no mean": "this process does not belong to it",
    "no flat mean": "this process does not belong to it",
    "no tokens": "this process does not belong to it",
    "sparse": r"a gradient of shape \(4, 2\) is sparse(.|\n)*sparse=False",
    "create_graph": "graph of its own(.|\n)*torch.autograd.grad",
    "attribute": "not subscriptable",
    "hidden": "'DataParallel' object has no attribute 'in_features'",
    "inside": "DataParallel has no 'weight', but the module inside has: .module.weight",
    "copy": "copy the module inside, and wrap the copy",
    "file": r"save its state_dict\(\)",
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_work_says_what_can(ranks, what):
    with pytest.raises(RanksError, match=REFUSED[what]):
        ranks.run(refused, what)


def in_two_dtypes():
    """Layers of 32 and of 64 bits in turn, whose results are added: bytes of each bucket, error."""
    import torch.distributed as dist

    from dtlib.parallelism import DataParallel

    def made():
        model = layers((3, 3, 3, 3))
        model[1].float()
        return model

    def loss(model, x):
        return sum(layer(x.to(layer.weight.dtype)).double().sin().mean() for layer in model[:])

    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = made()

        def forward(self, x):
            return loss(self.inner, x)

    rank, P = dist.get_rank(), dist.get_world_size()
    reference, model = made(), Loss()
    wrapped = DataParallel(model, dist.group.WORLD, order="observed")
    wrapped(share(rank)).backward()
    for r in range(P):
        (loss(reference, share(r)) / P).backward()
    kept = [p.grad.dtype == p.dtype for p in model.parameters()]
    return error(model, reference), all(kept), [bucket.bytes for bucket in wrapped.buckets]


def test_a_bucket_has_one_dtype(ranks):
    for found, kept, sizes in ranks.run(in_two_dtypes):
        assert found <= 1e-7 and kept
        assert sizes == [96, 48, 96]


def saved():
    """The names in a state, and whether a plain module takes the one inside."""
    import torch.distributed as dist

    from dtlib.parallelism import DataParallel

    wrapped = DataParallel(layers(), dist.group.WORLD)
    layers().load_state_dict(wrapped.module.state_dict())
    return list(wrapped.state_dict())[:2], hasattr(wrapped, "weight"), hasattr(wrapped, "module")


def test_names_begin_with_module_as_torchs_do(ranks):
    assert ranks.run(saved) == [(["module.0.weight", "module.0.bias"], False, True)] * 3
