"""What a larger run buys: the loss as a function of parameters, tokens and batch.

`loss_surface`, the law and its fit; `compute_optimal`, how a budget is divided between a model and
its tokens; `grid`, models of our own on a language whose entropy is known; `emergence`, jumps that
are in the model and jumps that are in the metric; `noise`, how many samples a step should have.
"""

from typing import TYPE_CHECKING

from dtlib.lazy import face

if TYPE_CHECKING:
    from dtlib.scaling_laws.loss_surface.surface import (
        Allocation,
        LossSurface,
        best_params,
        best_tokens,
        excess_compute_factor,
        frontier_power,
        isoloss_tokens,
        optimal_tokens,
        run_loss,
        sized_excess,
    )
    from dtlib.scaling_laws.loss_surface.runs import Runs
    from dtlib.scaling_laws.loss_surface.parametric import (
        ParametricFit,
        Prediction,
        fit_parametric,
    )
    from dtlib.scaling_laws.loss_surface.blind import Identified, NotIdentified
    from dtlib.scaling_laws.loss_surface.published import hoffmann_runs
    from dtlib.scaling_laws.compute_optimal.power_law import PowerLaw
    from dtlib.scaling_laws.compute_optimal.isoflop import (
        IsoFlops,
        NoOptimum,
        Parabola,
        at_budgets,
        fit_isoflop,
    )
    from dtlib.scaling_laws.compute_optimal.envelope import (
        Envelope,
        LossCurve,
        NoEnvelope,
        fit_envelope,
    )
    from dtlib.scaling_laws.compute_optimal.synthetic import isoflop_runs, surface_curves
    from dtlib.scaling_laws.compute_optimal.published import PORIAN_SETTINGS, porian_runs
    from dtlib.scaling_laws.compute_optimal.serving import (
        ServedModel,
        least_params,
        least_shrink,
        lifetime_flops,
        lifetime_optimum,
        over_training_factor,
    )
    from dtlib.scaling_laws.compute_optimal.repetition import RepeatedSurface, effective_tokens
    from dtlib.scaling_laws.grid.language import ZipfWords
    from dtlib.scaling_laws.grid.recorded import Curve, TrainedRun, recorded_curves, recorded_runs
    from dtlib.scaling_laws.emergence.rulers import (
        all_fail_chance,
        at_least,
        exact_match,
        exact_match_of_scale,
        local_exponents,
        most_success_unseen,
        rise_factor,
        rise_of_share,
        shift_factor,
    )
    from dtlib.scaling_laws.emergence.answers import (
        all_right,
        answer_log_probs,
        certain_words,
        counted_right,
        question_windows,
    )
    from dtlib.scaling_laws.emergence.grokking import Addition, Moment, learn_addition, wave_share
    from dtlib.scaling_laws.emergence.induction import Look, Repeats, learn_to_copy
    from dtlib.scaling_laws.emergence.stairs import Stairs, train_in_epochs, visited_loss
    from dtlib.scaling_laws.emergence.broken import (
        BrokenPowerLaw,
        fit_broken,
        identified,
        require_identified,
    )
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
