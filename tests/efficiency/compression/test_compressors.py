"""Constants of compressors, the telescoping sum, and who may be added up: each with a twin."""

from itertools import product

import pytest
import torch

from dtlib.efficiency import (
    QSGD,
    Dense,
    ErrorFeedback,
    Levels,
    PowerSGD,
    RandK,
    SignSGD,
    TopK,
    TwoWay,
    WireMeter,
    contraction,
    level_variance,
    levels_variance_bound,
    linearity_defect,
    moments,
    residual_bound,
    together,
)
from dtlib.efficiency.compression.levels import (
    pack_bits,
    pack_small,
    unpack_bits,
    unpack_small,
)
from dtlib.efficiency.compression.sparse import largest

COMPRESSORS = {
    "top": TopK(0.1),
    "random": RandK(0.1, seed=3),
    "signs": SignSGD(),
    "4 bits": QSGD(bits=4, bucket=64, norm="largest"),
    "blocks": Levels(bits=4, bucket=64),
    "rank 2": PowerSGD(rank=2),
}
every = pytest.mark.parametrize("compressor", COMPRESSORS.values(), ids=COMPRESSORS)


def normal(*shape, seed=0, dtype=torch.float64):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def of_ranks(compressors, tensors, meter=None):
    """What all ranks have in the end, each with its own compressor."""
    programs = [
        c.program(x.reshape(-1), (x.shape,)) for c, x in zip(compressors, tensors, strict=True)
    ]
    return together(programs, meter)


def gap(compressor, steps=30, forgets=False):
    """|sum sent - (sum due - memory)| over |sum due|, of one rank."""
    kept, due, sent = ErrorFeedback(compressor), torch.zeros(20, 16), torch.zeros(20, 16)
    due, sent = due.double(), sent.double()
    for step in range(steps):
        gradient = normal(20, 16, seed=step)
        due += gradient
        sent += kept(gradient)
        if forgets and step == steps // 2:
            kept.memory = None
    return float((sent - (due - kept.memory.view(20, 16))).abs().max() / due.abs().max())


@every
def test_what_was_sent_is_what_was_due_less_the_memory(compressor):
    assert gap(compressor.fresh()) < 1e-13


@every
def test_a_memory_that_is_lost_once_is_seen(compressor):
    assert gap(compressor.fresh(), forgets=True) > 1e-3


@every
def test_the_mean_of_four_ranks_telescopes_too(compressor):
    ranks = [ErrorFeedback(compressor.fresh()) for _ in range(4)]
    due, sent = torch.zeros(320, dtype=torch.float64), torch.zeros(320, dtype=torch.float64)
    for step in range(12):
        gradients = [normal(20, 16, seed=100 * step + r) for r in range(4)]
        due += sum(g.view(-1) for g in gradients) / 4
        results = of_ranks(ranks, gradients)
        assert all(torch.equal(r.mean, results[0].mean) for r in results)
        sent += results[0].mean
    kept = sum(rank.memory for rank in ranks) / 4
    assert float((sent - (due - kept)).abs().max()) < 1e-12


def test_both_ways_telescope_with_both_memories():
    ranks = [TwoWay(SignSGD()) for _ in range(4)]
    due, sent = torch.zeros(320, dtype=torch.float64), torch.zeros(320, dtype=torch.float64)
    for step in range(12):
        gradients = [normal(320, seed=100 * step + r) for r in range(4)]
        due += sum(gradients) / 4
        sent += of_ranks(ranks, gradients)[0].mean
    kept = sum(rank.memory for rank in ranks) / 4
    kept = kept + torch.cat([rank.part_memory for rank in ranks])
    assert float((sent - (due - kept)).abs().max()) < 1e-12


@pytest.mark.parametrize("name", ["random", "rank 2"])
def test_the_linear_ones_say_so(name):
    compressor = COMPRESSORS[name].fresh()
    assert compressor.linear and ErrorFeedback(compressor).linear
    if name == "random":
        assert linearity_defect(compressor, normal(320), normal(320, seed=1)) < 1e-15


@pytest.mark.parametrize("name", ["top", "signs", "4 bits", "blocks"])
def test_the_others_are_not_linear(name):
    compressor = COMPRESSORS[name]
    assert not compressor.linear
    assert linearity_defect(compressor, normal(320), normal(320, seed=1)) > 0.05


def test_powersgd_of_ranks_is_powersgd_of_the_mean():
    matrices = [normal(30, 20, seed=r) for r in range(4)]
    ranks, one = [PowerSGD(rank=3) for _ in range(4)], PowerSGD(rank=3)
    for _ in range(3):
        meter = WireMeter(4)
        found = of_ranks(ranks, matrices, meter)[0].mean.view(30, 20)
        due = one(sum(matrices) / 4)
        assert float((found - due).abs().max() / due.abs().max()) < 1e-13
    assert meter.collectives == 2 and meter.payload == 8 * 3 * (30 + 20)
    apart = sum(PowerSGD(rank=3)(m) for m in matrices) / 4  # each rank's own factors, gathered
    assert float((apart - due).norm() / due.norm()) > 0.1


def test_powersgd_warm_finds_the_best_factors():
    m = normal(40, 40).mul(torch.arange(1, 41).double() ** -1.5)
    u, s, v = torch.linalg.svd(m)
    best = float((m - u[:, :4] * s[:4] @ v[:4]).norm())
    warm, cold = PowerSGD(rank=4), PowerSGD(rank=4, warm=False)
    for _ in range(40):
        after, anew = float((m - warm(m)).norm()), float((m - cold(m)).norm())
    assert after / best < 1.001 < 1.02 < anew / best


def test_vectors_and_small_matrices_travel_whole():
    shapes = [torch.Size(s) for s in ((30, 20), (7,), (2, 2), (8, 5, 4))]
    flat = normal(sum(s.numel() for s in shapes))
    meter = WireMeter(1)
    found = together([PowerSGD(rank=1).program(flat, shapes)], meter)[0]
    assert torch.equal(found.mean[600:611], flat[600:611])
    assert meter.payload == 8 * ((30 + 20) + 11 + (8 + 20))


@pytest.mark.parametrize("share", [0.01, 0.1, 1])
def test_top_k_keeps_at_least_its_share_and_random_k_its_share(share):
    x = normal(1000)
    assert contraction(TopK(share), x) >= share - 1e-12
    kept = sum(contraction(RandK(share, seed=s), x) for s in range(300)) / 300
    assert abs(kept - share) < 0.2 * share + 1e-12
    equal = torch.ones(1000, dtype=torch.float64)
    assert contraction(TopK(share), equal) == pytest.approx(share)


@pytest.mark.parametrize("share", [0.01, 0.0003])
def test_the_threshold_finds_the_largest(share):
    x = normal(50_000)
    k = int(share * 50_000)
    due = x.abs().topk(k).values.sort().values
    assert torch.equal(x[largest(x, k)].abs().sort().values, due)
    x = torch.zeros(50_000)
    x[17] = 1  # which the sample does not see
    assert 17 in largest(x, 3).tolist()


def test_signs_contract_as_the_two_norms_say():
    x = normal(1000)
    assert contraction(SignSGD(), x) == pytest.approx(
        float(x.norm(1) ** 2 / (1000 * x.norm() ** 2)), rel=1e-6
    )


class Chosen(QSGD):
    """QSGD whose roundings are given: 1 for up."""

    def rounded(self, multiples, rank):
        up = torch.tensor(self.up).view_as(multiples[:, : len(self.up)])
        whole = multiples.floor()
        whole[:, : len(self.up)] += up
        return whole


def test_qsgd_is_unbiased_by_counting_all_roundings():
    x, levels = torch.tensor([0.3, -1.1, 0.7, 0.2], dtype=torch.float64), 7
    unit = x.norm() / levels
    above = x / unit - (x / unit).floor()
    mean, square = torch.zeros_like(x), 0.0
    for ups in product((0, 1), repeat=4):
        chosen = Chosen(bits=4, bucket=4)
        chosen.up = ups
        found = chosen(x)
        chance = float(torch.where(torch.tensor(ups) == 1, above, 1 - above).prod())
        mean += chance * found
        square += chance * float(((found - x) ** 2).sum())
    assert torch.allclose(mean, x, atol=1e-6)
    assert square == pytest.approx(level_variance(x, levels), rel=1e-4)
    assert square <= levels_variance_bound(4, levels) * float(x.norm() ** 2)
    nearest = Levels(bits=4, bucket=4)(x)
    assert not torch.allclose(nearest, x, atol=1e-2)


def test_qsgd_draws_what_its_variance_says_and_ranks_draw_apart():
    x = normal(256)
    mean, omega = moments(QSGD(bits=4, bucket=256), x, draws=400)
    assert float((mean - x).norm() / x.norm()) < 4 * (omega / 400) ** 0.5
    assert omega == pytest.approx(level_variance(x, 7) / float(x.norm() ** 2), rel=0.1)
    results = of_ranks([QSGD(bits=4, bucket=256) for _ in range(8)], [x] * 8)
    apart = float(((results[0].mean - x) ** 2).sum() / (x**2).sum())
    assert apart < omega / 4  # an eighth, where all that is drawn is independent


def test_the_memory_stays_below_its_bound_and_the_false_theorem_fails():
    kept, most, due, memory = ErrorFeedback(TopK(0.1)), 0.0, 0.0, 0.0
    for step in range(200):
        g = normal(1000, seed=step)
        kept(g)
        due, most = due + float(g @ g), max(most, float(g @ g))
        memory += float(kept.memory @ kept.memory)
        assert float(kept.memory @ kept.memory) <= residual_bound(0.1) * most
    assert memory > due  # 'sum |e|^2 <= sum |g|^2' is false
    equal = ErrorFeedback(TopK(0.01))
    ratio = 0.0
    for _ in range(300):
        equal(torch.ones(100, dtype=torch.float64))
        ratio += float(equal.memory @ equal.memory) / 100
    assert ratio / 300 > 2000


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_packing_is_undone(bits):
    top = 2 ** (bits - 1) - 1
    whole = torch.randint(-top, top + 1, (101,), generator=torch.Generator().manual_seed(1))
    small = pack_small(whole.to(torch.int8), bits)
    assert len(small) == -(-101 * bits // 8)
    assert torch.equal(unpack_small(small, bits, 101).long(), whole)
    signs = whole > 0
    assert torch.equal(unpack_bits(pack_bits(signs), 101).bool(), signs)


@every
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_number_that_is_none_reaches_all_ranks_and_no_memory(compressor, bad):
    ranks = [ErrorFeedback(compressor.fresh()) for _ in range(3)]
    good = [normal(20, 16, seed=r) for r in range(3)]
    of_ranks(ranks, good)
    before = [rank.memory.clone() for rank in ranks]
    poisoned = [g.clone() for g in good]
    poisoned[1][3, 4] = bad
    for result in of_ranks(ranks, poisoned):
        assert not torch.isfinite(result.mean).all()
    assert all(torch.equal(r.memory, b) for r, b in zip(ranks, before, strict=True))
    assert all(torch.isfinite(r.mean).all() for r in of_ranks(ranks, good))


@every
def test_a_gradient_of_nothing_and_one_of_zeros(compressor):
    assert compressor.fresh()(torch.zeros(0)).numel() == 0
    assert not compressor.fresh()(torch.zeros(20, 16)).any()


def test_what_is_no_gradient_is_refused():
    with pytest.raises(TypeError, match="sparse"):
        TopK(0.1)(torch.eye(3).to_sparse())
    with pytest.raises(TypeError, match="floats"):
        TopK(0.1)(torch.arange(3))
    for wrong in (0, -1, 1.5):
        with pytest.raises(ValueError, match="share"):
            TopK(wrong)
    with pytest.raises(ValueError, match="bits"):
        Levels(bits=3)
    with pytest.raises(TypeError, match="memory"):
        ErrorFeedback(ErrorFeedback(Dense()))
    with pytest.raises(TypeError, match="gather"):
        TwoWay(RandK(0.1))
    with pytest.raises(ValueError, match="different things"):
        of_ranks([TopK(0.1), TopK(0.2)], [normal(100), normal(100)])
