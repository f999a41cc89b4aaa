"""What every ZeRO stage is made of: a flat tensor in P equal parts, of which each rank owns one.

The nouns:

- **Whole**: parameters laid end to end, and zeros up to a multiple of P.
- **Part**: one of the P equal pieces. Rank r owns part r: it alone updates it.
- **Gather**: every rank hands out its part, and all have the whole.
- **Reduce**: the ranks' gradients are added, and each rank gets the part that it owns.
"""

from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import nn

from dtlib.formulas.require import require
from dtlib.parallelism.data.flat import Flat
from dtlib.runtime.names import all_gather_single, reduce_scatter_single
from dtlib.runtime.process_group import ranks_of


class Run(NamedTuple):
    """What of a flattened parameter lies in a part, from `first` on: `start` to `stop - 1`."""

    first: int
    start: int
    stop: int


class PartedFlat(Flat):
    """Parameters of one kind, end to end in one tensor; this rank's part of it is ``own``.

    The parameters become views of ``whole``: who gathers into it has changed them all. ``own`` is
    what an optimizer is given. It is a view of ``whole`` too, unless it has another dtype (a
    master copy in 32 bits beside 16-bit weights) or is kept ``apart``, so that the whole can go.
    Arguments: `parameters`, at least one, of one kind; `group`; `dtype` of the whole; `own_dtype`
    of the part, each as the parameters are where it is not given.
    Raises ValueError for parameters of several kinds or none, and for another dtype.
    """

    def __init__(self, parameters, group, *, dtype=None, own_dtype=None, apart=False):
        self.group = group
        self.rank, self.P = ranks_of(group)
        super().__init__(parameters, self.P)
        check_dtypes("Flat", dtype=dtype, own_dtype=own_dtype)
        exact = self.lay_out([parameter.detach() for parameter in self.parameters])
        self.whole = exact.to(dtype or exact.dtype)
        own = exact[self.place].to(own_dtype or exact.dtype)
        trains = self.parameters[0].requires_grad
        self.own = nn.Parameter(own.clone() if apart else own, requires_grad=trains)
        self._views = self.cut(self.whole)
        self.show()

    @property
    def place(self) -> slice:
        """Where this rank's part lies in the whole."""
        return slice(self.rank * self.part, (self.rank + 1) * self.part)

    @cached_property
    def runs(self) -> list[Run]:
        """What of each parameter lies in this rank's part, perhaps nothing."""
        ends = list(accumulate(self.sizes, initial=-self.place.start))
        borders = [min(max(end, 0), self.part) for end in ends]
        of_each = zip(ends[:-1], borders[:-1], borders[1:], strict=True)
        return [Run(first, first - end, stop - end) for end, first, stop in of_each]

    def gather(self):
        """Start to fill the whole with all ranks' parts; wait for what it returns."""
        sent = self.own.detach().to(self.whole.dtype)
        return all_gather_single(self.whole, sent, group=self.group, async_op=True)

    def gathered(self, part: torch.Tensor) -> list[torch.Tensor]:
        """The ranks' tensors like ``own``, such as an optimizer's moments, cut by parameter."""
        whole = part.new_empty(self.length)
        all_gather_single(whole, part.detach().contiguous(), group=self.group)
        return self.cut(whole)

    def reduce(self, factor: float, dtype=None):
        """Take the gradients and start to add them, times ``factor``: (whole, part, handle)."""
        whole = self.lay_out(self.gradients(), factor, dtype)
        self.drop_gradients()
        part = whole.new_empty(self.part)
        return whole, part, reduce_scatter_single(part, whole, group=self.group, async_op=True)

    def join(self, part: torch.Tensor) -> None:
        """The reduced gradient is that of the part, or is added to it."""
        self.own.grad = part if self.own.grad is None else self.own.grad.add_(part)

    def show(self) -> None:
        """The parameters are the whole's views."""
        for parameter, view in zip(self.parameters, self._views, strict=True):
            parameter.data = view

    def check_shown(self) -> None:
        """Raise RuntimeError unless they still are: else nothing would train them."""
        home = self.whole.untyped_storage()._cdata
        moved = sum(p.untyped_storage()._cdata != home for p in self.parameters)
        if moved:
            raise RuntimeError(
                f"Flat: {moved} of {len(self.parameters)} parameters lie in memory of their own "
                "again. Move or cast a module before its parameters are sharded, not afterwards"
            )

    def keep_changes(self) -> None:
        """The part is as the whole is now; a number that nobody changed keeps its precision."""
        now = self.whole[self.place]
        changed = now != self.own.to(now.dtype)
        self.own.copy_(torch.where(changed, now.to(self.own.dtype), self.own))


class Reductions:
    """Reduce-scatters, of which one at a time is under way: no second whole gradient is kept."""

    def __init__(self, factor: float, dtype=None):
        self.factor, self.dtype, self._under_way = factor, dtype, None

    def start(self, flat: PartedFlat) -> None:
        """Wait for the one before, then start this one."""
        self.finish()
        self._under_way = flat, *flat.reduce(self.factor, self.dtype)

    def finish(self) -> None:
        """What has been added up joins the gradient of the part."""
        if self._under_way is None:
            return
        (flat, _, part, work), self._under_way = self._under_way, None
        work.wait()
        flat.join(part.to(flat.own.dtype))

    def forget(self) -> None:
        """What a backward pass that failed has left under way joins nothing."""
        if self._under_way is not None:
            self._under_way[-1].wait()
            self._under_way = None


def check_dtypes(owner: str, **dtypes) -> None:
    """Raise ValueError unless each is a floating-point dtype, or None."""
    for name, dtype in dtypes.items():
        good = dtype is None or (isinstance(dtype, torch.dtype) and dtype.is_floating_point)
        require(good, owner, name, dtype, "a floating-point torch.dtype, or None")
