"""Pipeline parallelism: schedules as data, and what reads them.

The nouns stand in `schedule`, which prints itself by `grid`; builders in `builders`, `v_shaped` and
`automatic`; `play` works through the rows, by the numbers of `results`, for `check` and
`simulation`; then `drawing`; the equations in `cost` and, where stages are uneven, in `uneven`;
`execute` runs a schedule on real ranks.
"""

from typing import TYPE_CHECKING

from dtlib.lazy import face

# fmt: off
if TYPE_CHECKING:
    from dtlib.parallelism.pipeline.schedule import Action, Together, PipelineSchedule
    from dtlib.parallelism.pipeline.builders import gpipe, one_f_one_b, interleaved, zero_bubble
    from dtlib.parallelism.pipeline.automatic import automatic_schedule
    from dtlib.parallelism.pipeline.v_shaped import zb_v, dual_pipe_v, dual_pipe
    from dtlib.parallelism.pipeline.check import PipelineError, check_schedule
    from dtlib.parallelism.pipeline.simulation import PipelineTimeline, simulate
    from dtlib.parallelism.pipeline.drawing import draw_pipeline
    from dtlib.parallelism.pipeline.cost import (
        pipeline_bubble_fraction, pipeline_step_time, one_f_one_b_peak_count,
        interleaved_peak_count, interleaved_held_count, zero_bubble_wait_time,
        zero_bubble_least_wait_time, zero_bubble_peak_count, dual_pipe_wait_time,
        pipeline_sent_bytes, pipeline_bubble_time, pipeline_send_time,
    )
    from dtlib.parallelism.pipeline.uneven import pipeline_time
    from dtlib.parallelism.pipeline.stages import GPTStage, stages_of
    from dtlib.parallelism.pipeline.execute import PipelineRun, run
# fmt: on

__getattr__, __dir__, __all__ = face(__name__)
