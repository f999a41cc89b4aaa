"""Pipeline parallelism: schedules as data, and what reads them.

The nouns stand in `schedule`; builders in `builders` and `v_shaped`; then `check`, `simulate`,
`draw`; the equations in `cost`; `execute` runs a schedule on real ranks; it needs torch, which is
imported when it is first asked for.
"""

from dtlib.lazy import on_demand
from dtlib.parallelism.pipeline.builders import gpipe, interleaved, one_f_one_b, zero_bubble
from dtlib.parallelism.pipeline.check import PipelineError, check_schedule
from dtlib.parallelism.pipeline.cost import (
    dual_pipe_wait_time,
    interleaved_peak_count,
    one_f_one_b_peak_count,
    pipeline_bubble_fraction,
    pipeline_sent_bytes,
    pipeline_step_time,
    zero_bubble_peak_count,
    zero_bubble_wait_time,
)
from dtlib.parallelism.pipeline.draw import draw
from dtlib.parallelism.pipeline.schedule import Action, PipelineSchedule, Together
from dtlib.parallelism.pipeline.simulate import PipelineTimeline, simulate
from dtlib.parallelism.pipeline.v_shaped import dual_pipe, dual_pipe_v, zb_v

__all__ = [
    "Action",
    "GPTStage",
    "PipelineError",
    "PipelineRun",
    "PipelineSchedule",
    "PipelineTimeline",
    "Together",
    "check_schedule",
    "draw",
    "dual_pipe",
    "dual_pipe_v",
    "dual_pipe_wait_time",
    "gpipe",
    "interleaved",
    "interleaved_peak_count",
    "one_f_one_b",
    "one_f_one_b_peak_count",
    "pipeline_bubble_fraction",
    "pipeline_sent_bytes",
    "pipeline_step_time",
    "run",
    "simulate",
    "stages_of",
    "zb_v",
    "zero_bubble",
    "zero_bubble_peak_count",
    "zero_bubble_wait_time",
]

_NEEDS_TORCH = {"execute": ("PipelineRun", "run"), "stages": ("GPTStage", "stages_of")}

__getattr__ = on_demand(__name__, _NEEDS_TORCH)
