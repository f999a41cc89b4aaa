"""Pipeline parallelism: schedules as data, and what reads them.

The nouns stand in `schedule`; builders in `builders` and `v_shaped`; then `check`, `simulate`,
`draw`; the equations in `cost`; `run` executes a schedule on real ranks and needs torch.
"""

from dtlib.parallelism.pipeline.builders import gpipe, interleaved, one_f_one_b, zero_bubble
from dtlib.parallelism.pipeline.check import PipelineError, check_schedule
from dtlib.parallelism.pipeline.draw import draw
from dtlib.parallelism.pipeline.schedule import Action, PipelineSchedule, Together
from dtlib.parallelism.pipeline.simulate import PipelineTimeline, simulate
from dtlib.parallelism.pipeline.v_shaped import dual_pipe, dual_pipe_v, zb_v

__all__ = [
    "Action",
    "PipelineError",
    "PipelineSchedule",
    "PipelineTimeline",
    "Together",
    "check_schedule",
    "draw",
    "dual_pipe",
    "dual_pipe_v",
    "gpipe",
    "interleaved",
    "one_f_one_b",
    "simulate",
    "zb_v",
    "zero_bubble",
]
