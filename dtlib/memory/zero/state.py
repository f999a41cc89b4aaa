"""The state of an optimizer of pieces, as one of whole parameters has it, and back.

An optimizer of FullySharded's parameters has a state for each piece. All ranks' states of a
parameter together are what an optimizer of the plain module would have, under the same number.
"""

from collections.abc import Iterable, Mapping

import torch

from dtlib.formulas.require import require
from dtlib.memory.zero.units import Shard


def gather_optimizer_state(optimizer, shards: Iterable[Shard]) -> dict:
    """The whole state, on every rank; every rank calls it. Groups are those of the optimizer.

    Raises ValueError for an optimizer of something else.
    """
    shards = list(shards)
    number, state = _numbers(optimizer, shards), {}
    for shard in shards:
        own = [optimizer.state.get(piece, {}) for piece in shard.pieces]
        for name in dict.fromkeys(name for one in own for name in one):
            values = [one.get(name) for one in own]
            cut = [
                name != "step" and getattr(value, "shape", None) == piece.shape
                for value, piece in zip(values, shard.pieces, strict=True)
            ]
            if any(cut):
                parts = [v if is_cut else None for v, is_cut in zip(values, cut, strict=True)]
                whole = shard.gathered(shard.lay_out_part(parts))
                values = [w if c else v for w, v, c in zip(whole, values, cut, strict=True)]
            for piece, value in zip(shard.pieces, values, strict=True):
                if piece in number and value is not None:
                    kept = value.detach().clone() if torch.is_tensor(value) else value
                    state.setdefault(number[piece], {})[name] = kept
    groups = [
        {**settings, "params": [number[piece] for piece in settings["params"]]}
        for settings in optimizer.param_groups
    ]
    return {"state": dict(sorted(state.items())), "param_groups": groups}


@torch.no_grad()
def load_optimizer_state(optimizer, shards: Iterable[Shard], state_dict: Mapping) -> None:
    """Give each piece its part of a whole state, of any number of ranks or of none.

    Raises ValueError for an optimizer of something else, for other parameter groups, and for
    another shape; then nothing is loaded.
    """
    number, loaded = _numbers(optimizer, shards), {}
    good = isinstance(state_dict, Mapping) and {"state", "param_groups"} <= set(state_dict)
    kind = list(state_dict) if isinstance(state_dict, Mapping) else type(state_dict).__name__
    allowed = "a dict of 'state' and 'param_groups'"
    require(good, "load_optimizer_state_dict", "state_dict", kind, allowed)
    sizes = [len(group["params"]) for group in state_dict["param_groups"]]
    here = [len(group["params"]) for group in optimizer.param_groups]
    if sizes != here:
        raise ValueError(
            f"state_dict: parameter groups of {sizes} parameters; here they have {here}"
        )
    for shard in shards:
        for i, piece in enumerate(shard.pieces):
            saved = state_dict["state"].get(number.get(piece), {})
            loaded[piece] = {name: _part_of(name, x, shard, i) for name, x in saved.items()}
    for piece in number:
        optimizer.state[piece] = loaded[piece]
    for group, other in zip(optimizer.param_groups, state_dict["param_groups"], strict=True):
        group.update({key: value for key, value in other.items() if key != "params"})


def _part_of(name: str, value, shard: Shard, place: int):
    """What of a parameter's value belongs to its piece; a counter belongs to all alike."""
    if not torch.is_tensor(value):
        return value
    shape = shard.shapes[place]
    if name != "step" and value.shape == shape:
        return shard.own_of(value, place).to(shard.own, copy=True)
    if value.numel() != 1:
        raise ValueError(
            f"state_dict: {name!r} has shape {list(value.shape)}, but must have that of its "
            f"parameter, {list(shape)}"
        )
    return value.clone()


def _numbers(optimizer, shards: Iterable[Shard]) -> dict:
    """The number of each piece in the optimizer's own order."""
    pieces = {piece for shard in shards for piece in shard.pieces}
    listed = [piece for group in optimizer.param_groups for piece in group["params"]]
    if others := sum(piece not in pieces for piece in listed):
        raise ValueError(
            f"optimizer: it has {others} parameters that are no parts of the sharded ones; "
            "make it of FullySharded's own parameters()"
        )
    return {piece: i for i, piece in enumerate(listed)}
