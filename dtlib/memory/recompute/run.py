"""Recomputation for real: a schedule's actions on real layers, and one function run again.

The property is that a layer is a function: the same input, weights and random numbers give the same
bits. So its tape need not be kept; its input is enough, and the tape is made again when the
backward pass comes. `recompute_chain` runs any schedule of `recompute_schedule`, action by action.

How it stays exact:

- A forward pass without a tape runs the same operations as one with a tape, with gradients on: only
  what autograd would save is thrown away at once. (With gradients off torch may choose others.)
- The graph of that run says which parameters it reaches; they get their gradients, in the order of
  the plain run.
- Random numbers: the generators' states of a layer's first run are set again for every other one.
- Kept states are saved through autograd, as other tensors are, so that hooks see them.

Limits: a backward pass runs once, and cannot be differentiated; what a layer changes besides its
output (a batch norm's running mean) changes again when it runs again. The gradients of a chain's
parameters arrive together, when its whole backward pass is over.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.autograd.graph import get_gradient_edge, saved_tensors_hooks

from dtlib.formulas.require import require, require_type
from dtlib.memory.pieces import piece_of
from dtlib.memory.recompute.schedule import (
    RecomputeAction,
    RecomputeError,
    RecomputeSchedule,
    check_recompute,
)


def recompute_chain(
    schedule: RecomputeSchedule,
    layers: Sequence[Callable],
    x: torch.Tensor,
    *arguments: Any,
    preserve_rng: bool = True,
    log: list[RecomputeAction] | None = None,
) -> torch.Tensor:
    """The output of a chain of layers, whose backward pass follows the schedule.

    Equation: state i + 1 = layers[i](state i, *arguments), for i = 0 ... L - 1.
    Arguments: `layers`, functions or modules of one tensor each; `x`, state 0; `arguments` that
    every layer gets too, without gradients; `preserve_rng`, whether a layer that runs again draws
    the same random numbers; `log`, a list that gets every action when it has been done.
    Returns state L; its backward pass gives the gradients of x and of all parameters.
    Raises RecomputeError for a schedule that cannot run, ValueError for another number of layers
    and for arguments that require gradients; RuntimeError in the backward pass for parameters that
    have changed since the forward pass, and for a second backward pass.
    Source: Griewank and Walther 2000; Chen et al. 2016.

    >>> from dtlib.memory.recompute.schedule import revolve
    >>> x = torch.tensor(0.5, requires_grad=True)
    >>> y = recompute_chain(revolve(3, slots=1), [torch.sin, torch.exp, torch.tanh], x)
    >>> y.backward()
    >>> x.grad == torch.autograd.grad(x.sin().exp().tanh(), x)[0]
    tensor(True)
    """
    owner = "recompute_chain"
    require_type(owner, RecomputeSchedule, schedule=schedule)
    require_type(owner, torch.Tensor, x=x)
    allowed = f"{schedule.layers}, as of {schedule.name!r}"
    require(len(layers) == schedule.layers, owner, "the number of layers", len(layers), allowed)
    for argument in arguments:
        given = isinstance(argument, torch.Tensor) and argument.requires_grad
        require(
            not given, owner, "an argument besides x", "one that requires a gradient", "without"
        )
    check_recompute(schedule)
    if not torch.is_grad_enabled():
        for layer in layers:
            x = layer(x, *arguments)
        return x
    run = _Run(schedule, layers, arguments, preserve_rng, log)
    y = run.forward(x)
    return _Join.apply(run, y, x, *run.parameters)


class _Join(torch.autograd.Function):
    """Puts the output of a run into the graph, behind its input and the parameters it reached."""

    @staticmethod
    def forward(ctx, run, y, x, *parameters):
        ctx.run = run
        return y.view_as(y)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        run, ctx.run = ctx.run, None
        if run is None:
            raise RuntimeError(
                "recompute_chain: a second backward pass, but its kept states are gone: run forward"
            )
        return None, None, *run.backward(gradient)


class _Run:
    """One forward and backward pass: the running state, slots, tapes, and how to repeat a layer."""

    def __init__(self, schedule, layers, arguments, preserve_rng, log):
        self.schedule, self.layers, self.arguments = schedule, layers, arguments
        self.preserve_rng = preserve_rng
        self.log = [] if log is None else log
        self.slots: dict[int, Slot] = {}
        self.tapes: dict[int, tuple] = {}
        self.first_runs: dict[int, FirstRun] = {}
        self.parameters: list[torch.Tensor] = []

    def forward(self, x):
        self.state, self.needs = x.detach(), {0: x.requires_grad}
        with piece_of("recompute_chain"):
            for action in self.schedule.actions[: self.schedule.forward_actions]:
                self._do(action)
        found = {id(p): p for n in self.first_runs for p in self.first_runs[n].parameters}
        self.parameters = list(found.values())
        y, self.state = self.state, None
        return y

    def backward(self, gradient):
        self.gradient, self.gradients = gradient, {}
        with kept_generators(gradient.device) if self.preserve_rng else ExitStack():
            for action in self.schedule.actions[self.schedule.forward_actions :]:
                self._do(action)
        return self.gradient, *(self.gradients.get(id(p)) for p in self.parameters)

    def _do(self, action):
        kind, start, stop = action
        if kind == "K":
            self.slots[start] = Slot(self.state)
        elif kind == "R":
            self.state = self.slots[start].tensor()
        elif kind == "D":
            del self.slots[start]
        elif kind == "B":
            self.state = None
            for layer in reversed(range(start, stop)):
                self._layer_backward(layer)
        else:
            for layer in range(start, stop):
                self._layer_forward(layer, tape=kind == "T")
        self.log.append(action)

    def _layer_forward(self, number, tape):
        again = number in self.first_runs
        first = self.first_runs[number] if again else FirstRun(self.state, self.preserve_rng)
        with first.again() if again else ExitStack(), torch.enable_grad():
            x = enter(self.state, self.needs[number])
            # a layer may save what it is given: the running state must not live on in this frame
            self.state = None
            with ExitStack() if tape else forgetting():
                y = self.layers[number](x, *self.arguments)
        self._check_output(number, y)
        if not again:
            first.remember([y], [x])
            self.first_runs[number], self.needs[number + 1] = first, y.requires_grad
        if tape:
            edges = tuple(get_gradient_edge(t) if t.requires_grad else None for t in (x, y))
            self.tapes[number] = edges
        self.state = y.detach()

    def _layer_backward(self, number):
        into, out = self.tapes.pop(number)
        first = self.first_runs[number]
        if out is None or self.gradient is None:
            self.gradient = None
            return
        wanted = [into] * (into is not None) + first.parameters
        found = list(
            torch.autograd.grad([out], wanted, [self.gradient], allow_unused=True) if wanted else ()
        )
        self.gradient = found.pop(0) if into is not None else None
        for parameter, gradient in zip(first.parameters, found, strict=True):
            if gradient is not None:
                before = self.gradients.get(id(parameter))
                self.gradients[id(parameter)] = gradient if before is None else before + gradient

    def _check_output(self, number, y):
        if not isinstance(y, torch.Tensor):
            found = type(y).__name__
            raise RecomputeError(f"recompute_chain: layer {number} returns a {found}, not a tensor")


class Slot:
    """Holds one tensor as autograd holds saved ones, so that hooks see it come, go and be read."""

    def __init__(self, tensor: torch.Tensor):
        with torch.enable_grad():
            self._node = _Save.apply(tensor.detach(), torch.empty(0, requires_grad=True)).grad_fn

    def tensor(self) -> torch.Tensor:
        """What was put in."""
        return self._node.saved_tensors[0].detach()


class _Save(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, switch):
        ctx.save_for_backward(x)
        return switch.view_as(switch)

    @staticmethod
    def backward(ctx, gradient):
        raise RuntimeError("a slot is read, it has no derivative")


class _Enter(torch.autograd.Function):
    """The same tensor, at the beginning of a new graph that does not hold it."""

    @staticmethod
    def forward(ctx, x, switch):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


def enter(tensor: torch.Tensor, needs_gradient: bool) -> torch.Tensor:
    """A tensor cut from its graph, which a new graph may be built on."""
    if not needs_gradient:
        return tensor.detach()
    return _Enter.apply(tensor.detach(), torch.empty(0, requires_grad=True))


def forgetting() -> saved_tensors_hooks:
    """Inside, operations build their graph and save nothing."""
    return saved_tensors_hooks(lambda tensor: None, _no_tape)


def _no_tape(nothing):
    raise RuntimeError("this graph has no tape: it was run to be forgotten")


class FirstRun:
    """How a function ran first: its random numbers, autocast, and the parameters it reached."""

    def __init__(self, example: torch.Tensor, preserve_rng: bool = True):
        self.device = example.device
        self.generators = generators(self.device) if preserve_rng else None
        kind = self.device.type
        self.autocast = None  # tensors without data have none
        if torch.amp.is_autocast_available(kind):
            self.autocast = {
                "enabled": torch.is_autocast_enabled(kind),
                "dtype": torch.get_autocast_dtype(kind),
                "cache_enabled": torch.is_autocast_cache_enabled(),
            }
        self.parameters: list[torch.Tensor] = []
        self.versions: list[int] = []

    def remember(self, outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor]) -> None:
        """Find the parameters behind the outputs, up to the inputs."""
        self.parameters = leaves(outputs, inputs)
        self.versions = [p._version for p in self.parameters]

    @contextmanager
    def again(self) -> Iterator[None]:
        """Inside, it runs as it did first. Raises RuntimeError for parameters that have changed."""
        for parameter, version in zip(self.parameters, self.versions, strict=True):
            if parameter._version != version:
                raise RuntimeError(
                    f"recompute: a parameter of shape {tuple(parameter.shape)} was changed between "
                    "the forward and the backward pass, so the same tape cannot be made again"
                )
        if self.generators is not None:
            set_generators(self.device, self.generators)
        if self.autocast is None:
            yield
            return
        with torch.autocast(self.device.type, **self.autocast):
            yield


def leaves(outputs: Sequence[torch.Tensor], inputs: Sequence[torch.Tensor] = ()):
    """The leaf tensors behind some outputs that can get a gradient, up to the inputs."""
    seen = {tensor.grad_fn for tensor in inputs}
    waiting, found = [output.grad_fn for output in outputs], []
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            found.append(node.variable)
        waiting += [following for following, _ in node.next_functions]
    return found


@contextmanager
def kept_generators(device: torch.device) -> Iterator[None]:
    """Inside, the generators may be set; afterwards they are as before."""
    before = generators(device)
    try:
        yield
    finally:
        set_generators(device, before)


def generators(device: torch.device):
    own = torch.cuda.get_rng_state(device) if device.type == "cuda" else None
    return torch.get_rng_state(), own


def set_generators(device, states):
    torch.set_rng_state(states[0])
    if states[1] is not None:
        torch.cuda.set_rng_state(states[1], device)
