"""A machine that only remembers shapes: tensors without data where a script means a GPU's.

`FakeMachine` stands below every operation. What has no values that matter (weights, activations,
gradients) is a fake tensor of torch, which has shape and type; what a program reads and decides
by (whole numbers, single numbers, what was loaded) is real. `CudaCalls` stands above them and
leads what is said about "cuda" to this machine, whose tensors are torch's CPU tensors.
"""

import re
from contextlib import contextmanager

import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode, unset_fake_temporarily
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from dtlib.composition.planner.script.kernels import IN_32_BITS, in_32_bits

aten = torch.ops.aten
_COUNTING = {"arange", "linspace", "logspace", "full", "scalar_tensor", "eye", "lift_fresh"}
_MOST_COUNTED = 2**22
_PLAIN = {torch.Tensor, nn.Parameter, FakeTensor}
_CUDA = re.compile(r"cuda(:\d+)?")


class FakeMachine(TorchDispatchMode):
    """Carries out every operation on shapes where one of its tensors is fake, and shows it.

    `watch` is asked first by `watch.collective(func, args, kwargs, run)` for operations of
    process groups, and told of the others by `watch.operation(func, args, kwargs, result)`.
    """

    def __init__(self, watch):
        super().__init__()
        self.fake = FakeTensorMode(allow_non_fake_inputs=True)
        self.watch, self.quiet = watch, False

    @contextmanager
    def unwatched(self):
        """Operations in which DTensor only asks for a shape are not the step's."""
        before, self.quiet = self.quiet, True
        try:
            yield
        finally:
            self.quiet = before

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if not _PLAIN.issuperset(types):
            return NotImplemented  # a DTensor and its like fall apart into local tensors first
        if self.quiet:
            return func(*args, **kwargs)
        if func.namespace in ("c10d", "_c10d_functional", "_dtensor"):
            return self.watch.collective(func, args, kwargs, self.run)
        result = self.run(func, args, kwargs)
        self.watch.operation(func, args, kwargs, result)
        return result

    def run(self, func, args, kwargs):
        """The operation on shapes, or on values where all of its tensors have some."""
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if not any(isinstance(tensor, FakeTensor) for tensor in tensors):
            return self._made_of_values(func, args, kwargs, tensors)
        if func in (aten._local_scalar_dense.default, aten.item.default):
            return _some_value(args[0].dtype)
        result = func(*args, **kwargs)
        written = kwargs.get("out", args[0] if args and _is_in_place(func) else None)
        real = isinstance(written, torch.Tensor) and not isinstance(written, FakeTensor)
        return written if real else result

    def _made_of_values(self, func, args, kwargs, tensors):
        leaves_meta = any(tensor.is_meta for tensor in tensors) and kwargs.get("device")
        if not tensors or (leaves_meta and leaves_meta != torch.device("meta")):
            made = func(*args, **kwargs)
            if not isinstance(made, torch.Tensor) or not _has_values(func, made):
                return made
        with unset_fake_temporarily():
            return func(*args, **kwargs)

    def to_gpu(self, tensor: torch.Tensor) -> torch.Tensor:
        """The tensor as the machine holds it: without values, unless a program may ask for them."""
        keeps = isinstance(tensor, FakeTensor) or type(tensor) not in _PLAIN
        if keeps or tensor.ndim == 0 or not tensor.is_floating_point():
            return tensor
        return self.without_values(tensor)

    def without_values(self, tensor: torch.Tensor) -> torch.Tensor:
        """A fake tensor like this one; a parameter of a fake tensor for a parameter."""
        made = self.fake.from_tensor(tensor.detach())
        if isinstance(tensor, nn.Parameter):
            return nn.Parameter(made, requires_grad=tensor.requires_grad)
        return made.requires_grad_(tensor.requires_grad)


def _has_values(func, made: torch.Tensor) -> bool:
    if made.device.type == "meta":
        return True  # as torch has it: a shape that says so
    counts = func.overloadpacket.__name__ in _COUNTING and made.numel() <= _MOST_COUNTED
    return counts or made.ndim == 0 or not made.is_floating_point()


def _some_value(dtype: torch.dtype):
    if dtype == torch.bool:
        return False
    return 1.0 if dtype.is_floating_point else 1


def _is_in_place(func) -> bool:
    name = func.overloadpacket.__name__
    return name.endswith("_") and not name.endswith("__")


class CudaCalls(TorchFunctionMode):
    """Leads what a script says about "cuda" to the machine, and answers what only values can."""

    def __init__(self, machine: FakeMachine):
        super().__init__()
        self.machine = machine

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "pin_memory" or name == "record_stream":
            return args[0]
        if name in ("isfinite", "isnan", "isinf") and isinstance(args[0], FakeTensor):
            return torch.full(args[0].shape, name == "isfinite")
        if name in ("numpy", "tolist", "__array__") and isinstance(args[0], FakeTensor):
            with unset_fake_temporarily():
                return func(torch.ones(args[0].shape, dtype=args[0].dtype), *args[1:], **kwargs)
        moved = name == "to" and len(args) > 1 and type(args[1]) is int
        if moved or (name == "cuda" and isinstance(args[0], torch.Tensor)):
            return self.machine.to_gpu(args[0])
        if func is torch.device:
            return func("cuda", *args) if type(args[0]) is int else func(*args, **kwargs)
        here = tree_map(on_this_machine, (args, _device_of_index(kwargs)))
        if name in IN_32_BITS and torch.is_autocast_enabled("cpu"):
            here = tree_map(in_32_bits, here)
        result = func(*here[0], **here[1])
        asked = func is not torch.Tensor.device.__get__ and _names_cuda(args, kwargs)
        return self.machine.to_gpu(result) if asked and isinstance(result, torch.Tensor) else result


def on_this_machine(what):
    """The device that stands for a GPU, where one is named; anything else as it is."""
    if isinstance(what, torch.device) and what.type == "cuda":
        return torch.device("cpu")
    if isinstance(what, str) and _CUDA.fullmatch(what):
        return "cpu"
    return what


def _device_of_index(kwargs: dict) -> dict:
    """A device that is named by its number alone is a GPU."""
    return kwargs | {"device": "cpu"} if type(kwargs.get("device")) is int else kwargs


def _names_cuda(args, kwargs) -> bool:
    named = [*args, *kwargs.values()]
    return any(on_this_machine(what) is not what for what in named)
