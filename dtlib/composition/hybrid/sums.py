"""The gradients that are still to be added once a backward pass is over.

What ranks of tp have of a gradient is added inside the layers (chapter 15), and a weight of two
stages by the pipeline (chapter 16). What is left are the axes whose ranks did the same work on
other tokens, and of these the ones that `reduction_axes` names: all of them for a weight that all
ranks have, and for an expert only the axis of its replicas.
"""

from collections.abc import Iterable, Mapping

import torch.distributed as dist
from torch import nn

from dtlib.composition.hybrid.places import TOKEN_AXES, Places
from dtlib.composition.reduction import reduction_axes
from dtlib.mesh import Shard
from dtlib.parallelism.data.flat import Flat, by_kind
from dtlib.parallelism.expert.layer import parameters_by_kind


def replicas_of(stages: Mapping[int, nn.Module], places: Places) -> dict[nn.Parameter, object]:
    """For each trained parameter of a rank's stages, the group over which its gradient is added."""
    found = {}
    for stage in stages.values():
        for parameter, of_expert in parameters_by_kind(stage):
            if parameter.requires_grad:
                lies = {"ep": Shard(0)} if of_expert else {}
                found[parameter] = places.sums[reduction_axes(lies, TOKEN_AXES)]
    return found


def add_gradients(replicas: Mapping[nn.Parameter, object]) -> None:
    """Add every gradient over its group, in one message for each group and kind of number.

    A parameter without a gradient counts as one whose gradient is zero: another rank's tokens may
    have reached it.
    """
    for group, parameters in by_group(replicas):
        for alike in by_kind(parameters):
            flat = Flat(alike)
            total = flat.lay_out(flat.gradients())
            dist.all_reduce(total, group=group)
            for parameter, gradient in zip(alike, flat.cut(total), strict=True):
                parameter.grad = gradient


def by_group(replicas: Mapping[nn.Parameter, object]) -> Iterable[tuple[object, list]]:
    """The parameters of each group, groups in the order in which they first come."""
    groups: dict[int, tuple[object, list]] = {}
    for parameter, group in replicas.items():
        groups.setdefault(id(group), (group, []))[1].append(parameter)
    return groups.values()
