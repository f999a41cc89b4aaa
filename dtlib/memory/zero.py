"""ZeRO, stages 1 and 2: every rank has all weights, and updates only the part that it owns.

An all-reduce is a reduce-scatter and an all-gather. An optimizer that treats every number by itself
may work between the two, on parts: what is gathered then is the updated weights, not the gradients.

    update . all-reduce  =  all-gather . update . reduce-scatter

The bytes are those of data parallelism; the optimizer's state is 1/P of it. Stage 3 is in
`zero_full.py`, the square above in `zero_square.py`, bytes in `zero_cost.py`.
"""

from collections.abc import Iterable

import torch
from torch import nn

from dtlib.foundations.require import require_positive
from dtlib.foundations.units import MiB
from dtlib.memory.zero_flat import (
    Flat,
    Reductions,
    check_dtypes,
    clip_gradients,
    load_whole_state,
    of_one_kind,
    whole_state,
)
from dtlib.memory.zero_square import check_elementwise
from dtlib.parallelism.data import broadcast_coalesced
from dtlib.parallelism.messages import ranks_of


class ShardedOptimizer:
    """An elementwise optimizer, of whose state each rank holds 1/P: ZeRO's stages 1 and 2.

    Stage 1 keeps whole gradients until `step`, however many backward passes have added to them.
    Stage 2 reduces a bucket as soon as a backward pass has its gradients, and keeps a part: with m
    backward passes per step it reduces m times. In both, `step` reduces what is left, updates the
    parts, and gathers the weights, which no rank has changed elsewhere. A parameter without a
    gradient counts as one whose gradient is zero: it decays, where a plain optimizer skips it.
    Arguments: `parameters`, or parameter groups, as torch's optimizers take them, which become
    those of rank 0; `optimizer_class`, such as `torch.optim.AdamW`, with its `defaults`; `group`;
    `stage` 1 or 2; `bucket_bytes`, of a flat tensor; `average=False` adds the ranks' gradients
    and does not divide by P; `master_dtype`, of the parts and of the optimizer's state, where it
    is not that of the weights; `check=False` accepts an optimizer that is not elementwise, whose
    update then depends on P.
    Raises ValueError for another stage, no parameter to train or one that is listed twice, an
    optimizer that is not elementwise, sizes that are not positive; TypeError for no group, and for
    a parameter that is no tensor; RuntimeError in `step` for a module that was moved or cast later.
    Source: Rajbhandari et al. 2020; Xu et al. 2020.
    """

    def __init__(
        self,
        parameters: Iterable,
        optimizer_class: type,
        group,
        *,
        stage: int = 1,
        bucket_bytes: int = 25 * MiB,
        average: bool = True,
        master_dtype: torch.dtype | None = None,
        check: bool = True,
        **defaults,
    ):
        if stage not in (1, 2) or isinstance(stage, bool):
            raise ValueError(f"stage = {stage!r}; allowed are 1 and 2 (3 is FullySharded)")
        _, P = ranks_of(group)
        require_positive("ShardedOptimizer", bucket_bytes=bucket_bytes)
        check_dtypes("ShardedOptimizer", master_dtype=master_dtype)
        if check:
            check_elementwise(lambda tensors: optimizer_class(tensors, **defaults))
        groups = _parameter_groups(parameters)
        self.stage, self.group = stage, group
        self._listed = [settings["params"] for settings in groups]
        broadcast_coalesced([p for listed in self._listed for p in listed], group)
        by_group = [
            [
                Flat(bucket, group, own_dtype=master_dtype)
                for bucket in _buckets(listed, bucket_bytes)
            ]
            for listed in self._listed
        ]
        parts = [
            {**settings, "params": [flat.own for flat in flats]}
            for settings, flats in zip(groups, by_group, strict=True)
        ]
        self.optimizer = optimizer_class(parts, **defaults)
        self.flats = [flat for flats in reversed(by_group) for flat in flats]
        self._flat_of = {p: flat for flat in self.flats for p in flat.parameters}
        self._reductions = Reductions(1 / P if average else 1.0)
        self._running = self._reduced = False
        if stage == 2:
            for parameter in self._flat_of:
                parameter.register_post_accumulate_grad_hook(self._on_ready)

    @property
    def param_groups(self) -> list[dict]:
        """Those of the optimizer of parts: a schedule of the learning rate works on them."""
        return self.optimizer.param_groups

    def step(self) -> None:
        """Reduce what is not reduced yet, update the own parts, gather all of them."""
        self.reduce_gradients()
        self.optimizer.step()
        for work in [flat.gather() for flat in self.flats]:
            work.wait()
        self._reduced = False

    def reduce_gradients(self) -> None:
        """From whole gradients of this rank to its part of their mean; stage 2 did so already."""
        for flat in self.flats:
            flat.check_shown()
        late = any(flat.has_gradients() for flat in self.flats)  # of a pass after a clipping
        if self.stage == 1 and (late or not self._reduced):
            for flat in self.flats:
                self._reductions.start(flat)
            self._reductions.finish()
        self._reduced = True

    def clip_gradients(self, max_norm: float) -> torch.Tensor:
        """Before `step`: bound the norm of the whole gradient; returns what the norm was."""
        self.reduce_gradients()
        return clip_gradients([flat.own for flat in self.flats], max_norm, self.group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients, those of the parts and whole ones; none stays as zeros."""
        for flat in self.flats:
            flat.own.grad = None
            flat.drop_gradients()
        self._reductions.forget()
        self._running = self._reduced = False

    def state_dict(self) -> dict:
        """The whole state, on every rank, as the optimizer would give it of whole parameters.

        Master copies are in it beside the moments, under "master".
        """
        return whole_state(self.optimizer, self.flats, self._listed, masters=True)

    @torch.no_grad()
    def load_state_dict(self, state_dict: dict) -> None:
        """Take this rank's parts of a whole state, of any number of ranks or of none.

        Load the module's weights before: of them master copies are made that the state lacks.
        """
        for flat in self.flats:
            flat.own.copy_(flat.whole[flat.place])
        load_whole_state(self.optimizer, self.flats, self._listed, state_dict)

    def _on_ready(self, parameter: nn.Parameter) -> None:
        """Stage 2: autograd has added the last contribution to this gradient."""
        if not self._running:
            self._running, self._waiting = True, list(self.flats)
            self._missing = {flat: set(flat.parameters) for flat in self.flats}
            torch.autograd.Variable._execution_engine.queue_callback(self._finish)
        self._missing[self._flat_of[parameter]].discard(parameter)
        while self._waiting and not self._missing[self._waiting[0]]:
            self._reductions.start(self._waiting.pop(0))

    def _finish(self) -> None:
        """The backward pass is over: what has got no gradient counts as zero."""
        for flat in self._waiting:
            self._reductions.start(flat)
        self._reductions.finish()
        self._running = False


def _parameter_groups(parameters) -> list[dict]:
    """As torch's optimizers read their first argument: parameters, or dicts of them."""
    if not isinstance(parameters, Iterable):
        kind = type(parameters).__name__
        raise TypeError(f"parameters: a {kind}, but must be a list of them (module.parameters())")
    listed = list(parameters)
    if any("params" not in group for group in listed if isinstance(group, dict)):
        raise ValueError("parameters: a group lacks its 'params'")
    groups = listed if listed and isinstance(listed[0], dict) else [{"params": listed}]
    groups = [{**group, "params": list(group["params"])} for group in groups]
    every = [parameter for group in groups for parameter in group["params"]]
    for other in (p for p in every if not isinstance(p, torch.Tensor)):
        raise TypeError(f"parameters: tensors are trained, but one is a {type(other).__name__}")
    if len(set(every)) < len(every):
        raise ValueError("parameters: one is listed twice, and would be updated in two parts")
    if not any(parameter.requires_grad for parameter in every):
        raise ValueError("parameters: none requires a gradient, so there is nothing to update")
    return groups


def _buckets(parameters: list[nn.Parameter], size: int) -> list[list[nn.Parameter]]:
    """What is trained, the last parameter first, in lists of at most so many bytes.

    Gradients get ready from the last to the first. A large parameter has a list of its own.
    """
    buckets = []
    for same in of_one_kind(p for p in reversed(parameters) if p.requires_grad):
        filled = size
        for parameter in same:
            n = parameter.numel() * parameter.element_size()
            if filled + n > size:
                buckets.append([])
                filled = 0
            buckets[-1].append(parameter)
            filled += n
    return buckets
