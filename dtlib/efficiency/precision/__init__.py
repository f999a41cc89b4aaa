"""Numbers of few bits: what rounding keeps, what it loses, and how training lives with that.

`formats`, a format as its fields; `rounding`, numbers to the nearest of a format; `blocks`, scales
that neighbours share; `windows`, which share of a gradient falls out; `scaler`, the scale of the
loss; `sums`, long sums; `kept`, weights of few bits; `products`, fp8 training emulated; `spikes`,
how far Adam moves; `cost`, what a cast takes; `fixed_order`, sums over ranks with the same bits.
"""

from typing import TYPE_CHECKING

from dtlib.lazy import face

if TYPE_CHECKING:
    from dtlib.efficiency.precision.formats import (
        BF16,
        E2M1,
        E2M3,
        E3M2,
        E4M3,
        E5M2,
        FP16,
        FP32,
        TF32,
        FloatFormat,
        format_of,
    )
    from dtlib.efficiency.precision.rounding import cast, decode, quantise
    from dtlib.efficiency.precision.blocks import (
        Blocks,
        block_quantise,
        mx,
        nvfp4,
        rms_error,
        whole_quantise,
    )
    from dtlib.efficiency.precision.windows import share_above, share_below, share_subnormal
    from dtlib.efficiency.precision.scaler import LossScaler
    from dtlib.efficiency.precision.sums import (
        ACCUMULATOR,
        kahan_sum,
        pairwise_sum,
        promoted_sum,
        running_sum,
    )
    from dtlib.efficiency.precision.kept import KeptWeights, walk
    from dtlib.efficiency.precision.products import Recipe, RoundedLinear, round_products
    from dtlib.efficiency.precision.spikes import first_step_rates, most_step_rates, step_rates
    from dtlib.efficiency.precision.cost import (
        cast_time,
        eight_bit_product_time,
        eight_bit_side,
        sixteen_bit_product_time,
    )
    from dtlib.efficiency.precision.fixed_order import ordered_sum, reproducible_sum

__getattr__, __dir__, __all__ = face(__name__)
