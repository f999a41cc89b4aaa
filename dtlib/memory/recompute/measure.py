"""What the layers of a real chain keep and compute, by the meter: the input of every plan."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from dtlib.formulas.require import require_type
from dtlib.memory.meter import Meter
from dtlib.memory.recompute.run import enter
from dtlib.memory.recompute.simulation import Chain, LayerCost


def measure_chain(layers: Sequence[Callable], x: torch.Tensor, *arguments: Any) -> Chain:
    """Run each layer once, forward and backward, and write down what it keeps and computes.

    A layer's tape may hold its input and its output, which its neighbours may hold too; the rest
    is its interior. Its work is counted as matrix products, and is 0 where it has none. Nothing
    is left changed: gradients are not stored, and random numbers are as before.
    Arguments: as of `recompute_chain`; under ``torch.device("meta")`` nothing is computed either.
    Returns a Chain. Raises what the layers raise.

    >>> chain = measure_chain([torch.nn.Linear(4, 8), torch.nn.Tanh()], torch.ones(2, 4))
    >>> for layer in chain.layers:
    ...     print(layer.state_bytes, layer.interior_bytes, layer.flops, layer.keeps_output)
    32 0 128 False
    64 0 0 True
    """
    require_type("measure_chain", Iterable, layers=layers)
    require_type("measure_chain", torch.Tensor, x=x)
    costs, state = [], x.detach()
    besides = [t for t in arguments if isinstance(t, torch.Tensor)]
    with torch.random.fork_rng(enabled=state.device.type != "meta"), torch.enable_grad():
        for layer in layers:
            own = [layer] if isinstance(layer, nn.Module) else []
            with Meter(*own, *besides) as meter:
                cost, state = _one(layer, state, arguments, meter)
            costs.append(cost)
    return Chain(tuple(costs), _size(state))


def _one(layer, state, arguments, meter):
    inside = enter(state, True)
    with FlopCounterMode(display=False) as counter:
        out = layer(inside, *arguments)
    keeps = [meter.holds(tensor) for tensor in (state, out)]
    result, size = out.detach(), _size(state)
    kept = meter.kept_bytes
    interior = kept - size * keeps[0] - _size(out) * keeps[1]
    parameters = layer.parameters() if isinstance(layer, nn.Module) else ()
    wanted = [inside, *(p for p in parameters if p.requires_grad)]
    del inside
    torch.autograd.grad(out, wanted, torch.zeros_like(out), allow_unused=True)
    workspace = meter.peak_bytes - kept
    flops = counter.get_total_flops()
    return LayerCost(size, interior, flops, *keeps, workspace), result


def _size(tensor) -> int:
    return tensor.untyped_storage().nbytes()
