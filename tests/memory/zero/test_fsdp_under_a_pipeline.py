"""What torch's pipelining makes of FSDP2: one gather and one scatter a step, as in stage 1."""

import pytest

from dtlib import launch
from dtlib.memory import sharded_sent_bytes, zero_sent_bytes

UNITS, WIDTH, MICRO_BATCHES = 3, 16, 4
PARAMS = UNITS * WIDTH * WIDTH


def step(reshard: bool) -> tuple[int, int, int]:
    """Gathers, scatters and sent bytes of a rank in one step of 1F1B: two stages, two replicas."""
    import torch
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    from dtlib.parallelism import counted

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("pp", "dp"))
    pp, dp = mesh["pp"], mesh["dp"]
    layers = [torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(UNITS)]
    stage = torch.nn.Sequential(*layers)
    for module in (*layers, stage):
        fully_shard(module, mesh=dp, reshard_after_forward=reshard)
    place = pp.get_local_rank()
    schedule = Schedule1F1B(
        PipelineStage(stage, place, 2, torch.device("cpu"), group=pp.get_group()),
        MICRO_BATCHES,
        loss_fn=lambda y, target: y.square().mean(),
    )
    for _ in range(2):  # the first step also asks for shapes
        with counted(dp.get_group()) as log:
            x = torch.randn(2 * MICRO_BATCHES, WIDTH)
            schedule.step(x) if place == 0 else schedule.step(target=x)
    return log.calls["all_gather"], log.calls["reduce_scatter"], log.total_bytes


@pytest.fixture(scope="module")
def team():
    with launch(4) as ranks:
        yield ranks


def test_with_weights_kept_a_step_gathers_once_and_scatters_once(team):
    one = sharded_sent_bytes(PARAMS, gathers=1, scatters=1, dp=2, element_bytes=4)
    assert one == zero_sent_bytes(PARAMS, zero=1, dp=2, m=MICRO_BATCHES, element_bytes=4)
    for gathers, scatters, sent in team.run(step, False):
        assert (gathers, scatters, sent) == (UNITS, UNITS, one)


def test_sabotage_with_weights_released_each_micro_batch_gathers_again(team):
    for gathers, scatters, _ in team.run(step, True):
        assert gathers >= UNITS * MICRO_BATCHES
        assert scatters == UNITS
