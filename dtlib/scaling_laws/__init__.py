"""What a larger run buys: the loss as a function of parameters, tokens and batch.

`grid`, models of our own on a language whose entropy is known; `emergence`, jumps that are in the
model and jumps that are in the metric.
"""

from typing import TYPE_CHECKING

from dtlib.lazy import face

if TYPE_CHECKING:
    from dtlib.scaling_laws.grid.language import ZipfWords
    from dtlib.scaling_laws.grid.recorded import Curve, Run, recorded_curves, recorded_runs
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
        Identified,
        NotIdentified,
        fit_broken,
        identified,
        require_identified,
    )

__getattr__, __dir__, __all__ = face(__name__)
