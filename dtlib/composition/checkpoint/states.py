"""Which parts of which tensors a run has: its weights, and the state of its optimizer.

The noun is `Held`: some numbers of an optimizer's parameter, and which run of which piece of which
weight they are. A plain parameter holds one piece, a flat part of ZeRO runs of several.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import torch
from torch import nn

from dtlib.composition.checkpoint.boxes import Box, boxes_of_run, moved, sizes, volume, whole_box
from dtlib.composition.checkpoint.manifest import Manifest
from dtlib.composition.checkpoint.shards import Part
from dtlib.composition.hybrid.parallel import HybridRun
from dtlib.memory.zero.full import FullySharded


class Held(NamedTuple):
    """From `first` on in a flattened tensor: numbers `start` to `stop - 1` of the piece `box`."""

    name: str
    shape: tuple[int, ...]
    box: Box
    start: int
    stop: int
    first: int


def parts_of(run, optimizer=None) -> list[Part]:
    """The parts of a run's weights on this rank, and of its optimizer's state.

    Arguments: `run`, what `parallelize` made, a `FullySharded` module, or a plain module of which
    every rank has all; `optimizer` of its parameters, or None.
    """
    weights = weights_of(run)
    parts = [p for q, held in weights.items() for p in _cut("model", q.detach(), held)]
    if optimizer is not None:
        for q, held in slots_of(run, optimizer).items():
            for key, value in optimizer_state(optimizer, q).items():
                if torch.is_tensor(value):
                    parts += _cut(f"optimizer.{key}", value, held)
    return parts


def weights_of(run) -> dict[torch.Tensor, list[Held]]:
    """Each tensor of this rank's weights, and what it holds."""
    if isinstance(run, HybridRun) and run.layout.zero < 3:
        return {p: [_all_of(piece, run.pieces.shapes)] for p, piece in run.pieces.of.items()}
    if isinstance(run, HybridRun):
        pieces = {p: _all_of(piece, run.pieces.shapes) for p, piece in run.pieces.of.items()}
        return {q: h for stage in run.stages.values() for q, h in _sharded(stage, pieces).items()}
    if isinstance(run, FullySharded):
        named = dict(run.module.named_parameters())
        shapes = {p: s for f in run._flats() for p, s in zip(f.parameters, f.shapes, strict=True)}
        return _sharded(run, {p: _whole(name, shapes[p]) for name, p in named.items()})
    return {p: [_whole(name, p.shape)] for name, p in run.named_parameters()}


def slots_of(run, optimizer) -> dict[torch.Tensor, list[Held]]:
    """Each parameter of an optimizer, and what it holds: flat parts, where it has them."""
    weights = weights_of(run)
    if not hasattr(optimizer, "flats"):
        listed = {q for group in optimizer.param_groups for q in group["params"]}
        return {q: held for q, held in weights.items() if q in listed}
    return {flat.own: list(_in_flat(flat, weights)) for flat in optimizer.flats}


def optimizer_state(optimizer, parameter) -> dict:
    """What an optimizer keeps of one of its parameters."""
    several = getattr(optimizer, "optimizers", [optimizer])
    return next((o.state[parameter] for o in several if parameter in o.state), {})


def make_state(run, optimizer, manifest: Manifest) -> None:
    """Give a fresh optimizer the state that a checkpoint has: zeros, for the numbers to come."""
    several = getattr(optimizer, "optimizers", [optimizer])
    kinds = {
        name: kind for name, kind in manifest.tensors().items() if name.startswith("optimizer.")
    }
    for q, held in slots_of(run, optimizer).items():
        owner = next(o for o in several if any(q is p for g in o.param_groups for p in g["params"]))
        for name, (shape, dtype) in kinds.items():
            key, _, of = name.removeprefix("optimizer.").partition(".")
            if held and of == held[0].name and key not in owner.state.get(q, {}):
                like = {"dtype": getattr(torch, dtype), "device": q.device}
                whole = shape == held[0].shape
                owner.state[q][key] = (
                    torch.zeros_like(q, dtype=like["dtype"])
                    if whole
                    else torch.zeros(shape, **like)
                )


def _all_of(piece, shapes: Mapping) -> Held:
    return Held(piece.name, tuple(shapes[piece.name]), piece.box, 0, volume(piece.box), 0)


def _whole(name: str, shape) -> Held:
    box = whole_box(shape)
    return Held(name, tuple(shape), box, 0, volume(box), 0)


def _sharded(module: FullySharded, pieces: Mapping) -> dict[torch.Tensor, list[Held]]:
    """The pieces that stage 3 of ZeRO has left of parameters."""
    found: dict[torch.Tensor, list[Held]] = {}
    for flat in module._flats():
        runs = {p: (start, stop) for p, start, stop, _ in _runs(flat)}
        for parameter, piece in flat.piece_of.items():
            start, stop = runs.get(parameter, (0, 0))
            found[piece] = [pieces[parameter]._replace(start=start, stop=stop)]
    return found


def _in_flat(flat, weights: Mapping) -> Iterator[Held]:
    for parameter, start, stop, first in _runs(flat):
        (held,) = weights[parameter]
        yield held._replace(start=start, stop=stop, first=first)


def _runs(flat) -> Iterator[tuple[nn.Parameter, int, int, int]]:
    """What of each parameter lies in a flat tensor's own part, and from where on there."""
    offset = 0
    for parameter, size in zip(flat.parameters, flat.sizes, strict=True):
        start, stop = max(flat.place.start, offset), min(flat.place.stop, offset + size)
        if start < stop:
            yield parameter, start - offset, stop - offset, start - flat.place.start
        offset += size


def _cut(kind: str, tensor: torch.Tensor, holds: Iterable[Held]) -> Iterator[Part]:
    """A tensor that lies as a parameter does, as parts; one number for all is a part of its own."""
    flat = tensor.reshape(-1)
    for held in holds:
        name = f"{kind}.{held.name}"
        if tensor.ndim == 0 and held.shape:
            yield Part(name, (), (), tensor)
            continue
        place = held.first
        for box in boxes_of_run(sizes(held.box), held.start, held.stop):
            count = volume(box)
            numbers = flat[place : place + count].view(sizes(box))
            yield Part(name, held.shape, moved(box, held.box), numbers)
            place += count
