"""The laws of the lab 'Send less', its race and its links, held to references of their own."""

import math
import subprocess
import sys

import pytest
import torch

from dtlib.efficiency import Dense, ErrorFeedback, Mean, PowerSGD, SignSGD, TopK, WireMeter
from dtlib.exercises import NotYet
from dtlib.exercises.labs.send_less import laws, links, ways
from dtlib.exercises.labs.send_less.task import Lane, Link, Task, one_thread, race


@one_thread()
def plain(steps: int, P: int, task: Task) -> list[float]:
    """The losses of one process that takes the mean loss of all ranks' reviews."""
    model, losses = task.model(), []
    adam = torch.optim.Adam(model.parameters(), task.rate)
    for step in range(steps):
        adam.zero_grad()
        loss = sum(task.loss(model, step * P + rank) for rank in range(P)) / P
        loss.backward()
        adam.step()
        losses.append(loss.item())
    return losses


def test_the_race_of_whole_gradients_is_training_in_one_process():
    small = Task(words=200, hidden=8)
    lane = race(Dense(), steps=12, P=3, task=small)
    assert lane.losses == pytest.approx(plain(12, 3, small), rel=1e-5)
    assert lane.bytes == pytest.approx(12 * 2 * (2 / 3) * 4 * small.numbers)
    assert lane.messages == 12


def test_sabotage_a_rank_that_is_left_out_is_another_run():
    small = Task(words=200, hidden=8)
    lane = race(Dense(), steps=12, P=3, task=small)
    assert lane.losses != pytest.approx(plain(12, 2, small), rel=1e-3)


def test_eight_bits_are_no_gain_from_the_eighth_rank_on():
    d = Task().numbers
    for P in range(2, 12):
        ring, gathered = WireMeter(P), (P - 1) * (d + 4 * math.ceil(d / 512))
        ring.note(Mean(torch.zeros(d)))
        assert (gathered >= ring.bytes) == (P >= 8)


def test_eight_bits_send_half_of_what_the_ring_does_and_need_as_many_steps():
    given, whole = laws.given_lane(), laws.whole_lane()
    ratio = given.bytes / len(given.losses) / (whole.bytes / len(whole.losses))
    assert 0.49 < ratio < 0.51
    assert abs(given.steps_to(laws.LOSS) - whole.steps_to(laws.LOSS)) < 4


class Renamed(ErrorFeedback):
    """The book's, as a reader would have written it."""


@pytest.mark.parametrize("inner", [PowerSGD(rank=1), SignSGD(), TopK(0.02)], ids=repr)
def test_several_roads_lead_past_the_given_one(inner):
    assert "before 60%" in laws.race_law(Renamed(inner))


def test_what_the_reference_has_sent_and_still_owes_is_what_was_due():
    keeper, draw = ways.Remembering(ways.Largest(0.1)), torch.Generator().manual_seed(2)
    rows = torch.randn(30, 50, generator=draw, dtype=torch.float64)
    sent = sum(keeper(row) for row in rows)
    assert torch.allclose(sent + keeper.memory, rows.sum(0), atol=1e-12)
    assert keeper.memory.norm() > 1


def test_time_to_a_loss_is_steps_times_computing_start_and_bytes():
    lane = Lane(tuple([1.0] * 8 + [0.0] * 8), bytes=16e6, messages=32, computing=0.01)
    link = Link(alpha=0.002, beta=1e8)
    assert lane.step_seconds(link) == pytest.approx(0.01 + 2 * 0.002 + 0.01)
    assert lane.steps_to(0.5) == 12 and lane.steps_to(-1) is None
    assert lane.seconds_to(0.5, link) == pytest.approx(12 * 0.024)
    assert lane.seconds_to(-1, link) == math.inf


def test_a_throttle_sleeps_for_what_is_sent(monkeypatch):
    slept = []
    monkeypatch.setattr(links.time, "sleep", slept.append)
    meter = links.ThrottledMeter(4, Link(alpha=1.0, beta=10.0))
    meter.note(Mean(torch.zeros(10)))
    assert slept == [1.0 + 1.5 * 40 / 10] and meter.bytes == 60


def test_a_machine_without_root_or_programs_says_so(monkeypatch):
    monkeypatch.setattr(links.shutil, "which", lambda name: None if name == "tc" else "/x")
    assert links.why_not_real() == "there is no program tc"
    monkeypatch.setattr(links.shutil, "which", lambda name: "/x")
    monkeypatch.setattr(links.os, "geteuid", lambda: 1000)
    assert links.why_not_real() == "only root may make network namespaces"


@pytest.mark.parametrize("fails", [None, 4, 9, 20])
def test_whatever_fails_no_namespace_is_left(monkeypatch, fails):
    made, count = set(), 0

    def run(*command):
        nonlocal count
        count += 1
        if count == fails:
            raise subprocess.CalledProcessError(1, command)
        if command[:3] == ("ip", "netns", "add"):
            made.add(command[3])
        if command[:3] == ("ip", "netns", "del"):
            made.remove(command[3])

    monkeypatch.setattr(links, "_run", run)
    try:
        with links.cabled(3, 1e9) as names:
            assert made >= set(names) and len(made) == 4
    except subprocess.CalledProcessError:
        assert fails
    assert made == set()


def test_a_rank_that_fails_is_named_with_its_last_word():
    ranks = [
        subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
        for code in ("pass", "raise SystemExit('no cable')")
    ]
    with pytest.raises(RuntimeError, match="rank 1 ended with 1: no cable"):
        links._wait(ranks)


def told_at_the_port(meter, numbers):
    """On each rank: the mean of a vector, and whether more has left the port than was counted."""
    import torch.distributed as dist

    from dtlib.efficiency import across

    before = links.port_bytes()
    flat = torch.full((numbers,), float(dist.get_rank()))
    mean = across(Dense().program(flat), dist.group.WORLD, meter).mean
    left = None if before is None else links.port_bytes() - before
    return mean[0].item(), left is None or left > meter.bytes == 4 * numbers


def test_ranks_behind_a_throttle_have_the_mean():
    assert links.on_links(told_at_the_port, 2, 1e9, 1000, real=False) == [(0.5, True)] * 2


@pytest.mark.skipif(bool(links.why_not_real()), reason="no namespaces here")
def test_ranks_behind_real_ports_have_the_mean_and_their_bytes_leave():
    assert links.on_links(told_at_the_port, 2, 1e9, 100_000, real=True) == [(0.5, True)] * 2


def test_sabotage_what_is_no_compressor_is_refused():
    with pytest.raises(NotYet, match="derives from Compressor, got function"):
        laws.race_law(lambda flat: flat)
