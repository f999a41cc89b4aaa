"""What runs a program that `dtlib.composition.types` types: one process, or ranks on pieces."""

import torch
import torch.distributed as dist

from dtlib.parallelism.operators import adjoint


class Alone:
    """One process with whole tensors: nothing is sent, for everything is there."""

    def einsum(self, spec: str, *tensors):
        return torch.einsum(spec, *tensors)

    def add(self, *tensors):
        return sum(tensors[1:], tensors[0])

    def pointwise(self, f, x):
        return f(x)

    def along(self, f, x, dim: int):
        return f(x, dim)

    def send(self, name: str, x, axis: str, dim: int = 0, to: int | None = None):
        return x


class OnRanks(Alone):
    """This rank's pieces, and the messages between ranks with their transposes.

    Argument: ``groups`` of the mesh (`dtlib.mesh.make_groups`).
    """

    def __init__(self, groups: dict):
        self.groups = groups

    def send(self, name: str, x, axis: str, dim: int = 0, to: int | None = None):
        if name == "turn":
            return turn(x, self.groups[axis], dim, to)
        along = {"dim": dim} if name in ALONG_A_DIMENSION else {}
        return getattr(adjoint, name)(x, self.groups[axis], **along)


ALONG_A_DIMENSION = ("own_slice", "gather_slices", "all_gather", "reduce_scatter")


def turn(x, group, dim: int, to: int):
    """A tensor in pieces along ``dim`` is in pieces along ``to``: an all-to-all. Back: the same."""
    rows = torch.cat(x.unsqueeze(0).chunk(dist.get_world_size(group), to + 1))
    return torch.cat(adjoint.all_to_all(rows, group).unbind(), dim)
