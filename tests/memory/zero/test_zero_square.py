"""The commuting square: elementwise optimizers close it, all others are found and named."""

import pytest
import torch
from torch import optim

from dtlib.memory import NormalisedSGD, check_elementwise, square_gap

ELEMENTWISE = {
    "SGD": lambda w: optim.SGD(w, lr=0.1),
    "SGD with momentum": lambda w: optim.SGD(w, lr=0.1, momentum=0.9, nesterov=True),
    "Adam": optim.Adam,
    "AdamW": lambda w: optim.AdamW(w, weight_decay=0.1, amsgrad=True),
    "Adamax": optim.Adamax,
    "NAdam": optim.NAdam,
    "RAdam": optim.RAdam,
    "Adagrad": optim.Adagrad,
    "Adadelta": optim.Adadelta,
    "RMSprop": optim.RMSprop,
    "Rprop": optim.Rprop,
    "ASGD": optim.ASGD,
}


@pytest.mark.parametrize("make", ELEMENTWISE.values(), ids=ELEMENTWISE)
def test_elementwise_updates_commute_with_cutting(make):
    check_elementwise(make)
    for P in (1, 2, 3, 8):
        assert square_gap(make, P, steps=5) <= 1e-12


class ClippedSGD(optim.SGD):
    """Clips by the norm of what it is given."""

    def step(self):
        for group in self.param_groups:
            torch.nn.utils.clip_grad_norm_(group["params"], 0.1)
        super().step()


class CentralisedSGD(optim.SGD):
    """Takes the mean of each row off the gradient, as gradient centralisation does."""

    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.grad = p.grad - p.grad.mean(-1, keepdim=True)
        super().step()


OTHERS = {
    "NormalisedSGD": NormalisedSGD,
    "ClippedSGD": lambda w: ClippedSGD(w, lr=0.1),
    "CentralisedSGD": lambda w: CentralisedSGD(w, lr=0.1),
    "Adafactor": optim.Adafactor,
}


@pytest.mark.parametrize("name", OTHERS)
def test_sabotage_updates_that_look_at_several_numbers_do_not(name):
    assert square_gap(OTHERS[name], P=2) > 1e-3
    with pytest.raises(ValueError, match=f"{name} is not elementwise"):
        check_elementwise(OTHERS[name])


def test_one_rank_cuts_nothing_so_that_any_update_commutes():
    assert square_gap(NormalisedSGD, P=1) == 0


def test_an_optimizer_that_cannot_take_a_part_is_refused():
    with pytest.raises(ValueError, match="cannot update a part by itself"):
        check_elementwise(optim.LBFGS)
    if hasattr(optim, "Muon"):  # only matrices
        with pytest.raises(ValueError, match="cannot update a part by itself"):
            check_elementwise(optim.Muon)


def test_no_rank_is_refused():
    with pytest.raises(ValueError, match="P is 0"):
        square_gap(optim.SGD, P=0)
