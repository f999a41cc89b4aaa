"""Answers of the labs with ranks, computed."""

import torch

from dtlib.exercises.labs import tensor_parallel_block as tp
from dtlib.exercises.worlds import record_team


def test_three_mlps_with_a_wrong_g_multiply_the_first_ones_gradient_by_p_cubed():
    torch.manual_seed(0)
    weights = [torch.randn(6, 6, dtype=torch.float64) for _ in range(6)]

    def program(comm, g):
        mine = []
        x = torch.ones(2, 6, dtype=torch.float64)
        for up, down in zip(weights[::2], weights[1::2], strict=True):
            up, down = up.chunk(2, 0)[comm.rank], down.chunk(2, 1)[comm.rank]
            mine.append(up.clone().requires_grad_())
            x = x.requires_grad_() if x.is_leaf else x
            x = g(comm, torch.tanh(tp.f(comm, x) @ mine[-1].T) @ down.T)
        x.sum().backward()
        return [w.grad for w in mine]

    right, wrong = record_team(program, 2, tp.g)[0], record_team(program, 2, tp.both)[0]
    for k, (a, b) in enumerate(zip(right, wrong, strict=True)):
        torch.testing.assert_close(b, 2.0 ** (3 - k) * a)
