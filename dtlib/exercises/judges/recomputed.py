"""Judge of a pipeline stage that keeps its inputs only and computes the rest again."""

import copy
from typing import Any

from dtlib.exercises.judge import call
from dtlib.exercises.later import torch
from dtlib.exercises.verdict import NotYet


class Stage:
    """A stage that keeps its inputs, and makes ``times`` forward passes on the way back."""

    def __init__(self, module, taped=False, times=1):
        self.module, self.taped, self.times, self.inputs = module, taped, times, {}

    def forward(self, i, x):
        self.inputs[i] = x.detach()
        with torch.set_grad_enabled(self.taped):
            return self.module(self.inputs[i])

    def backward(self, i, dy):
        x = self.inputs.pop(i).requires_grad_()
        for _ in range(self.times):
            y = self.module(x)
        y.backward(dy)
        return x.grad


def stage_law(answer: Any) -> None:
    """Raise `NotYet` unless a stage takes three micro-batches forward and back as `Stage` does."""
    for seed, leaves in ((0, True), (1, True), (2, False)):
        torch.manual_seed(seed)
        nn = torch.nn
        module = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6)).double()
        _three_micro_batches(answer, module, leaves)


def _three_micro_batches(answer: Any, module: Any, leaves: bool) -> None:
    plain, passes = copy.deepcopy(module), []
    module.register_forward_pre_hook(lambda *_: passes.append(None))
    stage = call(answer, module)
    for name in ("forward", "backward"):
        if not callable(getattr(stage, name, None)):
            raise NotYet(f"the stage has no method {name}")
    inputs, gradients = torch.randn(2, 3, 4, 6).double()
    inputs = [x.clone().requires_grad_(leaves) for x in inputs]
    for i, x in enumerate(inputs):
        _no_graph(call(stage.forward, i, x.clone()))
    if len(passes) != 3:
        raise NotYet(f"three calls of forward made {len(passes)} forward passes")
    for i, (x, dy) in enumerate(zip(inputs, gradients, strict=True)):
        dx = call(stage.backward, i, dy)
        _one_pass(len(passes) - 3 - i)
        right = x.detach().clone().requires_grad_()
        plain(right).backward(dy)
        if not _close(dx, right.grad):
            raise NotYet(f"micro-batch {i}: the gradient of the input is wrong")
    for (name, found), wanted in zip(module.named_parameters(), plain.parameters(), strict=True):
        if not _close(found.grad, wanted.grad):
            raise NotYet(f"{name}: its gradient is not the sum over the micro-batches")


def _no_graph(y: Any) -> None:
    if not isinstance(y, torch.Tensor):
        raise NotYet(f"forward must return a tensor, got {type(y).__name__}")
    if y.grad_fn is not None:
        raise NotYet("the output of forward still hangs on a graph, which keeps what it needs")


def _one_pass(made: int) -> None:
    if made == 0:
        raise NotYet("backward computes nothing again, so forward has kept more than its input")
    if made > 1:
        raise NotYet(f"backward makes {made} forward passes; one is enough")


def _close(given: Any, right: Any) -> bool:
    same = isinstance(given, torch.Tensor) and given.shape == right.shape
    return same and torch.allclose(given, right, rtol=1e-12, atol=1e-14)
