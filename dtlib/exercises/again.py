"""Judges a checkpoint of the reader's own: what it keeps, how often it runs, and its bits."""

import weakref
from collections.abc import Callable

from dtlib.exercises.judge import call
from dtlib.exercises.verdict import NotYet


class _Watched:
    """A small network with dropout that counts its runs and knows what lives of its inside."""

    def __init__(self, torch, seed: int, dropout: float):
        torch.manual_seed(seed)
        self.torch, self.dropout = torch, dropout
        self.up = torch.nn.Linear(6, 24)
        self.down = torch.nn.Linear(24, 6)
        self.runs, self.inside = 0, []

    def parameters(self):
        return [*self.up.parameters(), *self.down.parameters()]

    def __call__(self, x):
        self.runs += 1
        wide = self.torch.tanh(self.up(x))
        self.inside.append(weakref.ref(wide))
        wide = self.torch.dropout(wide, self.dropout, True)
        return self.down(wide) + x


def judged_again(answer: Callable) -> None:
    """Raise `NotYet` unless ``answer(function, x)`` is a checkpoint of the function."""
    import torch

    for seed, dropout in ((0, 0.0), (1, 0.5), (2, 0.3)):
        plain = _step(torch, _Watched(torch, seed, dropout), None)
        watched = _Watched(torch, seed, dropout)
        _compare(torch, _step(torch, watched, answer), plain, dropout)
        if watched.runs != 2:
            times = "once" if watched.runs == 1 else f"{watched.runs} times"
            raise NotYet(f"the function runs {times}: once forward and once in the backward pass")


def _step(torch, network, answer):
    """Loss, input gradient, parameter gradients and the generator's next number."""
    torch.manual_seed(99)
    x = torch.linspace(-2, 2, 30).view(5, 6).requires_grad_()
    before = torch.dropout(torch.ones(4), 0.5, True).sum()  # the generator is not at its seed
    y = network(x) if answer is None else call(answer, network, x)
    if not isinstance(y, torch.Tensor) or y.shape != x.shape:
        raise NotYet("it must return what the function returns")
    if answer is not None:
        if not y.requires_grad:
            raise NotYet("what it returns has no graph: nothing can go backward through it")
        if any(reference() is not None for reference in network.inside):
            raise NotYet("after the forward pass something of the function's inside is still kept")
    other = torch.dropout(torch.ones(8), 0.5, True)  # between forward and backward, others draw
    (y.square().sum() * 0.25).backward()
    after = torch.rand(3)
    return y.detach(), x.grad, [p.grad for p in network.parameters()], (before, other, after)


def _compare(torch, found, plain, dropout) -> None:
    hint = " (with dropout)" if dropout else ""
    if not torch.equal(found[0], plain[0]):
        raise NotYet(f"the output is another than that of the function{hint}")
    if not torch.equal(found[3][1], plain[3][1]):
        raise NotYet("after its forward pass the generator is not where a plain run leaves it")
    if any(gradient is None for gradient in found[2]):
        raise NotYet("the parameters have got no gradient: who tells autograd of them?")
    if found[1] is None:
        raise NotYet("x has got no gradient")
    for name, ours, theirs in (
        ("x", [found[1]], [plain[1]]),
        ("parameters", found[2], plain[2]),
    ):
        if not all(map(torch.equal, ours, theirs)):
            twice = all(torch.allclose(a, 2 * b) for a, b in zip(ours, theirs, strict=True))
            why = "twice what they should be" if twice else "not those of the plain run"
            raise NotYet(f"the gradients of {name} are {why}{hint}")
    if not torch.equal(found[3][2], plain[3][2]):
        raise NotYet("after the backward pass the generator is not where a plain run leaves it")
