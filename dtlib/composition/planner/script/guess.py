"""The layout that a script's process groups and wrappers speak for, and why.

What divides the data is known from its wrapper: DDP and FSDP say which ranks share a model. The
other groups of a step divide the model, or what it computes; their names are the axes of the
script's DeviceMesh, and tensor parallelism where it gives none.
"""

from math import prod

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule
from torch.nn.parallel import DistributedDataParallel

from dtlib.composition.planner.script.watch import Watch
from dtlib.layout import Layout

_AXES = {"tp": ("tp", "tensor", "model", "mp"), "cp": ("cp", "context", "sp"), "ep": ("ep", "exp")}


def guess_layout(watch: Watch, ranks: int) -> tuple[Layout, str]:
    """The layout of the step that was watched, with the reason in words."""
    shards, copies, reasons = _data_groups(watch)
    data = {rank for group in (*shards, *copies) for rank in group}
    known = {*shards, *copies, tuple(sorted(data))}
    names = _names(watch)
    axes = {"tp": 1, "cp": 1, "ep": 1, "pp": 1}
    gathers = False
    for group in dict.fromkeys(each.ranks for each in watch.collectives):
        if group in known or len(group) == 1 or len(group) == ranks:
            continue
        operations = {each.operation for each in watch.collectives if each.ranks == group}
        axis = _axis(names.get(group, ""), operations)
        axes[axis] = max(axes[axis], len(group))
        gathers = gathers or (axis == "tp" and "reduce_scatter" in operations)
        said = f"mesh axis {names[group]!r}" if group in names else "a group"
        reasons.append(f"{said} of {len(group)} ranks {' and '.join(sorted(operations))}")
    dp = max(len(group) for group in shards or [(0,)]) * max(len(g) for g in copies or [(0,)])
    dp = max(dp // axes["cp"], 1)
    left = ranks // (dp * prod(size for name, size in axes.items() if name != "ep"))
    if not (shards or copies) and left > 1:
        reasons.append(f"no wrapper and no collective of the other {left} ranks is known")
    layout = Layout(
        **axes | {"ep": axes["ep"] if (dp * axes["cp"]) % axes["ep"] == 0 else 1},
        dp=dp,
        zero=_zero(watch, shards),
        micro_batch=watch.batch[0] if watch.batch else 1,
        sequence_parallel=gathers,
        recompute="full" if watch.again else "none",
        flash=all(kind.fused for kind, _ in watch.shapes.found().attention),
    )
    return layout, "; ".join(reasons) or "nothing is sent"


def _data_groups(watch: Watch) -> tuple[set, set, list[str]]:
    """Groups among which weights are divided, and groups of replicas, with reasons."""
    shards, copies, reasons = set(), set(), []
    for module in (part for whole in watch.modules for part in whole.modules()):
        if isinstance(module, DistributedDataParallel):
            copies.add(_ranks(module.process_group))
        elif isinstance(module, FSDPModule):
            group = module._get_fsdp_state()._fsdp_param_group
            if group is not None:
                shards.add(_ranks(group._all_gather_process_group))
                if group._is_hsdp:
                    copies.add(_ranks(group._all_reduce_process_group))
    if shards:
        reasons.append(f"FSDP divides the weights among {max(map(len, shards))} ranks")
    if copies:
        reasons.append(f"gradients of {max(map(len, copies))} replicas are added")
    if not shards and not copies:
        copies = _adds_gradients(watch)
        reasons += [f"{len(group)} ranks add what all parameters need" for group in copies]
    return shards, copies, reasons


def _adds_gradients(watch: Watch) -> set:
    """Groups that reduce as many elements as there are parameters, without a wrapper."""
    needed = sum(prod(param.local_shape) for param in watch.params())
    reduced: dict[tuple, int] = {}
    for each in watch.collectives:
        if each.operation in ("all_reduce", "reduce_scatter") and each.phase != "forward":
            width = getattr(torch, each.dtype).itemsize
            reduced[each.ranks] = reduced.get(each.ranks, 0) + each.bytes // width
    return {group for group, elements in reduced.items() if 0 < needed <= elements}


def _zero(watch: Watch, shards: set) -> int:
    if not shards:
        return int("ZeroRedundancyOptimizer" in watch.optimizers)
    again = any(
        each.operation == "all_gather" and each.phase == "backward" and each.ranks in shards
        for each in watch.collectives
    )
    return 3 if again else 2


def _axis(name: str, operations: set[str]) -> str:
    if operations & {"send", "receive"} or name in ("pp", "pipe", "pipeline"):
        return "pp"
    for axis, words in _AXES.items():
        if any(word in name for word in words):
            return axis
    return "ep" if operations == {"all_to_all"} else "tp"


def _names(watch: Watch) -> dict[tuple, str]:
    """The names of mesh axes by the ranks of this rank's group along them."""
    named = {}
    for mesh in watch.meshes:
        for name in mesh.mesh_dim_names or ():
            named[_ranks(mesh.get_group(name))] = name
    return named


def _ranks(group: dist.ProcessGroup) -> tuple[int, ...]:
    return tuple(dist.get_process_group_ranks(group))
