"""A backward pass, followed while it runs: what is ready, what is launched, and its end.

The nouns:

- **Ready**: autograd has added the last contribution to a parameter's gradient.
- **Launched**: a flat tensor on its way, since all its gradients are ready.
- **Pass**: a backward pass, from the hook that sees it first to autograd's last callback.
"""

import weakref
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass
from functools import partial

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from dtlib.parallelism.data.flat import Flat


class BackwardPass:
    """The backward pass that is under way: each flat tensor is launched when it is complete.

    Made within it, by a hook of autograd. Arguments: `finish`, called when the pass is over, and
    not if it fails; `flats`, in an order that all ranks have; `launch`, called with each of them.
    Attributes: `ready`, the parameters whose gradients are, in their order; `late`, those that got
    more after their flat tensor was launched; `waiting`, the flat tensors that are not launched.
    """

    def __init__(
        self,
        finish: Callable[[], None],
        flats: Iterable[Flat] = (),
        launch: Callable[[Flat], None] | None = None,
    ):
        self.waiting, self._launch = list(flats), launch
        self.missing = {flat: set(flat.parameters) for flat in self.waiting}
        self._flat_of = {p: flat for flat in self.waiting for p in flat.parameters}
        self.ready: dict[nn.Parameter, None] = {}
        self.late: list[nn.Parameter] = []
        end = partial(finish)  # which nobody keeps but autograd
        self._task, self._end = torch._C._current_graph_task_id(), weakref.ref(end)
        torch.autograd.Variable._execution_engine.queue_callback(end)

    @property
    def running(self) -> bool:
        """Whether it still is under way: autograd keeps its end, and lets go of it if it fails."""
        return self._end() is not None

    def strike_off(self, parameter: nn.Parameter) -> None:
        """Its flat tensor lacks it no more, unless a pass within this one may give it again."""
        flat = self._flat_of[parameter]
        self.ready[parameter] = None
        if flat not in self.waiting:
            self.late.append(parameter)
        if self._task == torch._C._current_graph_task_id():
            self.missing[flat].discard(parameter)

    def launch_complete(self) -> None:
        """In their order on every rank, or two ranks would add different ones."""
        while self.waiting and not self.missing[self.waiting[0]]:
            self._launch_next()

    def launch_rest(self) -> None:
        """What has got no gradient counts as zero."""
        while self.waiting:
            self._launch_next()

    def _launch_next(self) -> None:
        self._launch(self.waiting[0])
        del self.waiting[0]


def with_graph(value) -> Iterator[torch.Tensor]:
    """The tensors with a graph in a value: alone, in tuples, lists, dicts and dataclasses."""
    for leaf in tree_leaves(value):
        if torch.is_tensor(leaf) and leaf.grad_fn is not None:
            yield leaf
        elif is_dataclass(leaf) and not isinstance(leaf, type):
            yield from with_graph([getattr(leaf, field.name) for field in fields(leaf)])
