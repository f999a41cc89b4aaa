"""What a running script does, noted by phase: operations, collectives, storages, steps.

A step goes from the end of an optimizer's step to the end of its next one. The first step makes
what lasts (the optimizer's moments, DDP's buckets in the order of the gradients), so the second is
the one that is read.
"""

from collections.abc import Callable
from math import prod

import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import _create_work_from_future, _resolve_process_group
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn.modules.module import register_module_forward_pre_hook
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

from dtlib.composition.planner.script.held import Held
from dtlib.composition.planner.script.reading import PHASES, ScriptCollective, ScriptParameter
from dtlib.composition.planner.script.shapes import ShapesSeen

_OPERATIONS = (
    ("reduce_scatter", "reduce_scatter"), ("allreduce", "all_reduce"), ("all_reduce", "all_reduce"),
    ("allgather", "all_gather"), ("all_gather", "all_gather"), ("alltoall", "all_to_all"),
    ("all_to_all", "all_to_all"), ("broadcast", "broadcast"), ("barrier", "barrier"),
    ("scatter", "scatter"), ("gather", "gather"), ("reduce", "reduce"), ("send", "send"),
    ("recv", "receive"),
)  # fmt: skip
_FSDP_CAUSES = {
    "all_gather_copy_in": "gathered weights",
    "split_with_sizes_copy": "gathered weights",
    "chunk_cat": "gradient buckets",
}


class Watch:
    """Notes what happens; `finish` is called after the second step, `reached(words)` on the way."""

    def __init__(self, finish: Callable[["Watch"], None], reached: Callable[[str], None]):
        self.finish, self.reached = finish, reached
        self.held, self.modules, self.meshes, self.batch = Held(), [], [], ()
        self.start: list[ScriptCollective] = []
        self.steps, self.optimizer, self.optimizers, self.cause = 0, None, set(), ""
        self._known, self._reached = set(), ""
        self._before, self._after = True, False
        self._restart()
        register_optimizer_step_pre_hook(self._before_step)
        register_optimizer_step_post_hook(self._after_step)
        register_module_forward_pre_hook(self._before_module)

    @property
    def phase(self) -> str:
        """Where the step is now."""
        if torch._C._current_graph_task_id() != -1:
            if not self.kept:
                self.kept = self.held.sum_of("activations")
            self._after = True
            return self._say("backward")
        if self._after:
            return "step"
        return "start" if self._before else "forward"

    def operation(self, func, args, kwargs, result) -> None:
        """An operation on tensors has been carried out."""
        phase = self.phase
        count = flop_registry.get(func.overloadpacket)
        if count is not None and phase in PHASES:
            self.flops[phase] += int(count(*args, **kwargs, out_val=result))
        if phase == "forward":
            self.shapes.note(func, args, result)
        cause = self.cause or _cause(func, phase)
        self.held.add(result, cause)
        if func.namespace == "fsdp":
            for tensor in tree_leaves((kwargs.get("out"), result)):
                self.held.name(tensor, cause)

    def collective(self, func, args, kwargs, run):
        """An operation of a process group: noted, and answered without any other rank."""
        name = func.overloadpacket.__name__.strip("_")
        operation = next((noun for part, noun in _OPERATIONS if part in name), None)
        result = answer(func, args, kwargs, run)
        if operation is not None:
            sides = [*args[:2], result][: 3 if func.namespace != "c10d" else 2]
            tensors = [_tensors(side) for side in sides]
            size, dtype = max((_size(side), _dtype(side)) for side in tensors)
            ranks = tuple(dist.get_process_group_ranks(_group(args, kwargs)))
            phase = "start" if self.cause else self.phase
            made = ScriptCollective(operation, size, ranks, dtype, phase)
            (self.start if phase == "start" else self.collectives).append(made)
        self.held.add(result, self.cause or _cause(func, self.phase))
        return result

    def params(self) -> list[ScriptParameter]:
        """The parameters of all modules that were called, each once."""
        named = {id(p): (name, p) for m in self.modules for name, p in m.named_parameters()}
        found = []
        for name, weight in named.values():
            local = getattr(weight, "_local_tensor", weight)
            dtype = str(weight.dtype).removeprefix("torch.")
            plain = name.removeprefix("module.")
            found.append(ScriptParameter(plain, tuple(weight.shape), tuple(local.shape), dtype))
        return found

    def _before_module(self, module: nn.Module, inputs) -> None:
        if torch._C._current_graph_task_id() != -1:
            self.again += 1
            return
        self._before = self._after = False
        self._say("forward")
        if module in self._known:
            self.forwards += module is self.modules[0]
            return
        self._known.update(module.modules())
        self.modules.append(module)
        self.forwards += module is self.modules[0]
        tensors = [each for each in inputs if isinstance(each, torch.Tensor)]
        if not self.batch and tensors:
            self.batch = tuple(tensors[0].shape)

    def _before_step(self, optimizer, args, kwargs) -> None:
        self._after = True
        self.optimizers.add(type(optimizer).__name__)
        for group in optimizer.param_groups:
            if group.get("foreach", 0) is None and not group.get("fused"):
                group["foreach"] = True  # torch's own choice on a GPU
            for weight in group["params"]:
                self.held.name(weight.grad, "gradients")

    def _after_step(self, optimizer, args, kwargs) -> None:
        for group in optimizer.param_groups:
            for weight in group["params"]:
                self.held.name(weight, "parameters")
                for state in tree_leaves(dict(optimizer.state.get(weight, {}))):
                    if isinstance(state, torch.Tensor):
                        self.held.name(state, "optimizer state")
        self.optimizer = self.optimizer or optimizer
        if optimizer is not self.optimizer:
            return
        self.steps += 1
        self.reached(f"the end of optimizer step {self.steps}")
        if self.steps == 2:
            self.finish(self)
        self._restart()

    def _restart(self) -> None:
        self.collectives: list[ScriptCollective] = []
        self.flops, self.shapes = dict.fromkeys(PHASES, 0), ShapesSeen()
        self.forwards = self.again = self.kept = 0
        self.held.restart()

    def _say(self, phase: str) -> str:
        if self._reached != (words := f"the {phase} pass of step {self.steps + 1}"):
            self._reached = words
            self.reached(words)
        return phase


def answer(func, args, kwargs, run):
    """What a collective returns when the others' parts are not known: tensors of the right shape.

    Where its tensors have values, torch's fake process group answers.
    """
    if func is torch.ops._c10d_functional.wait_tensor.default:
        return args[0]
    tensors = _tensors((args, kwargs))
    received = func in (torch.ops.c10d.recv_.default, torch.ops.c10d.recv_any_source_.default)
    if received and not all(isinstance(each, FakeTensor) for each in tensors):
        raise NotImplementedError("a message of another rank decides what comes next")
    if func.namespace != "c10d" or not any(isinstance(each, FakeTensor) for each in tensors):
        return run(func, args, kwargs)
    done = torch.futures.Future()
    done.set_result(_tensors(args[0]))
    work = _create_work_from_future(done).boxed()
    kinds = [str(each.type) for each in func._schema.returns]
    results = [work if "Work" in kind else args[0] for kind in kinds]
    return tuple(results) if len(results) > 1 else results[0]


def _cause(func, phase: str) -> str:
    if func.namespace == "fsdp":
        return _FSDP_CAUSES.get(func.overloadpacket.__name__, "gathered weights")
    return {"start": "other", "forward": "activations"}.get(phase, "temporary")


def _tensors(side) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(side) if isinstance(leaf, torch.Tensor)]


def _size(tensors: list[torch.Tensor]) -> int:
    return sum(prod(each.shape) * each.element_size() for each in tensors)


def _dtype(tensors: list[torch.Tensor]) -> str:
    return str(tensors[0].dtype).removeprefix("torch.") if tensors else ""


def _group(args, kwargs) -> dist.ProcessGroup:
    named = ""
    for each in (*args, *kwargs.values()):
        if isinstance(each, torch.ScriptObject) and "ProcessGroup" in str(each._type()):
            return dist.ProcessGroup.unbox(each)
        named = each if isinstance(each, str) else named
    return _resolve_process_group(named)
