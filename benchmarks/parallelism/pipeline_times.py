"""Pipeline schedules on real ranks: stages of equal matrix products, on two ranks and on four.

pipeline-2-ranks    seconds of a step by schedule, of one pass alone ("F", "B", "W"), and the
                    spans of one step of each schedule
"""

from dtlib import launch, recordings
from dtlib.parallelism.pipeline import (
    gpipe,
    one_f_one_b,
    zero_bubble,
)

NAME = "pipeline-2-ranks"
WIDTH, ROWS, LAYERS, MICRO_BATCHES = 512, 256, 4, 4
REPETITIONS = 9
SCHEDULES = {
    "GPipe, 2 ranks": gpipe(2, MICRO_BATCHES),
    "1F1B, 2 ranks": one_f_one_b(2, MICRO_BATCHES),
    "ZB-H1, 2 ranks": zero_bubble(2, MICRO_BATCHES, 1),
    "ZB-H2, 2 ranks": zero_bubble(2, MICRO_BATCHES, 2),
    "1F1B, 4 ranks": one_f_one_b(4, MICRO_BATCHES),
}
ALONE = zero_bubble(1, MICRO_BATCHES, 1)


def steps(schedules, repetitions):
    """On each rank: for every schedule the spans of each repetition, of all ranks."""
    import torch
    import torch.distributed as dist
    from torch import nn

    from dtlib.parallelism.pipeline import run

    def stage():
        return nn.Sequential(*(nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)))

    torch.set_num_threads(1)
    torch.manual_seed(0)
    stages = [stage() for _ in range(dist.get_world_size())]
    x = torch.randn(MICRO_BATCHES * ROWS, WIDTH, requires_grad=True)
    spans = {name: [] for name in schedules}
    for _ in range(repetitions + 1):
        for name, schedule in schedules.items():
            dist.barrier()
            done = run(
                schedule,
                stages,
                list(x.detach().requires_grad_().chunk(MICRO_BATCHES)),
                x.detach(),
                nn.functional.mse_loss,
                dist.group.WORLD,
                weights=[1 / MICRO_BATCHES] * MICRO_BATCHES,
            )
            spans[name].append([list(span) for span in done.timeline.spans])
    return {name: runs[1:] for name, runs in spans.items()}


def measure_pipeline_times() -> None:
    """Measure every schedule in turn, on as many ranks as it has."""
    found = {}
    for p in (1, 2, 4):
        chosen = {name: s for name, s in (SCHEDULES | {"alone": ALONE}).items() if s.p == p}
        with launch(p) as ranks:
            found |= ranks.run(steps, chosen, REPETITIONS)[0]
    samples = {
        kind: [stop - start for run in found["alone"] for _, _, name, start, stop, _ in run
               if name[1:-1] == kind]
        for kind in "FBW"
    }  # fmt: skip
    shown = {}
    for name in SCHEDULES:
        begins = [min(span[3] for span in run) for run in found[name]]
        lengths = [
            max(span[4] for span in run) - begin
            for run, begin in zip(found[name], begins, strict=True)
        ]
        samples[name] = lengths
        middle = sorted(range(len(lengths)), key=lengths.__getitem__)[len(lengths) // 2]
        shown[name] = [
            [rank, lane, what, start - begins[middle], stop - begins[middle], kind]
            for rank, lane, what, start, stop, kind in found[name][middle]
        ]
    about = {"width": WIDTH, "rows": ROWS, "layers": LAYERS, "micro_batches": MICRO_BATCHES}
    recordings.save(NAME, samples, unit="s", **about, spans=shown)
