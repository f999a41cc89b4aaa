"""The state of an optimizer of parts, as one of whole parameters has it, and back.

All ranks' states of a parameter together are what an optimizer of the plain module would have,
under the same number. In stages 1 and 2 an optimizer has one part of each flat tensor, in which
several parameters share a counter; in stage 3 it has a piece of each parameter.
"""

from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import nn

from dtlib.formulas.require import require
from dtlib.memory.zero.parts import PartedFlat
from dtlib.memory.zero.units import GatheredFlat

Groups = Sequence[Sequence[nn.Parameter]]


def whole_state(optimizer, flats: Iterable[PartedFlat], groups: Groups) -> dict:
    """The whole state of an optimizer of parts, on every rank; every rank calls it.

    `groups` lists the parameters of each parameter group, in the order in which an optimizer of
    whole parameters would number them. Parts that are more precise than the weights are in it,
    under "master". Raises ValueError for an optimizer of something else.
    """
    flats = list(flats)
    _check_parts(optimizer, flats, groups)
    number, state = _numbers(groups), {}
    for flat in flats:
        own_state = dict(optimizer.state.get(flat.own, {}))
        if flat.own.dtype != flat.whole.dtype:
            own_state["master"] = flat.own
        for name, value in own_state.items():
            cut = _is_cut(name, value, flat.own.shape)
            values = flat.gathered(value) if cut else [value] * len(flat.sizes)
            for parameter, piece in zip(flat.parameters, values, strict=True):
                state.setdefault(number[parameter], {})[name] = _kept(piece)
    return _state_dict(optimizer, state, groups, number)


@torch.no_grad()
def load_whole_state(optimizer, flats: Iterable[PartedFlat], groups: Groups, state_dict) -> None:
    """Give an optimizer of parts what `whole_state`, or one of whole parameters, has returned.

    Raises ValueError for an optimizer of something else, for other parameter groups, for another
    shape, and for counters that differ within one flat tensor, whose part has only one; then
    nothing is loaded.
    """
    _check_parts(optimizer, flats, groups)
    _check_state_dict("load_state_dict", state_dict, groups)
    number, loaded = _numbers(groups), {}
    for flat in flats:
        saved = [state_dict["state"].get(number[p], {}) for p in flat.parameters]
        names = dict.fromkeys(name for one in saved for name in one)
        loaded[flat.own] = {name: _loaded(name, saved, flat) for name in names}
    for own, state in loaded.items():
        if "master" in state:
            own.copy_(state.pop("master"))
    _take(optimizer, loaded, state_dict)


def gather_optimizer_state(optimizer, flats: Iterable[GatheredFlat]) -> dict:
    """The whole state of an optimizer of pieces, on every rank; every rank calls it.

    Groups are those of the optimizer. Raises ValueError for an optimizer of something else.
    """
    flats = list(flats)
    groups = _groups_of_pieces(optimizer, flats)
    number, state = _numbers(groups), {}
    for flat in flats:
        own = [optimizer.state.get(piece, {}) for piece in flat.pieces]
        for name in dict.fromkeys(name for one in own for name in one):
            values = [one.get(name) for one in own]
            pairs = zip(values, flat.pieces, strict=True)
            cut = [_is_cut(name, value, piece.shape) for value, piece in pairs]
            if any(cut):
                parts = [v if is_cut else None for v, is_cut in zip(values, cut, strict=True)]
                whole = flat.gathered(flat.lay_out_part(parts))
                values = [w if c else v for w, v, c in zip(whole, values, cut, strict=True)]
            for piece, value in zip(flat.pieces, values, strict=True):
                if piece in number and value is not None:
                    state.setdefault(number[piece], {})[name] = _kept(value)
    return _state_dict(optimizer, state, groups, number)


@torch.no_grad()
def load_optimizer_state(optimizer, flats: Iterable[GatheredFlat], state_dict: Mapping) -> None:
    """Give each piece its part of a whole state, of any number of ranks or of none.

    Raises ValueError for an optimizer of something else, for other parameter groups, and for
    another shape; then nothing is loaded.
    """
    groups = _groups_of_pieces(optimizer, flats)
    _check_state_dict("load_optimizer_state_dict", state_dict, groups)
    number, loaded = _numbers(groups), {}
    for flat in flats:
        for i, piece in enumerate(flat.pieces):
            saved = state_dict["state"].get(number.get(piece), {})
            loaded[piece] = {name: _part_of(name, x, flat, i) for name, x in saved.items()}
    _take(optimizer, {piece: loaded[piece] for piece in number}, state_dict)


def _numbers(groups: Groups) -> dict[nn.Parameter, int]:
    return {p: i for i, p in enumerate(p for parameters in groups for p in parameters)}


def _groups_of_pieces(optimizer, flats: Iterable[GatheredFlat]) -> Groups:
    _check_owned(optimizer, [piece for flat in flats for piece in flat.pieces])
    return [group["params"] for group in optimizer.param_groups]


def _check_parts(optimizer, flats: Iterable[PartedFlat], groups: Groups) -> None:
    _check_owned(optimizer, [flat.own for flat in flats])
    found, expected = len(optimizer.param_groups), len(groups)
    allowed = f"{expected}: a part mixes parameters, so that its groups are not theirs"
    require(found == expected, "optimizer", "the number of parameter groups", found, allowed)


def _check_owned(optimizer, owned: Iterable[nn.Parameter]) -> None:
    owned = set(owned)
    if others := sum(p not in owned for group in optimizer.param_groups for p in group["params"]):
        raise ValueError(
            f"optimizer: it has {others} parameters that are no parts of the sharded ones; "
            "make it of FullySharded's own parameters()"
        )


def _check_state_dict(owner: str, state_dict, groups: Groups) -> None:
    good = isinstance(state_dict, Mapping) and {"state", "param_groups"} <= set(state_dict)
    kind = list(state_dict) if isinstance(state_dict, Mapping) else type(state_dict).__name__
    require(good, owner, "state_dict", kind, "a dict of 'state' and 'param_groups'")
    sizes = [len(group["params"]) for group in state_dict["param_groups"]]
    here = [len(parameters) for parameters in groups]
    if sizes != here:
        raise ValueError(
            f"state_dict: parameter groups of {sizes} parameters; here they have {here}"
        )


def _state_dict(optimizer, state: dict, groups: Groups, number: dict) -> dict:
    listed = [
        {**settings, "params": [number[p] for p in parameters]}
        for settings, parameters in zip(optimizer.param_groups, groups, strict=True)
    ]
    return {"state": dict(sorted(state.items())), "param_groups": listed}


def _take(optimizer, loaded: Mapping, state_dict: Mapping) -> None:
    for own, state in loaded.items():
        optimizer.state[own] = state
    for group, other in zip(optimizer.param_groups, state_dict["param_groups"], strict=True):
        group.update({key: value for key, value in other.items() if key != "params"})


def _kept(value):
    return value.detach().clone() if torch.is_tensor(value) else value


def _is_cut(name: str, value, shape: torch.Size) -> bool:
    """Whether it has a number for each number of the parameter; `step` is a counter for all."""
    return torch.is_tensor(value) and value.shape == shape and name != "step"


def _is_long(value) -> bool:
    return torch.is_tensor(value) and value.numel() != 1


def _refuse_shape(name: str, value, shape: torch.Size) -> None:
    raise ValueError(
        f"state_dict: {name!r} has shape {list(value.shape)}, but must have that of its "
        f"parameter, {list(shape)}"
    )


def _part_of(name: str, value, flat: GatheredFlat, place: int):
    """What of a parameter's value belongs to its piece; a counter belongs to all alike."""
    if _is_cut(name, value, flat.shapes[place]):
        return flat.own_of(value, place).to(flat.own, copy=True)
    if _is_long(value):
        _refuse_shape(name, value, flat.shapes[place])
    return _kept(value)


def _loaded(name: str, saved: list[dict], flat: PartedFlat):
    """What of the parameters' values belongs to the part; a counter must be the same for all."""
    values = [one.get(name) for one in saved]
    pairs = list(zip(values, flat.shapes, strict=True))
    if all(value is None or _is_cut(name, value, shape) for value, shape in pairs):
        return flat.lay_out(values, dtype=flat.own.dtype)[flat.place].clone()
    given = [value for value in values if value is not None]
    for value, shape in pairs:
        if getattr(value, "shape", shape) != shape and any(map(_is_long, given)):
            _refuse_shape(name, value, shape)
    if any(float(value) != float(given[0]) for value in given):
        raise ValueError(
            f"state_dict: {name!r} differs among parameters that lie in one flat tensor: "
            f"{sorted({float(value) for value in given})}; their part has only one"
        )
    return _kept(given[0])
