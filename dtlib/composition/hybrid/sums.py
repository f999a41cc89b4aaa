"""The gradients that are still to be added once a backward pass is over.

What ranks of tp have of a gradient is added inside the layers (chapter 15), and a weight of two
stages by the pipeline (chapter 16). What is left are the axes whose ranks did the same work on
other tokens, and of these the ones that `reduction_axes` names: all of them for a weight that all
ranks have, and for an expert only the axis of its replicas.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import torch.distributed as dist
from torch import nn

from dtlib.composition.hybrid.places import TOKEN_AXES, Places
from dtlib.composition.reduction import reduction_axes
from dtlib.mesh import Shard
from dtlib.parallelism.data.flat import Flat, by_kind
from dtlib.parallelism.expert.layer import parameters_by_kind
from dtlib.parallelism.pipeline.schedule import PipelineSchedule


def replicas_of(stages: Mapping[int, nn.Module], places: Places) -> dict[nn.Parameter, object]:
    """For each trained parameter of a rank's stages, the group over which its gradient is added."""
    found = {}
    for stage in stages.values():
        for parameter, of_expert in parameters_by_kind(stage):
            if parameter.requires_grad:
                lies = {"ep": Shard(0)} if of_expert else {}
                found[parameter] = places.sums[reduction_axes(lies, TOKEN_AXES)]
    return found


def added_late(schedule: PipelineSchedule, stages: Mapping[int, nn.Module]) -> set[nn.Parameter]:
    """The parameters whose shares the pipeline adds when all its backward passes are over.

    They lie on several ranks of pp: tied to another stage, or of a stage with two copies. Nothing
    may take their gradients before.
    """
    found = set()
    for number, stage in stages.items():
        ranks = [rank for rank in range(schedule.p) if number in schedule.stages_of(rank)]
        found.update(stage.parameters() if len(ranks) > 1 else map(stage.get_parameter, stage.tied))
    return found


@contextmanager
def added_once(replicas: Mapping[nn.Parameter, object], late: set) -> Iterator[None]:
    """What a block collects in the gradients is added over their groups when it ends.

    What earlier blocks have left there is a sum already, and is put aside meanwhile. A parameter
    without a gradient counts as one whose gradient is zero: another rank's tokens may have reached
    it. One message for each group and kind of number, and one more for those that are `late`: ranks
    of pp share them and must get the same bits, but a sum over many ranks has other bits where its
    message is cut elsewhere.
    """
    earlier = {parameter: parameter.grad for parameter in replicas}
    for parameter in replicas:
        parameter.grad = None
    yield
    for group, parameters, _ in by_group(replicas, late):
        for alike in by_kind(parameters):
            flat = Flat(alike)
            total = flat.lay_out(flat.gradients())
            dist.all_reduce(total, group=group)
            for parameter, gradient in zip(alike, flat.cut(total), strict=True):
                before = earlier[parameter]
                parameter.grad = gradient if before is None else before + gradient


def by_group(replicas: Mapping[nn.Parameter, object], late: set) -> Iterable[tuple]:
    """A group, its parameters, and whether they are `late`; groups in the order of their first."""
    found: dict[tuple, tuple[object, list, bool]] = {}
    for parameter, group in replicas.items():
        waits = parameter in late
        found.setdefault((id(group), waits), (group, [], waits))[1].append(parameter)
    return found.values()
