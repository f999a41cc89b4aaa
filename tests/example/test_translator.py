"""A whole program under each strategy: unchanged but for its wrapping, and equal to one process."""

from dataclasses import replace
from functools import cache

import pytest
import torch
import torch.distributed as dist
from translator import Recipe, Trainer
from wrappings import (
    WRAPPINGS,
    DividedBlocks,
    Pipeline,
    Replicas,
    ShardedState,
    ShardedWeights,
)

from dtlib import launch
from dtlib.memory import clip_gradients
from dtlib.parallelism import DataParallel

EXACT = Recipe()
FOUR = Recipe(blocks=4, accumulate=4, batch=32)
MIXED = Recipe(dtype=torch.float32, autocast=torch.bfloat16, epsilon=0.1)
OVERFLOWING = replace(MIXED, autocast=torch.float16, loss_scale=2.0**19)
STRATEGIES = sorted(set(WRAPPINGS) - {"one process"})


@pytest.fixture(scope="module")
def pair():
    with launch(2) as ranks:
        yield ranks


@pytest.fixture(scope="module")
def four():
    with launch(4) as ranks:
        yield ranks


def trained(wrapping, recipe):
    """The records of every step, the loss scale and whole weights at the end."""
    trainer = Trainer(recipe, wrapping)
    records = list(trainer.train())
    weights = trainer.wrapping.weights(trainer.module)
    weights = {name: value.detach().clone() for name, value in weights.items()}
    return records, trainer.scaler.get_scale(), weights


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """As a rank has."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@cache
def one_process(recipe):
    return trained(WRAPPINGS["one process"](), recipe)


def difference(found, expected) -> float:
    """The largest difference of a loss, a norm, a scale or a weight, relative to what it is of."""
    records, scale, weights = expected
    assert len(found[0]) == len(records) and set(found[2]) >= set(weights)
    pairs = [(a[key], b[key]) for a, b in zip(found[0], records, strict=True) for key in b]
    errors = [abs(a - b) / abs(b) for a, b in [*pairs, (found[1], scale)]]
    for name, value in weights.items():
        own = found[2][name]
        assert own.shape == value.shape, name
        errors.append(((own - value).abs().max() / value.abs().max()).item())
    return max(errors)


def worst(answers, recipe) -> float:
    return max(difference(found, one_process(recipe)) for found in answers)


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_computes_what_one_process_does(pair, name):
    assert worst(pair.run(trained, WRAPPINGS[name](), EXACT), EXACT) <= 1e-11


@pytest.mark.parametrize("name", STRATEGIES)
def test_on_four_ranks_as_well(four, name):
    assert worst(four.run(trained, WRAPPINGS[name](), FOUR), FOUR) <= 1e-11


def test_the_run_of_the_comparison_has_what_it_is_about():
    """Blocks are left out, gradients are clipped, the rate changes, and the loss gets smaller."""
    records, _, _ = one_process(EXACT)
    trainer = Trainer(EXACT)
    dropped, rates = set(), set()
    for _ in trainer.train():
        dropped.update(number for number, kept in enumerate(trainer.model.kept) if not kept)
        rates.add(trainer.optimizer.param_groups[0]["lr"])
    assert len(dropped) >= 3 and len(rates) >= 4
    assert min(record["norm"] for record in records) > EXACT.largest_norm
    assert records[-1]["loss"] < records[0]["loss"] / 2
    assert [group["weight_decay"] for group in trainer.optimizer.param_groups] == [0.1, 0.0]


def test_a_longer_run_learns_to_sort():
    *_, last = Trainer(replace(EXACT, steps=40, layer_drop=0.1)).train()
    assert last["loss"] < 2


# In 16 bits: the same pieces of the batch in one process, summed in another order.


@pytest.mark.parametrize("name", STRATEGIES)
def test_mixed_precision_computes_what_one_process_does_with_the_same_pieces(pair, name):
    """Sums over ranks are of 32 bits; inside a divided model they are rounded to 16 on the way."""
    cuts_the_model = isinstance(WRAPPINGS[name](), DividedBlocks | Pipeline)
    pieces = MIXED if cuts_the_model else replace(MIXED, accumulate=4)
    allowed = 2e-2 if cuts_the_model else 1e-5
    assert worst(pair.run(trained, WRAPPINGS[name](), MIXED), pieces) <= allowed


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler")  # the first step is skipped
@pytest.mark.parametrize("name", STRATEGIES)
def test_all_ranks_skip_a_step_whose_gradients_are_not_finite(pair, name):
    _, scale, _ = one_process(OVERFLOWING)
    assert 2**-OVERFLOWING.steps < scale / OVERFLOWING.loss_scale < 1  # some steps are skipped
    found = pair.run(trained, WRAPPINGS[name](), OVERFLOWING)
    assert {one[1] for one in found} == {scale}


# Save and resume


def resumed(wrapping, recipe, folder):
    """The same, with everything saved and made anew halfway."""
    file = f"{folder}/{dist.get_rank()}.pt"
    before = Trainer(recipe, wrapping())
    records = list(before.train(until=recipe.steps // 2))
    before.save(file)
    after = Trainer(recipe, wrapping())
    after.resume(file)
    records += list(after.train())
    weights = after.wrapping.weights(after.module)
    return records, after.scaler.get_scale(), {n: w.detach().clone() for n, w in weights.items()}


@pytest.mark.parametrize("name", STRATEGIES)
def test_a_run_that_was_saved_and_resumed_has_the_same_bits(pair, name, tmp_path):
    for straight, again in zip(
        pair.run(trained, WRAPPINGS[name](), EXACT),
        pair.run(resumed, WRAPPINGS[name], EXACT, str(tmp_path)),
        strict=True,
    ):
        assert difference(again, straight) == 0


# What is forgotten is seen.


class Averaged(Replicas):
    """The mean of parts that are to be added."""

    def wrap(self, model):
        return DataParallel(model, dist.group.WORLD)


class ClippedAlone(ShardedWeights):
    """Each rank clips by the norm of its own parts."""

    def clip(self, trainer, largest):
        return torch.nn.utils.clip_grad_norm_(trainer.module.parameters(), largest)


class CountedTwice(DividedBlocks):
    """What all ranks have is taken for different parts of one thing."""

    def clip(self, trainer, largest):
        return clip_gradients(trainer.module.parameters(), largest, dist.group.WORLD)


class Untied(Pipeline):
    """The stages that share the embedding do not say so."""

    def wrap(self, model):
        module = super().wrap(model)
        for stage in self.own.values():
            stage.tied = {}
        return module


class WithoutBiases(ShardedState):
    """One decay for everything."""

    def optimizer(self, groups, **options):
        for group in groups:
            group["weight_decay"] = 0.1
        return super().optimizer(groups, **options)


@pytest.mark.parametrize(
    "forgotten", [Averaged, ClippedAlone, CountedTwice, Untied, lambda: WithoutBiases(1)]
)
def test_what_a_wrapping_forgets_is_seen(pair, forgotten):
    assert worst(pair.run(trained, forgotten(), EXACT), EXACT) > 1e-5
