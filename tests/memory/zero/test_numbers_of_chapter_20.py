"""What chapter 20 prints about stage 3, in numbers that were worked out by hand."""

import pytest

from dtlib.memory import ZeroStep, sharded_sent_bytes, zero_sent_bytes
from dtlib.runtime import launch

UNITS, WIDTH, P = 3, 64, 4
NUMBERS = UNITS * WIDTH**2  # 12,288


def counted_step(micro_batches, reshard=True):
    """Calls, bytes sent, and bytes held of a rank in the page's stage 3, fp32 with AdamW."""
    import torch
    import torch.distributed as dist
    from torch import nn

    from dtlib.memory import FullySharded
    from dtlib.parallelism import counted

    layers = nn.ModuleList(nn.Linear(64, 64, bias=False) for _ in range(3))
    model, group = nn.Sequential(*layers), dist.group.WORLD
    net = FullySharded(model, group, units=layers, reshard=reshard)
    optimizer = torch.optim.AdamW(net.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        with counted(group) as log:
            for _ in range(micro_batches):
                net(torch.randn(4, 64)).square().mean().backward()
        parts = list(net.parameters())
        tensors = [*model.parameters(), *parts, *(p.grad for p in parts)]
        tensors += [t for state in optimizer.state.values() for t in state.values() if t.dim()]
        storages = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors}
        optimizer.step()
    return log.calls, log.total_bytes, sum(storages.values())


@pytest.fixture(scope="module")
def four():
    with launch(P, timeout=60) as ranks:
        yield ranks


@pytest.mark.parametrize(
    ("m", "gathers", "scatters", "sent"), [(1, 6, 3, 110592), (4, 24, 12, 442368)]
)
def test_a_step_of_stage_3_in_bytes(four, m, gathers, scatters, sent):
    """Each of 9 or 36 collectives sends 3/4 of 16,384 bytes; a quarter of 16 bytes each is held."""
    assert sent == (gathers + scatters) * 3 * 4096
    assert (
        sharded_sent_bytes(NUMBERS, 2 * m, m, P, 4) == zero_sent_bytes(NUMBERS, 3, P, m, 4) == sent
    )
    step = ZeroStep(3, P, [WIDTH**2] * UNITS, m, element_bytes=4, optimizer_bytes=8)
    assert (step.sent, step.held) == (sent, 49152)
    for found in four.run(counted_step, m):
        assert found == ({"all_gather": gathers, "reduce_scatter": scatters}, sent, 49152)


def test_sabotage_weights_that_are_not_released_are_not_gathered_again(four):
    for calls, sent, _ in four.run(counted_step, 1, reshard=False):
        assert (calls["all_gather"], sent) == (3, 73728)
