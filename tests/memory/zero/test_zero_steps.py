"""One step of a ZeRO stage as a list of actions: what it says, real ranks do."""

import contextlib

import pytest

from dtlib.memory import ZeroStep, model_state_bytes, zero_sent_bytes
from dtlib.runtime import launch

UNITS, WIDTH = 3, 8


@pytest.fixture(scope="module", params=[2, 4])
def ranks(request):
    with launch(request.param, timeout=60) as ranks:
        yield ranks


@pytest.mark.parametrize("P", [1, 2, 4, 64])
@pytest.mark.parametrize("m", [1, 2, 5])
@pytest.mark.parametrize("zero", range(4))
def test_a_step_ends_with_the_bytes_of_the_formulas(zero, m, P):
    for units in ([64.0] * 3, [128.0, 64.0, 256.0]):
        step = ZeroStep(zero, P, units, m)
        assert step.held == model_state_bytes(sum(units), zero, P)
        assert step.sent == pytest.approx(zero_sent_bytes(sum(units), zero, P, m, 2), rel=1e-14)


@pytest.mark.parametrize("m", [2, 3])
def test_stage_3_peaks_at_one_whole_unit_of_weights_and_one_of_gradients(m):
    units = [64.0, 128.0, 64.0]
    step = ZeroStep(3, 4, units, m)
    assert step.peak_bytes == model_state_bytes(sum(units), 3, 4) + 4 * max(units)
    ahead = ZeroStep(3, 4, [64.0] * 3, m, prefetch=1)
    assert ahead.peak_bytes == model_state_bytes(3 * 64, 3, 4) + 6 * 64
    assert ahead.sent == ZeroStep(3, 4, [64.0] * 3, m).sent


def real_step(zero, micro_batches, prefetch):
    """On a rank: what it does in a second step, with the bytes it holds, and what it sent."""
    from functools import partial

    import torch
    import torch.distributed as dist
    from torch import nn

    from dtlib.memory import FullySharded, ShardedOptimizer
    from dtlib.parallelism import counted

    layers = nn.ModuleList(nn.Linear(8, 8, bias=False) for _ in range(3))
    chain, group, log = nn.Sequential(*layers), dist.group.WORLD, []
    plain = list(chain.parameters())
    if zero == 3:
        trained = FullySharded(chain, group, units=layers, prefetch=prefetch)
        optimizer = torch.optim.AdamW(trained.parameters())
        flats, inner = trained._flats(), optimizer
    else:
        trained = chain
        optimizer = ShardedOptimizer(
            plain, torch.optim.AdamW, group, zero=zero, bucket_bytes=8 * 8 * 4
        )
        flats, inner = optimizer.flats, optimizer.optimizer

    def held():
        moments = [t for s in inner.state.values() for t in s.values() if t.dim()]
        tensors = [f.whole for f in flats] + [f.own for f in flats] + moments
        trains = [*plain, *trained.parameters(), *(f.own for f in flats)]
        tensors += [p.grad for p in trains if p.grad is not None]
        kept = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
        return sum(kept.values())

    def before(u, *call):
        log.append((f"forward {u}", held()))

    place = {parameter: u for u, parameter in enumerate(plain)}
    number = {flat: place[flat.parameters[0]] for flat in flats}
    with noted(lambda name, flat: log.append((f"{name} {number[flat]}", held()))):
        for u, layer in enumerate(layers):
            layer.register_forward_pre_hook(partial(before, u))
        x = torch.randn(4, 8)
        for _ in range(2):
            log.clear()
            optimizer.zero_grad()
            with counted(group) as sent:
                for _ in range(micro_batches):
                    trained(x).square().mean().backward()
                log.append(("update", held()))
                optimizer.step()
    return log, sent.total_bytes


@contextlib.contextmanager
def noted(note):
    """Tell of every flat tensor that is gathered or reduced, before it is."""
    from dtlib.memory.zero.parts import PartedFlat

    def telling(name, method):
        def call(self, *args):
            note(name, self)
            return method(self, *args)

        return call

    methods = {"gather": PartedFlat.gather, "reduce": PartedFlat.reduce}
    for name, method in methods.items():
        setattr(PartedFlat, name, telling(name, method))
    try:
        yield
    finally:
        for name, method in methods.items():
            setattr(PartedFlat, name, method)


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize(("zero", "prefetch"), [(1, 0), (2, 0), (3, 0), (3, 1)])
def test_real_ranks_do_the_actions_in_this_order_and_hold_these_bytes(ranks, zero, prefetch, m):
    step = ZeroStep(zero, ranks.n, [64] * 3, m, prefetch, element_bytes=4, optimizer_bytes=8)
    expected = {}
    for i, moment in enumerate(step.moments[1:], 1):
        name = str(moment.action)
        # a reduction begins with what the backward pass has left; a forward pass changes nothing
        at = step.moments[i - 1].held if moment.action.kind in ("reduce", "update") else moment.held
        expected.setdefault(name, []).append(at)
    wanted = [str(a) for a in step.actions if a.kind in ("gather", "forward", "reduce", "update")]
    if zero == 1:  # the library reduces within `step`
        wanted.remove("update")
        wanted.insert(wanted.index("reduce 2"), "update")
    for log, sent in ranks.run(real_step, zero, m, prefetch):
        assert [name for name, _ in log] == wanted
        assert sent == step.sent
        for name in {name for name, _ in log if not name.startswith(("gather", "update"))}:
            found = [bytes for other, bytes in log if other == name]
            assert found == expected[name], name


def test_sabotage_a_step_that_forgets_its_release_is_noticed():
    step = ZeroStep(3, 4, [64.0] * 3)
    kept = [a for a in step.actions if a.kind != "release"]
    step.__dict__["actions"] = tuple(kept)
    assert step.held > model_state_bytes(3 * 64, 3, 4)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"zero": 4}, "zero = 4; allowed are 0, 1, 2 and 3"),
        ({"P": 0}, "P is 0, but must be a whole number"),
        ({"units": []}, "units is \\[\\], but must be at least one"),
        ({"micro_batches": 0}, "micro_batches is 0"),
        ({"prefetch": -1}, "prefetch is -1"),
        ({"zero": True}, "zero = True"),
        ({"P": 1.5}, "P is 1.5"),
        ({"units": [-4]}, "a unit is -4"),
        ({"element_bytes": -2}, "element_bytes is -2"),
    ],
)
def test_a_step_that_cannot_be_is_refused(change, said):
    with pytest.raises(ValueError, match=said):
        ZeroStep(**{"zero": 1, "P": 2, "units": [1.0]} | change)
