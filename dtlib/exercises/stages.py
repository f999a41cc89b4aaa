"""The judge of a pipeline stage that keeps its inputs only and computes the rest again."""

from typing import Any

from dtlib.exercises.judge import call
from dtlib.exercises.verdict import NotYet


def judged_stage(answer: Any, needs_input_gradient: bool) -> None:
    """Take three micro-batches through the reader's stage as 1F1B would, and watch what it does.

    Raises NotYet for a graph that outlives the forward pass, for a pass too many, and for an input
    gradient or a weight gradient that differs from that of an ordinary stage.
    """
    import copy

    import torch
    from torch import nn

    counted = _counted(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6)).double())
    plain = copy.deepcopy(counted)
    stage = call(answer, counted)
    for name in ("forward", "backward"):
        if not callable(getattr(stage, name, None)):
            raise NotYet(f"the stage has no method {name}")
    counted.passes = 0
    inputs = [torch.randn(4, 6, dtype=torch.float64) for _ in range(3)]
    if needs_input_gradient:
        inputs = [x.requires_grad_() for x in inputs]
    gradients = [torch.randn(4, 6, dtype=torch.float64) for _ in range(3)]
    outputs = [call(stage.forward, i, x.clone()) for i, x in enumerate(inputs)]
    for y in outputs:
        if not isinstance(y, torch.Tensor):
            raise NotYet(f"forward must return a tensor, got {type(y).__name__}")
        if y.grad_fn is not None:
            raise NotYet("the output of forward still hangs on a graph, which keeps what it needs")
    if counted.passes != 3:
        raise NotYet(f"three calls of forward made {counted.passes} forward passes")
    for i, (x, dy) in enumerate(zip(inputs, gradients, strict=True)):
        before = counted.passes
        dx = call(stage.backward, i, dy)
        made = counted.passes - before
        if made == 0:
            raise NotYet("backward computes nothing again, so forward has kept more than its input")
        if made > 1:
            raise NotYet(f"backward makes {made} forward passes; one is enough")
        right = x.detach().clone().requires_grad_()
        plain(right).backward(dy)
        if not isinstance(dx, torch.Tensor) or dx.shape != x.shape:
            raise NotYet("backward must return the gradient of the input")
        if not torch.allclose(dx, right.grad, rtol=1e-12, atol=1e-14):
            raise NotYet(f"micro-batch {i}: the gradient of the input is wrong")
    for (name, found), (_, wanted) in zip(
        counted.named_parameters(), plain.named_parameters(), strict=True
    ):
        if found.grad is None:
            raise NotYet(f"{name} has no gradient")
        if not torch.allclose(found.grad, wanted.grad, rtol=1e-12, atol=1e-14):
            raise NotYet(f"{name}: its gradient is not the sum over the micro-batches")


def _counted(module):
    """The module, which counts its forward passes."""
    module.passes = 0

    def count(*_):
        module.passes += 1

    module.register_forward_pre_hook(count)
    return module
