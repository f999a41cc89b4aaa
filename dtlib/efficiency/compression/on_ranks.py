"""Compressors on real ranks: as hooks of our `DataParallel` and of torch's wrapper.

A hook takes the place of a bucket's all-reduce. Each bucket has a compressor of its own, made by
`fresh` from the one that is given, so that memories and seeds' steps do not mix.
"""

from collections.abc import Sequence
from weakref import WeakKeyDictionary

import torch
import torch.distributed as dist
from torch import nn

from dtlib.collectives.transport import Done
from dtlib.efficiency.compression.compressor import Compressor, Dense
from dtlib.efficiency.compression.programs import WireMeter, across
from dtlib.parallelism.data.replica import Bucket, DataParallel
from dtlib.runtime.process_group import ranks_of, require_alike


class CompressedDataParallel(DataParallel):
    """`DataParallel` whose buckets travel compressed.

    Arguments: `compressor`; the others as for `DataParallel`. `meter` counts what this rank sends.
    A bucket's program runs when the bucket is ready, and the backward pass waits for it.
    Gradients that are not finite arrive as such on all ranks, and no memory keeps them.
    Raises, besides, ValueError on every rank where ranks have compressors of other settings.
    """

    def __init__(self, module: nn.Module, group, *, compressor: Compressor, **options):
        self.meter = WireMeter(ranks_of(group)[1])
        super().__init__(module, group, **options)
        self.take(compressor)

    def take(self, compressor: Compressor) -> None:
        """From the next pass on compress with this one, on all ranks; memories are forgotten."""
        self.compressor = compressor
        self._of_bucket: WeakKeyDictionary[Bucket, Compressor] = WeakKeyDictionary()

    def launch(self, bucket: Bucket) -> None:
        """Send a bucket compressed; the ranks' sum, as the all-reduce would leave it."""
        if bucket not in self._of_bucket:
            check_alike(self.compressor, bucket.flat, self.group)
            self._of_bucket[bucket] = self.compressor.fresh()
        program = self._of_bucket[bucket].program(bucket.flat, bucket.shapes)
        bucket.flat.copy_(across(program, self.group, self.meter).mean.mul_(self.meter.P))
        bucket.work = Done()


class CompressionHook:
    """The state of `compression_hook`, for torch's `DistributedDataParallel`.

    Arguments: `compressor`; `group`; `whole_passes`, so many backward passes first are sent whole:
    torch arranges its buckets anew after the first, and a memory of the old ones would be lost.
    `meter` counts what this rank sends.

    On a rank: ``ddp.register_comm_hook(CompressionHook(compressor, group), compression_hook)``.
    """

    def __init__(self, compressor: Compressor, group, *, whole_passes: int = 1):
        self.compressor, self.group, self.whole_passes = compressor, group, whole_passes
        self.meter = WireMeter(ranks_of(group)[1])
        self.passes = 0
        self._of_bucket: dict[tuple[nn.Parameter, ...], Compressor] = {}

    def of(self, bucket: dist.GradBucket) -> Compressor:
        """The compressor of a bucket; a new one where other parameters lie in it, or otherwise."""
        if self.passes < self.whole_passes:
            return Dense()
        listed = tuple(bucket.parameters())
        if listed not in self._of_bucket:
            check_alike(self.compressor, bucket.buffer(), self.group)
            self._of_bucket[listed] = self.compressor.fresh()
        return self._of_bucket[listed]


def compression_hook(
    state: CompressionHook, bucket: dist.GradBucket
) -> torch.futures.Future[torch.Tensor]:
    """What torch's wrapper calls for each bucket whose gradients are ready; gives their mean."""
    flat, shapes = bucket.buffer(), [gradient.shape for gradient in bucket.gradients()]
    program = state.of(bucket).program(flat, shapes)
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(across(program, state.group, state.meter).mean)
    state.passes += bucket.is_last()
    return done


def check_alike(compressor: Compressor, flat: torch.Tensor, group) -> None:
    """Raise ValueError on every rank unless all compress vectors of one length in the same way.

    Messages say nothing of the seed that chose their places: added to another seed's they would be
    garbage, and no error.
    """
    own = f"{compressor!r} of {flat.numel()} numbers of {flat.dtype}"
    require_alike("compressor", own, group, "all ranks must have the same, seeds included")


def mean_of(
    compressor: Compressor,
    flat: torch.Tensor,
    group,
    meter: WireMeter | None = None,
    shapes: Sequence[torch.Size] = (),
) -> torch.Tensor:
    """The compressed mean of one vector over a group; every rank calls it."""
    return across(compressor.program(flat, shapes), group, meter).mean
