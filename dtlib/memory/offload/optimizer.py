"""An optimizer's state in a store: it is touched once in a step, and comes for that, unit by unit.

The same update, bit for bit, because a copy has the same bits. While one unit is updated, the next
is on its way (`streamed`).
"""

import copy
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import nn

from dtlib.formulas.require import require, require_count, require_positive, require_type
from dtlib.memory.offload.store import Store
from dtlib.memory.offload.stream import placed, places, streamed, wait_for_all
from dtlib.parallelism.data.flat import buckets_of


class OffloadedOptimizer(torch.optim.Optimizer):
    """Any torch optimizer that treats every parameter by itself, with its state in a store.

    Equation: the same update, one unit after the other; state that went and came has the same bits.
    While a unit is updated, the state of the next `lookahead` is on its way to the device, and that
    of the one before on its way back: the device has room for `lookahead` + 2 units.
    Numbers, such as a count of steps, stay; what the optimizer skips does not travel.
    Arguments: `optimizer`, a torch optimizer; `store`; `bucket_bytes`, parameters of at most so
    many bytes travel together, by default each alone; `units`, instead, lists of parameters that
    travel together; `lookahead`, units; `master`, whether parameters of less than 32 bits have a
    copy in 32 bits, which travels too: the optimizer updates the copy, and the parameter is rounded
    from it. A parameter that was changed in between (loaded) is copied anew.
    It is an optimizer for schedules and hooks, too: `param_groups` and `defaults` are those of
    `optimizer`.
    Raises ValueError for units that do not list every parameter once, a bucket without bytes, a
    negative look-ahead, LBFGS, which sees all parameters as one vector, and an optimizer that works
    through another one; StoreError where the store fails, and then no state is lost.
    Source: Ren et al. 2021; Rajbhandari et al. 2021.

    >>> from dtlib.memory import HostStore
    >>> weight = nn.Parameter(torch.ones(4))
    >>> with HostStore() as store:
    ...     optimizer = OffloadedOptimizer(torch.optim.Adam([weight], lr=0.5), store)
    ...     weight.grad = torch.ones(4)
    ...     optimizer.step()
    ...     store.held, list(optimizer.optimizer.state[weight])  # two moments there, a count here
    (128, ['step'])
    >>> weight.data
    tensor([0.5000, 0.5000, 0.5000, 0.5000])
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        store: Store,
        *,
        bucket_bytes: int | None = None,
        units: Sequence[Sequence[nn.Parameter]] | None = None,
        lookahead: int = 1,
        master: bool = False,
    ):
        require_type("OffloadedOptimizer", torch.optim.Optimizer, optimizer=optimizer)
        require_type("OffloadedOptimizer", Store, store=store)
        require_count("OffloadedOptimizer", 0, lookahead=lookahead)
        if bucket_bytes is not None:
            require_positive("OffloadedOptimizer", bucket_bytes=bucket_bytes)
        if units is not None:
            require_type("OffloadedOptimizer", Iterable, units=units)
        if isinstance(optimizer, torch.optim.LBFGS):
            raise ValueError("LBFGS sees all parameters as one vector; its state cannot be parted")
        alone, kind = not hasattr(optimizer, "optimizer"), type(optimizer).__name__
        require(alone, "OffloadedOptimizer", "optimizer", kind, "one that works through no other")
        self.optimizer, self.store = optimizer, store
        self.lookahead, self.master, self._bucket_bytes = lookahead, master, bucket_bytes
        super().__init__(optimizer.param_groups, optimizer.defaults)
        self.param_groups = optimizer.param_groups
        self._all = [p for group in optimizer.param_groups for p in group["params"]]
        parted = self._parted(self._all) if units is None else [*map(list, units)]
        _check_units(parted, self._all)
        self.units: list[StateRow] = []
        self._take_over(parted)

    def add_param_group(self, param_group: dict) -> None:
        """Add one more group of parameters, as torch's optimizers do; its state travels too."""
        groups = self.optimizer.param_groups
        if not any(param_group is own for own in groups):
            self.optimizer.add_param_group(param_group)
            self._all += groups[-1]["params"]
            self._take_over(self._parted(groups[-1]["params"]))

    def _parted(self, parameters: Iterable[nn.Parameter]) -> list[list[nn.Parameter]]:
        """Neighbours of one device, in buckets; without a limit each is alone in its own."""
        return buckets_of(parameters, self._bucket_bytes or 1, kind=lambda p: p.device)

    def _take_over(self, parted: Iterable[list[nn.Parameter]]) -> None:
        first = len(self.units)
        self.units += [StateRow(f"state {id(self)} {i}", p) for i, p in enumerate(parted, first)]
        self._send(self.units[first:])

    @property
    def state(self):
        """Not to be had, because most of it is in the store: `state_dict` brings it together."""
        raise RuntimeError(
            "OffloadedOptimizer: its state is in the store; state_dict() copies it out of there, "
            "load_state_dict() takes it over"
        )

    @state.setter
    def state(self, made: dict) -> None:
        """torch's constructor makes an empty one, which is not used."""

    def zero_grad(self, set_to_none: bool = True) -> None:
        """The optimizer's own."""
        self.optimizer.zero_grad(set_to_none)

    def step(self, closure: Callable | None = None, only: Iterable[nn.Parameter] | None = None):
        """Update every parameter that has a gradient; of `only`, those that are named.

        Returns what the closure returned, which is called once. Raises StoreError where state could
        not be stored: the update is complete then, and the store holds what it could not write.
        """
        listed = self._all if only is None else list(only)
        for parameter in listed:
            require_type("OffloadedOptimizer.step", torch.Tensor, **{"one of only": parameter})
        with torch.enable_grad():
            loss = None if closure is None else closure()
        wanted = {p for p in listed if p.grad is not None}
        units = [unit for unit in self.units if wanted.intersection(unit.parameters)]
        away = {unit.key: unit for unit in units if unit.places}
        sent = []
        for unit in units:
            if unit.key not in away:  # its state is only made now
                self._update([p for p in unit.parameters if p in wanted], {})
                sent += self._put(unit)
                wait_for_all(sent[-3:-2])
        for turn in streamed(self.store, away, self.lookahead, back=True):
            unit = away[turn.key]
            self._update([p for p in unit.parameters if p in wanted], unit.read(turn.tensor))
            turn.tensor = unit.write(self._take_state(unit), turn.tensor)
        wait_for_all(sent)
        return loss

    def state_dict(self) -> dict:
        """What the optimizer itself would give, all state included, as a copy."""
        for turn in streamed(self.store, [u.key for u in self.units if u.places]):
            unit = next(unit for unit in self.units if unit.key == turn.key)
            for parameter, state in unit.read(turn.tensor).items():
                kept = {name: value.clone() for name, value in state.items()}
                self.optimizer.state[parameter].update(kept)
        whole = copy.deepcopy(self.optimizer.state_dict())
        for unit in self.units:
            self._take_state(unit)
        return whole

    def load_state_dict(self, state_dict: dict) -> None:
        """Take over the state of a plain optimizer of the same parameters, or of one like this."""
        require_type("OffloadedOptimizer.load_state_dict", dict, state_dict=state_dict)
        self.optimizer.load_state_dict(state_dict)
        self.param_groups = self.optimizer.param_groups
        for i, parameter in enumerate(self._all):  # torch rounds state to the parameter's dtype
            for name, value in state_dict["state"].get(i, {}).items():
                if travels(value):
                    self.optimizer.state[parameter][name] = value.to(parameter.device, copy=True)
        self._send(self.units)

    def _update(self, parameters: list[nn.Parameter], states: dict) -> None:
        """One step of the optimizer, as if it had these parameters and no others."""
        state, groups = self.optimizer.state, self.optimizer.param_groups
        whole = [group["params"] for group in groups]
        leaves = {p: self._leaf(p, states.setdefault(p, {})) for p in parameters}
        for parameter, leaf in leaves.items():
            state[leaf] = state.pop(parameter, {}) | states[parameter]
        try:
            for group, own in zip(groups, whole, strict=True):
                group["params"] = [leaves[p] for p in own if p in leaves]
            self.optimizer.step()
        finally:
            for group, own in zip(groups, whole, strict=True):
                group["params"] = own
        for parameter, leaf in leaves.items():
            state[parameter] = state.pop(leaf)
            if leaf is not parameter:
                state[parameter]["master"] = leaf.detach()
                with torch.no_grad():
                    parameter.copy_(leaf)
        for parameter in states.keys() - leaves.keys():
            state[parameter] |= states[parameter]

    def _leaf(self, parameter: nn.Parameter, state: dict) -> nn.Parameter:
        """What the optimizer updates: the parameter, or its copy in 32 bits."""
        if not self.master or parameter.dtype.itemsize >= 4:
            return parameter
        now, held = parameter.detach(), state.pop("master", None)
        if held is not None:  # but what was changed since it was rounded from the copy
            held = torch.where(now == held.to(now.dtype), held, now.float())
        leaf = nn.Parameter(now.float() if held is None else held)
        leaf.grad = parameter.grad.float()
        return leaf

    def _take_state(self, unit: "StateRow") -> dict:
        """Take what travels out of the optimizer; numbers stay."""
        taken = {}
        for parameter in unit.parameters:
            own = self.optimizer.state.get(parameter, {})
            taken[parameter] = {name: own[name] for name in list(own) if travels(own[name])}
            for name in taken[parameter]:
                del own[name]
        return taken

    def _put(self, unit: "StateRow") -> list:
        state = self._take_state(unit)
        return [self.store.put(unit.key, unit.write(state))] if any(state.values()) else []

    def _send(self, units: Iterable["StateRow"]) -> None:
        wait_for_all([transfer for unit in units for transfer in self._put(unit)])


class StateRow:
    """Parameters whose state travels together, as one row of bytes under one name.

    `places`: from (parameter, name of the state) to shape, dtype and offset in the row.
    """

    def __init__(self, key: str, parameters: list[nn.Parameter]):
        self.key, self.parameters, self.places = key, parameters, {}

    def read(self, row: torch.Tensor) -> dict:
        """The state of each parameter, as views of the row."""
        states: dict = {}
        for (parameter, name), (shape, dtype, offset) in self.places.items():
            states.setdefault(parameter, {})[name] = placed(row, offset, shape, dtype)
        return states

    def write(self, states: dict, row: torch.Tensor | None = None) -> torch.Tensor:
        """A row that holds the state: the one that was read, if it still fits, or a new one."""
        values = {(p, name): value for p, own in states.items() for name, value in own.items()}
        kinds = {at: (value.shape, value.dtype) for at, value in values.items()}
        if row is None or kinds != {at: place[:2] for at, place in self.places.items()}:
            offsets, size = places(kinds.values())
            self.places = {
                at: (*kind, offset)
                for (at, kind), offset in zip(kinds.items(), offsets, strict=True)
            }
            row = torch.empty(size, dtype=torch.uint8, device=self.parameters[0].device)
        for at, value in values.items():
            shape, dtype, offset = self.places[at]
            target = placed(row, offset, shape, dtype)
            if target.data_ptr() != value.data_ptr():
                target.copy_(value)
        return row


def travels(value) -> bool:
    """State is worth a journey if it is a tensor of some length; a count is not."""
    return isinstance(value, torch.Tensor) and value.dim() > 0


def _check_units(units: list, parameters: list[nn.Parameter]) -> None:
    listed = [parameter for unit in units for parameter in unit]
    if sorted(map(id, listed)) != sorted(map(id, parameters)):
        raise ValueError(
            f"units list {len(listed)} parameters, {len(set(listed) & set(parameters))} of the "
            f"optimizer's {len(parameters)}; every one must be listed once"
        )
