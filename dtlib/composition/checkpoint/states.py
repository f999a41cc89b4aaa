"""Which parts of which tensors a run has: its weights, and the state of its optimizer.

The noun is `Held`: some numbers of an optimizer's parameter, and which run of which piece of which
weight they are. A plain parameter holds one piece, a flat part of ZeRO runs of several.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import torch

from dtlib.composition.checkpoint.boxes import Box, boxes_of_run, moved, sizes, volume, whole_box
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
            for key, value in optimizer.state.get(q, {}).items():
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


def make_state(run, optimizer, tensors: Mapping[str, tuple]) -> None:
    """Give a fresh optimizer the state that a checkpoint has: zeros, for the numbers to come.

    `tensors`: the whole shape and the dtype of each tensor there, as a `Manifest` tells them.
    """
    kinds: dict[str, dict] = {}
    for name, kind in tensors.items():
        what, _, of = name.partition(".")
        if what == "optimizer":
            key, _, of = of.partition(".")
            kinds.setdefault(of, {})[key] = kind
    several = getattr(optimizer, "optimizers", [optimizer])
    home = {q: one.state for one in several for g in one.param_groups for q in g["params"]}
    for q, held in slots_of(run, optimizer).items():
        for key, (shape, dtype) in kinds.get(held[0].name, {}).items() if held else ():
            size = q.shape if shape == held[0].shape else shape
            zeros = torch.zeros(size, dtype=getattr(torch, dtype), device=q.device)
            home[q][q].setdefault(key, zeros)


def _all_of(piece, shapes: Mapping) -> Held:
    return Held(piece.name, tuple(shapes[piece.name]), piece.box, 0, volume(piece.box), 0)


def _whole(name: str, shape) -> Held:
    box = whole_box(shape)
    return Held(name, tuple(shape), box, 0, volume(box), 0)


def _sharded(module: FullySharded, pieces: Mapping) -> dict[torch.Tensor, list[Held]]:
    """The pieces that stage 3 of ZeRO has left of parameters."""
    found: dict[torch.Tensor, list[Held]] = {}
    for flat in module._flats():
        for parameter, run in zip(flat.parameters, flat.runs, strict=True):
            start, stop = (run.start, run.stop) if run.start < run.stop else (0, 0)
            found[flat.piece_of[parameter]] = [pieces[parameter]._replace(start=start, stop=stop)]
    return found


def _in_flat(flat, weights: Mapping) -> Iterator[Held]:
    for parameter, run in zip(flat.parameters, flat.runs, strict=True):
        if run.start < run.stop:
            (held,) = weights[parameter]
            yield held._replace(**run._asdict())


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
