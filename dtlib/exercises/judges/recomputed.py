"""Judges of what keeps its inputs only and computes the rest again: a stage, a checkpoint."""

import copy
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from dtlib.exercises.judge import call
from dtlib.exercises.judge import function as signature
from dtlib.exercises.verdict import NotYet
from dtlib.later import torch


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


def again(function, x, *, parameters=True, same_numbers=True, restored=True, times=1, forwards=1):
    """``function(x)``, run again in the backward pass; the keywords make it go wrong."""

    class Again(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, *inputs):
            ctx.inputs, ctx.random_state = inputs, torch.get_rng_state()
            ctx.save_for_backward(x)
            outputs = [function(x) for _ in range(forwards)]
            return outputs[0]

        @staticmethod
        def backward(ctx, gradient):
            x, now = ctx.saved_tensors[0].detach().requires_grad_(), torch.get_rng_state()
            if same_numbers:
                torch.set_rng_state(ctx.random_state)
            with torch.enable_grad():
                y = function(x)
            if restored:
                torch.set_rng_state(now)
            return (*(times * g for g in torch.autograd.grad(y, (x, *ctx.inputs), gradient)),)

    return Again.apply(x, *(function.parameters() if parameters else ()))


def again_law(answer: Any) -> None:
    """Raise `NotYet` unless ``answer(function, x)`` is a checkpoint of the function, as `again`."""
    signature(answer, "again(function, x)")
    for seed, dropout in ((0, 0.0), (1, 0.5), (2, 0.3)):
        plain = _step(_Watched(seed, dropout), None)
        watched = _Watched(seed, dropout)
        _same_step(_step(watched, answer), plain, " (with dropout)" if dropout else "")
        if watched.runs != 2:
            times = "once" if watched.runs == 1 else f"{watched.runs} times"
            raise NotYet(f"the function runs {times}: once forward and once in the backward pass")


class _Watched:
    """A small network with dropout that counts its runs and knows what lives of its inside."""

    def __init__(self, seed: int, dropout: float):
        torch.manual_seed(seed)
        self.up, self.down = torch.nn.Linear(6, 24), torch.nn.Linear(24, 6)
        self.dropout, self.runs, self.inside = dropout, 0, []

    def parameters(self):
        return [*self.up.parameters(), *self.down.parameters()]

    def __call__(self, x):
        self.runs += 1
        wide = torch.tanh(self.up(x))
        self.inside.append(weakref.ref(wide))
        return self.down(torch.dropout(wide, self.dropout, True)) + x


class _Step(NamedTuple):
    output: Any
    of_x: Any
    of_parameters: list
    between: Any  # what the generator gives after the forward pass
    after: Any  # and after the backward pass


def _step(network: _Watched, answer: Callable | None) -> _Step:
    torch.manual_seed(99)
    x = torch.linspace(-2, 2, 30).view(5, 6).requires_grad_()
    torch.rand(4)  # the generator is not at its seed
    y = call(answer, network, x) if answer else network(x)
    if not isinstance(y, torch.Tensor) or y.shape != x.shape:
        raise NotYet("it must return what the function returns")
    if not y.requires_grad:
        raise NotYet("what it returns has no graph: nothing can go backward through it")
    if answer and any(reference() is not None for reference in network.inside):
        raise NotYet("after the forward pass something of the function's inside is still kept")
    between = torch.rand(8)
    (y.square().sum() * 0.25).backward()
    gradients = [parameter.grad for parameter in network.parameters()]
    return _Step(y.detach(), x.grad, gradients, between, torch.rand(3))


def _same_step(found: _Step, plain: _Step, hint: str) -> None:
    if not torch.equal(found.output, plain.output):
        raise NotYet(f"the output is another than that of the function{hint}")
    if not torch.equal(found.between, plain.between):
        raise NotYet("after its forward pass the generator is not where a plain run leaves it")
    if any(gradient is None for gradient in found.of_parameters):
        raise NotYet("the parameters have got no gradient: who tells autograd of them?")
    if found.of_x is None:
        raise NotYet("x has got no gradient")
    _same_gradients("x", [found.of_x], [plain.of_x], hint)
    _same_gradients("parameters", found.of_parameters, plain.of_parameters, hint)
    if not torch.equal(found.after, plain.after):
        raise NotYet("after the backward pass the generator is not where a plain run leaves it")


def _same_gradients(what: str, found: list, plain: list, hint: str) -> None:
    if not all(map(torch.equal, found, plain)):
        twice = all(torch.allclose(a, 2 * b) for a, b in zip(found, plain, strict=True))
        why = "twice what they should be" if twice else "not those of the plain run"
        raise NotYet(f"the gradients of {what} are {why}{hint}")
