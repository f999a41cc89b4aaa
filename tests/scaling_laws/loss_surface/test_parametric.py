"""The fit: it finds what runs follow, equals a plain optimizer, and refuses what it cannot know."""

import numpy as np
import pytest
import torch

from dtlib.scaling_laws import LossSurface, Runs, fit_parametric, hoffmann_runs
from dtlib.scaling_laws.loss_surface import huber
from dtlib.scaling_laws.loss_surface.blind import NotIdentified, identified_by

LAW = LossSurface(E=1.7, A=400.0, alpha=0.35, B=1500.0, beta=0.36)
CONSTANTS = ("E", "A", "alpha", "B", "beta")


def made(law=LAW, noise=0.0, seed=0, sizes=7, tokens=7) -> Runs:
    N, D = (axis.ravel() for axis in np.meshgrid(
        np.geomspace(5e7, 1e10, sizes), np.geomspace(1e9, 2e11, tokens)))  # fmt: skip
    scatter = np.exp(np.random.default_rng(seed).normal(0, noise, len(N)))
    return Runs(N, D, law(N, D) * scatter)


def plain_fit(N, D, losses, delta, start):
    """An independent reference: torch's L-BFGS, one sample, in uncentred numbers."""
    x, y, v = (torch.tensor(np.log(column)) for column in (N, D, losses))
    scale = torch.tensor([1.0, 0.05, 1.0, 0.05, 0.05], dtype=torch.float64)
    t = (torch.tensor(start, dtype=torch.float64) / scale).requires_grad_()
    optimizer = torch.optim.LBFGS(
        [t], max_iter=1500, tolerance_grad=1e-13, tolerance_change=1e-16, history_size=30,
        line_search_fn="strong_wolfe",
    )  # fmt: skip

    def total():
        a, alpha, b, beta, e = t * scale
        terms = torch.stack([a - alpha * x, b - beta * y, e.expand_as(x)])
        return torch.nn.functional.huber_loss(
            torch.logsumexp(terms, 0), v, reduction="sum", delta=delta
        )

    def closure():
        optimizer.zero_grad()
        loss = 1e3 * total()
        loss.backward()
        return loss

    for _ in range(3):
        optimizer.step(closure)
    a, alpha, b, beta, e = (t * scale).detach().numpy()
    return total().item(), LossSurface(*map(float, (np.exp(e), np.exp(a), alpha, np.exp(b), beta)))


def test_runs_without_noise_give_their_law_back():
    fit = fit_parametric(made())
    for name in CONSTANTS:
        assert getattr(fit.surface, name) == pytest.approx(getattr(LAW, name), rel=1e-4)
    told = fit_parametric(made(), E=LAW.E)
    assert told.surface.E == LAW.E and told.surface.beta == pytest.approx(LAW.beta, rel=1e-6)


def test_many_fits_at_once_equal_a_plain_optimizer_one_by_one():
    runs = hoffmann_runs()
    fit = fit_parametric(runs, draws=6, seed=3)
    rng = np.random.default_rng(3)  # the draws of the bootstrap, as its docstring has them
    chosen = rng.integers(runs.cells, size=(6, runs.cells))
    s = fit.surface
    start = (np.log(s.A) + 0.3, s.alpha + 0.01, np.log(s.B) - 0.3, s.beta - 0.01, np.log(s.E))
    order = np.argsort(runs.cell)  # each cell has one run here
    for k, cells in enumerate(chosen):
        rows = order[cells]
        reached, law = plain_fit(runs.N[rows], runs.D[rows], runs.loss[rows], fit.delta, start)
        ours = LossSurface(*(float(getattr(fit.drawn, name)[k]) for name in CONSTANTS))
        off = np.log(runs.loss[rows] / ours(runs.N[rows], runs.D[rows]))
        size = np.abs(off)
        penalty = np.where(size <= 1e-3, off**2 / 2, 1e-3 * (size - 5e-4)).sum()
        assert penalty <= reached * (1 + 1e-9)
        assert reached == pytest.approx(penalty, rel=1e-4)
        for name, near in (("E", 2e-3), ("alpha", 1e-2), ("beta", 1e-2)):
            assert getattr(law, name) == pytest.approx(getattr(ours, name), rel=near)


def test_sabotage_a_fit_that_stops_early_is_not_the_plain_one(monkeypatch):
    runs = hoffmann_runs()
    whole = fit_parametric(runs)
    monkeypatch.setattr(huber, "_STEPS", 3)
    assert fit_parametric(runs).penalty > 1.01 * whole.penalty


def test_every_start_and_every_resample_ends_no_higher_than_from_anywhere():
    runs = made(noise=0.01, seed=5)
    fit = fit_parametric(runs)
    x, y = np.log(runs.N), np.log(runs.D)
    centred = x - x.mean(), y - y.mean(), np.log(runs.loss)
    rng = np.random.default_rng(1)
    starts = rng.normal((-1, 0.5, -1, 0.5, 0), (1, 0.2, 1, 0.2, 0.5), size=(40, 5))
    _, lowest = huber.descend(starts, *centred, np.ones((1, len(runs))), fit.delta)
    assert lowest.min() >= fit.penalty * (1 - 1e-9)
    assert lowest.min() == pytest.approx(fit.penalty, rel=1e-6)


def test_shares_and_jacobian_are_what_small_changes_say():
    t = np.array([[-1.0, 0.4, -0.5, 0.3, 0.6]])
    x, y = np.linspace(-2, 2, 5), np.linspace(1, -1, 5)
    z, shares = huber.predicted(t, x, y)
    assert shares.sum(axis=0) == pytest.approx(1)
    for k in range(5):
        step = 1e-6 * np.eye(5)[[k]]
        change = (huber.predicted(t + step, x, y)[0] - huber.predicted(t - step, x, y)[0]) / 2e-6
        assert huber.jacobian(shares, x, y)[:, :, k] == pytest.approx(change, abs=1e-8)
    assert z.shape == (1, 5)


def test_intervals_hold_the_truth_nearly_as_often_as_they_say():
    inside = []
    for seed in range(12):
        fit = fit_parametric(made(noise=0.005, seed=seed), draws=100)
        low, high = fit.interval["alpha"]
        said = fit.predict(3e10, 6e11)
        run = LAW(3e10, 6e11) * np.exp(np.random.default_rng(100 + seed).normal(0, 0.005))
        assert said.run[0] < said.law[0] <= said.law[1] < said.run[1]
        inside.append((low <= LAW.alpha <= high, said.run[0] <= run <= said.run[1]))
    assert (np.mean(inside, axis=0) >= 0.75).all()


def test_seeds_of_one_cell_are_drawn_together():
    runs = made(noise=0.01)
    twice = Runs(*(np.concatenate([column, column]) for column in (runs.N, runs.D, runs.loss)))
    assert twice.cells == runs.cells == len(runs)
    one, two = fit_parametric(runs, draws=100), fit_parametric(twice, draws=100)
    assert two.interval["alpha"] == pytest.approx(one.interval["alpha"], rel=1e-3)


def test_sabotage_seeds_taken_for_sizes_narrow_the_interval(monkeypatch):
    runs = made(noise=0.01)
    twice = Runs(*(np.concatenate([column, column]) for column in (runs.N, runs.D, runs.loss)))
    right = fit_parametric(twice, draws=200).interval["alpha"]
    monkeypatch.setattr(Runs, "cell", property(lambda self: np.arange(len(self))))
    narrow = fit_parametric(twice, draws=200).interval["alpha"]
    assert narrow[1] - narrow[0] < 0.85 * (right[1] - right[0])


def test_a_direction_that_is_not_seen_is_named():
    N, D = (
        axis.ravel()
        for axis in np.meshgrid(np.geomspace(1e8, 1e10, 6), np.geomspace(1e18, 1e20, 6))
    )
    scatter = np.exp(np.random.default_rng(0).normal(0, 0.003, len(N)))
    with pytest.raises(NotIdentified, match=r"the runs do not see .*(log B|beta)"):
        fit_parametric(Runs(N, D, LAW(N, D) * scatter))


def test_the_blind_direction_is_that_of_the_smallest_singular_value():
    moves = np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 1.0], [3.0, 6.0, -1.0], [1.0, 2.0, 2.0]])
    found = identified_by(moves, ("a", "b", "c"), noise=0.1)
    direction = found.blind
    assert found.blind_error == float("inf")
    assert direction["a"] / direction["b"] == pytest.approx(-2) and abs(direction["c"]) < 1e-12
    seen = identified_by(np.eye(3), ("a", "b", "c"), noise=0.1)
    assert seen.blind_error == pytest.approx(0.1)


LOSSES = LAW(np.geomspace(1e8, 1e10, 9), np.geomspace(1e9, 1e11, 9))
ONE_BUDGET = np.geomspace(1e8, 1e10, 9)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: fit_parametric(made()[:5]), "number of sizes is 5, but must be more than 5"),
        (lambda: fit_parametric(made()[:4], E=1.0), "number of sizes is 4, .* for 4 numbers"),
        (lambda: fit_parametric(made(sizes=1, tokens=9)), "model sizes is 1, but must be 3"),
        (lambda: fit_parametric(made(sizes=9, tokens=2)), "numbers of tokens is 2"),
        (lambda: fit_parametric(Runs(ONE_BUDGET, 1e20 / 6 / ONE_BUDGET, LOSSES)),
         r"one budget, 1e\+20 to 1e\+20 FLOP, but must have several"),
        (lambda: fit_parametric(made(), E=2.5), "E is 2.5, .* below every loss; row 48 has"),
        (lambda: fit_parametric(made(), E=-1), "E is -1"),
        (lambda: fit_parametric(made(), delta=0), "delta is 0, but must be above 0"),
        (lambda: fit_parametric(made(), level=95), "level is 95, but must be between 0 and 1"),
        (lambda: Runs([1.0, 2.0], [1.0, float("nan")], [3.0, 3.0]), "D of row 1 is nan"),
        (lambda: Runs([1.0, 2.0], [1.0, 1.0], [3.0, -3.0]), "loss of row 1 is -3.0"),
        (lambda: Runs([1.0, 2.0], [1.0], [3.0, 3.0]), "of one length"),
        (lambda: Runs([1.0, 2.0], [1.0, 2.0], [3.0]), "one column as long as N"),
        (lambda: Runs([], [], []), "with a row"),
    ],
)  # fmt: skip
def test_bad_runs_are_refused_by_what_is_missing(make, says):
    with pytest.raises(ValueError, match=says):
        make()


def test_a_table_is_chosen_from_by_masks_slices_and_rows():
    runs = made()
    assert len(runs[runs.C < 1e19]) == int((runs.C < 1e19).sum()) and len(runs[:3]) == 3
    assert runs[[1, 5]].loss.tolist() == [runs.loss[1], runs.loss[5]] and len(runs[2]) == 1
    given = Runs(runs.N, runs.D, runs.loss, C=2 * runs.C)
    assert given[4:].C.tolist() == (2 * runs.C[4:]).tolist()


def test_what_is_printed_has_the_numbers():
    text = repr(fit_parametric(made(noise=0.005), E=1.7, draws=50))
    assert "(given)" in text and "loss above E" in text and "50 refits" in text
