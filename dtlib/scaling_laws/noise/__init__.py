"""Batch size and gradient noise: how many samples a step should have, and what says so.

`estimate`, the noise scale from norms of gradients; `tradeoff`, steps against samples, time and
price; `rates`, what a sign wants; `quadratic`, a loss on which all of it is exact; `on_ranks`, the
noise scale of a data-parallel run; `consumed`, schedules of what was consumed; `runs`, models that
learn at any batch size; `recorded`, those of the chapter.
"""

from typing import TYPE_CHECKING

from dtlib.lazy import face

if TYPE_CHECKING:
    from dtlib.scaling_laws.noise.estimate import (
        NoiseScale,
        batch_gradient_square,
        noise_scale,
        per_example_noise_scale,
        simple_noise_scale,
    )
    from dtlib.scaling_laws.noise.tradeoff import (
        Hyperbola,
        best_rate,
        fastest_batch,
        fit_hyperbola,
        loss_cost,
        loss_time,
        momentum_rate,
        sample_efficiency,
        samples_to_loss,
        steps_to_loss,
    )
    from dtlib.scaling_laws.noise.rates import best_sign_rate, sign_agreement, square_root_rate
    from dtlib.scaling_laws.noise.quadratic import NoisyQuadratic
    from dtlib.scaling_laws.noise.on_ranks import NoiseMeter, consumed_by_all
    from dtlib.scaling_laws.noise.consumed import BatchRamp, SampleSchedule
    from dtlib.scaling_laws.noise.recorded import recorded_best, recorded_noise, recorded_to_loss

__getattr__, __dir__, __all__ = face(__name__)
