"""When autograd has each gradient: predicted from the graph, and seen by hooks.

Autograd is a list scheduler with one rule: of the nodes whose inputs are all there, it takes the
one that was made last in the forward pass. A leaf's gradient is handed over as soon as it is
complete. So the order is known before the backward pass begins.
"""

import heapq
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


def ready_order(loss: torch.Tensor) -> list[torch.Tensor]:
    """The leaves behind a loss, in the order in which `loss.backward()` completes their gradients.

    Equation: a heap of the nodes whose inputs are there, the last made first.
    Arguments: `loss`, with a graph. Returns leaves that require gradients. Raises ValueError for a
    loss without a graph. Source: the ready queue of torch's autograd engine.

    >>> first, second = nn.Linear(2, 2), nn.Linear(2, 1)
    >>> names = {p: name for name, p in nn.Sequential(first, second).named_parameters()}
    >>> [names[leaf] for leaf in ready_order(second(first(torch.ones(1, 2))).sum())]
    ['1.bias', '1.weight', '0.bias', '0.weight']
    """
    if loss.grad_fn is None:
        raise ValueError("loss has no graph: no leaf of it requires a gradient")
    missing = _inputs_of_each(loss.grad_fn)
    heap, leaves = [(-loss.grad_fn._sequence_nr(), 0, loss.grad_fn)], []
    while heap:
        _, _, node = heapq.heappop(heap)
        if hasattr(node, "variable"):
            leaves.append(node.variable)
        for after in _after(node):
            missing[after] -= 1
            if not missing[after]:
                tie = len(missing) + len(heap)
                heapq.heappush(heap, (-after._sequence_nr(), tie, after))
    return leaves


@contextmanager
def seen_order(module: nn.Module) -> Iterator[list[str]]:
    """The names of the parameters, listed in the order in which backward passes complete them.

    >>> layer = nn.Linear(2, 1)
    >>> with seen_order(layer) as names:
    ...     layer(torch.ones(1, 2)).sum().backward()
    >>> names
    ['bias', 'weight']
    """
    names: list[str] = []
    hooks = [
        parameter.register_post_accumulate_grad_hook(lambda _, name=name: names.append(name))
        for name, parameter in module.named_parameters()
        if parameter.requires_grad
    ]
    try:
        yield names
    finally:
        for hook in hooks:
            hook.remove()


def _after(node) -> Iterator:
    return (after for after, _ in node.next_functions if after is not None)


def _inputs_of_each(root) -> Counter:
    """For each node behind the root, from how many places its input is added up."""
    missing, left, seen = Counter(), [root], {root}
    while left:
        for after in _after(left.pop()):
            missing[after] += 1
            if after not in seen:
                seen.add(after)
                left.append(after)
    return missing


def compiled_order(layers: int, breaks: int) -> list[str]:
    """A compiled backward pass: "graph" where one begins, and names as gradients are ready.

    A compiled graph is one node of autograd, so its gradients are handed over when it is over.
    Arguments: `layers` of a small network; `breaks`, places at which the compiler is told to end a
    graph, evenly spaced. Source: the FAQ of torch.compile.
    """
    import torch._dynamo
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    log: list[str] = []

    def backward_graph(graph, inputs):
        def run(*args):
            log.append("graph")
            return graph(*args)

        return make_boxed_func(run)

    torch._dynamo.reset()
    net = nn.ModuleList(nn.Linear(4, 4) for _ in range(layers))
    names = {parameter: name for name, parameter in net.named_parameters()}
    for parameter in net.parameters():
        parameter.register_post_accumulate_grad_hook(lambda p: log.append(names[p]))
    backend = aot_autograd(
        fw_compiler=lambda graph, inputs: make_boxed_func(graph.forward),
        bw_compiler=backward_graph,
    )
    x = torch.ones(1, 4, requires_grad=True)
    for part in range(breaks + 1):  # a break ends a graph, and another one begins
        own = nn.Sequential(
            *net[part * layers // (breaks + 1) : (part + 1) * layers // (breaks + 1)]
        )
        x = torch.compile(own, backend=backend)(x)
    x.sum().backward()
    return log
