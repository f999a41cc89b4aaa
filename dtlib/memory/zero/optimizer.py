"""ZeRO, stages 1 and 2: every rank has all weights, and updates only the part that it owns.

An all-reduce is a reduce-scatter and an all-gather. An optimizer that treats every number by itself
may work between the two, on parts: what is gathered then is the updated weights, not the gradients.

    update . all-reduce  =  all-gather . update . reduce-scatter

The bytes are those of data parallelism; the optimizer's state is 1/P of it. Stage 3 is in
`full.py`, the square above in `square.py`, bytes in `cost.py`.
"""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import chain

import torch
from torch import nn

from dtlib.formulas.require import require_positive, require_type
from dtlib.formulas.units import MiB
from dtlib.memory.zero.clipping import clip_gradients
from dtlib.memory.zero.parts import PartedFlat, Reductions, check_dtypes
from dtlib.memory.zero.square import check_elementwise
from dtlib.memory.zero.state import load_whole_state, whole_state
from dtlib.parallelism.data.alike import broadcast_coalesced
from dtlib.parallelism.data.backward import BackwardPass
from dtlib.parallelism.data.flat import buckets_of, by_kind
from dtlib.runtime.process_group import ranks_of


class ShardedOptimizer(torch.optim.Optimizer):
    """An elementwise optimizer, of whose state each rank holds 1/P: ZeRO's stages 1 and 2.

    Stage 1 keeps whole gradients until `step`, however many backward passes have added to them.
    Stage 2 reduces a bucket as soon as a backward pass has its gradients, and keeps a part: with m
    backward passes per step it reduces m times. In both, `step` reduces what is left, updates the
    parts, gathers the weights, and has used up the gradients. A parameter without a gradient counts
    as one whose gradient is zero: it decays, where a plain optimizer skips it.
    Weights may be changed between steps (loaded, pruned), on all ranks alike. Clear gradients with
    its own `zero_grad`: the module's does not know of those that are reduced already.
    Arguments: `parameters`, or parameter groups, as torch's optimizers take them, which become
    those of rank 0; `optimizer_class`, such as `torch.optim.AdamW`, with its `defaults`; `group`;
    `zero` 1 or 2; `bucket_bytes`, of a flat tensor; `average=False` adds the ranks' gradients
    and does not divide by P; `master_dtype`, of the parts and of the optimizer's state, where it
    is not that of the weights; `check=False` accepts an optimizer that is not elementwise, whose
    update then depends on P.
    Attributes: `param_groups`, `state` and `defaults` are those of the optimizer of parts,
    `optimizer`, so that schedules of the learning rate work on both.
    Raises ValueError for another stage, no parameter to train or one that is listed twice, an
    optimizer that is not elementwise, sizes that are not positive; TypeError for no group, and for
    a parameter that is no tensor; RuntimeError in `step` for a module that was moved or cast later,
    for a parameter that was frozen or trained later, and after a backward pass that failed.
    Source: Rajbhandari et al. 2020; Xu et al. 2020.
    """

    scaled_alike = False  # by a ShardedGradScaler, which asks all ranks

    def __init__(
        self,
        parameters: Iterable,
        optimizer_class: type,
        group,
        *,
        zero: int = 1,
        bucket_bytes: int = 25 * MiB,
        average: bool = True,
        master_dtype: torch.dtype | None = None,
        check: bool = True,
        **defaults,
    ):
        if zero not in (1, 2) or isinstance(zero, bool):
            raise ValueError(f"zero = {zero!r}; allowed are 1 and 2 (3 is FullySharded)")
        _, P = ranks_of(group)
        require_positive("ShardedOptimizer", bucket_bytes=bucket_bytes)
        check_dtypes("ShardedOptimizer", master_dtype=master_dtype)
        if check:
            check_elementwise(lambda tensors: optimizer_class(tensors, **defaults))
        self.zero, self.group = zero, group
        self.optimizer = self._make = partial(optimizer_class, **defaults)
        self._sizes = bucket_bytes, master_dtype
        self.flats: list[PartedFlat] = []
        self._listed: list[list[nn.Parameter]] = []
        self._trained: set[nn.Parameter] = set()
        self._reductions = Reductions(1 / P if average else 1.0)
        self._pass: BackwardPass | None = None
        require_type("ShardedOptimizer", Iterable, parameters=parameters)
        super().__init__(parameters, defaults)
        if not self.flats:
            raise ValueError("parameters: none requires a gradient, so there is nothing to update")
        self.param_groups, self.defaults = self.optimizer.param_groups, self.optimizer.defaults

    def add_param_group(self, param_group: dict) -> None:
        """Shard one more group of parameters, as torch's optimizers take it; all ranks call it."""
        group = read_group(param_group, [p for listed in self._listed for p in listed])
        bucket_bytes, master_dtype = self._sizes
        broadcast_coalesced(group["params"], self.group)
        alike = by_kind(p for p in reversed(group["params"]) if p.requires_grad)
        flats = [
            PartedFlat(bucket, self.group, own_dtype=master_dtype)
            for bucket in buckets_of(chain.from_iterable(alike), bucket_bytes)
        ]
        parts = {**group, "params": [flat.own for flat in flats]}
        if self._listed:
            self.optimizer.add_param_group(parts)
        else:
            self.optimizer = self._make([parts])
        self._listed.append(group["params"])
        self.flats = flats + self.flats  # the last group's gradients are ready first
        for parameter in chain.from_iterable(alike):
            self._trained.add(parameter)
            if self.zero == 2:
                parameter.register_post_accumulate_grad_hook(self._on_ready)

    def step(self, closure: Callable | None = None):
        """Reduce what is not reduced yet, update the own parts, gather all of them."""
        loss = None if closure is None else torch.enable_grad()(closure)()
        self.reduce_gradients()
        self._keep_changes()
        self.optimizer.step()
        for work in [flat.gather() for flat in self.flats]:
            work.wait()
        self.optimizer.zero_grad()
        return loss

    def reduce_gradients(self) -> None:
        """From whole gradients of this rank to its part of their mean; stage 2 did so already."""
        self._check_parameters()
        late = any(flat.has_gradients() for flat in self.flats)  # of a pass after a clipping
        for flat in self.flats:
            if late or flat.own.grad is None:
                self._reductions.start(flat)
        self._reductions.finish()

    def clip_gradients(self, max_norm: float, **options) -> torch.Tensor:
        """Before `step`: bound the norm of the whole gradient; returns what the norm was.

        Options: those of `dtlib.memory.clip_gradients`.
        """
        self.reduce_gradients()
        return clip_gradients([flat.own for flat in self.flats], max_norm, self.group, **options)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, those of the parts and whole ones; none stays as zeros."""
        for flat in self.flats:
            flat.own.grad = None
            flat.drop_gradients()
        self._reductions.forget()
        self._pass = None

    def state_dict(self) -> dict:
        """The whole state, on every rank, as the optimizer would give it of whole parameters.

        Master copies are in it beside the moments, under "master".
        """
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        self._keep_changes()
        state = whole_state(self.optimizer, self.flats, self._listed)
        for hook in self._optimizer_state_dict_post_hooks.values():
            state = hook(self, state) or state
        return state

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict) -> None:
        """Take this rank's parts of a whole state, of any number of ranks or of none.

        A master copy that it lacks, or that is not rounded to the module's weight, is made of that.
        """
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            state_dict = hook(self, state_dict) or state_dict
        for flat in self.flats:
            flat.own.copy_(flat.whole[flat.place])
        load_whole_state(self.optimizer, self.flats, self._listed, state_dict)
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    @property
    def state(self) -> dict:
        """That of the optimizer of parts."""
        return self.optimizer.state

    @state.setter
    def state(self, made: dict) -> None:
        """torch's constructor makes an empty one, which is not used."""

    @property
    def _step_supports_amp_scaling(self) -> bool:
        """A torch GradScaler asks this before its step. It must not judge by one rank's part."""
        if not self.scaled_alike:
            raise RuntimeError(
                "ShardedOptimizer: a GradScaler sees the part of the gradient that is here, so "
                "that ranks would disagree about a step; use dtlib.memory.ShardedGradScaler"
            )
        return False

    def __getstate__(self):
        raise TypeError("ShardedOptimizer: its hooks and its group stay; copy its state_dict()")

    @torch.no_grad()
    def _keep_changes(self) -> None:
        """A weight that is no longer its rounded master was loaded: it becomes the master."""
        for flat in self.flats:
            if flat.own.dtype != flat.whole.dtype:
                flat.keep_changes()

    def _check_parameters(self) -> None:
        if self._pass:
            raise RuntimeError(
                "ShardedOptimizer: a backward pass has failed, and only some of its gradients are "
                "reduced. Call zero_grad() and run it again"
            )
        for flat in self.flats:
            flat.check_shown()
        for parameter in (p for listed in self._listed for p in listed):
            if parameter.requires_grad != (parameter in self._trained):
                now = "is frozen now" if parameter in self._trained else "was frozen then"
                raise RuntimeError(
                    f"ShardedOptimizer: a parameter of shape {tuple(parameter.shape)} {now}, and a "
                    "part is made of those that train when they are listed. Make another optimizer "
                    "and give it this one's state_dict()"
                )

    def _on_ready(self, parameter: nn.Parameter) -> None:
        """Stage 2: autograd has added the last contribution to this gradient."""
        if not self._pass:
            self._pass = BackwardPass(self._finish, self.flats, self._reductions.start)
        self._pass.strike_off(parameter)
        self._pass.launch_complete()

    def _finish(self) -> None:
        self._pass.launch_rest()
        self._reductions.finish()
        self._pass = None


def read_group(param_group: dict, known: Iterable[nn.Parameter]) -> dict:
    """A parameter group as torch's optimizers read it: (name, parameter) pairs, or one tensor.

    Raises ValueError for a group without parameters and for one that is listed twice, TypeError for
    what is no tensor.
    """
    if "params" not in param_group:
        raise ValueError(f"parameters: a group lacks its 'params': it has {list(param_group)}")
    (group,) = torch.optim.Optimizer([dict(param_group)], {}).param_groups
    listed = [*known, *group["params"]]
    if len(set(listed)) < len(listed):
        raise ValueError("parameters: one is listed twice, and would be updated in two parts")
    return group
