"""Efficiency: sending less, waiting less, rounding more, and what each shortcut keeps exact.

`compression`, gradients in fewer bytes.
"""

from typing import TYPE_CHECKING

from dtlib.lazy import face

if TYPE_CHECKING:
    from dtlib.efficiency.compression.programs import (
        Exchange,
        Gather,
        Mean,
        WireMeter,
        Who,
        across,
        alone,
        together,
    )
    from dtlib.efficiency.compression.compressor import (
        Compressor,
        Dense,
        Gathered,
        Sent,
        contraction,
        linearity_defect,
        moments,
    )
    from dtlib.efficiency.compression.sparse import RandK, TopK
    from dtlib.efficiency.compression.levels import QSGD, Levels, SignSGD, level_variance
    from dtlib.efficiency.compression.low_rank import PowerSGD
    from dtlib.efficiency.compression.feedback import ErrorFeedback, TwoWay
    from dtlib.efficiency.compression.on_ranks import (
        CompressedDataParallel,
        CompressionHook,
        compression_hook,
        mean_of,
    )
    from dtlib.efficiency.compression.one_bit_adam import OneBitAdam
    from dtlib.efficiency.compression.sharded import (
        quantised_all_gather,
        quantised_reduce_scatter,
        ring_of_rounded_sums,
    )
    from dtlib.efficiency.compression.cost import (
        compressed_step_time,
        gathered_over_dense_ratio,
        levels_variance_bound,
        low_rank_fraction,
        paying_bandwidth,
        residual_bound,
        sparse_border_ranks,
        sparse_message_fraction,
    )

__getattr__, __dir__, __all__ = face(__name__)
