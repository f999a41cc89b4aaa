"""The laws of the lab 'Kill it', held to references of their own: none is met by chance."""

from itertools import product
from zlib import crc32

import pytest
import torch

from dtlib.exercises import NotYet
from dtlib.exercises.labs.kill_it import parts, saving, states
from dtlib.exercises.labs.kill_it.disk import ByteDisk, damages
from dtlib.exercises.labs.kill_it.part_laws import Files, mean_gradient, reshard_law, trained
from dtlib.exercises.labs.kill_it.real import BATCH, rows_at, undisturbed
from dtlib.exercises.labs.kill_it.run import Run, differing, things
from dtlib.exercises.labs.kill_it.state_laws import state_law
from dtlib.exercises.worlds.disk import Stopped
from dtlib.models import GPT, next_token_loss


def cut_by_hand(n, P):
    """Each number's place (part, position), as one would count them."""
    length = next(size for size in range(n + 1) if size * P >= n)
    return [divmod(number, length) for number in range(n)]


@pytest.mark.parametrize("n", [1, 2, 5, 7, 12, 13])
def test_pieces_read_each_number_from_where_it_lies(n):
    for P, Q in product(range(1, 8), repeat=2):
        old, new = cut_by_hand(n, P), cut_by_hand(n, Q)
        for q, row in enumerate(parts.pieces(n, P, Q)):
            read = [(p, i) for p, start, stop in row for i in range(start, stop)]
            due = [place for place, (part, _) in zip(old, new, strict=True) if part == q]
            assert read == due, (n, P, Q, q)
        assert sum(map(len, parts.pieces(n, P, Q))) <= P + Q - 1


def test_padding_that_is_read_is_seen_and_so_is_what_is_read_twice():
    files = Files(torch.arange(7.0), 3)
    with pytest.raises(NotYet, match="padding"):
        files.read(2, 0, 2)
    files.read(0, 0, 3)
    with pytest.raises(NotYet, match="4 of the numbers are never read"):
        files.judge("")
    for piece in ((1, 0, 3), (2, 0, 1), (0, 1, 2)):
        files.read(*piece)
    with pytest.raises(NotYet, match="some numbers are read 2 times"):
        files.judge("")


def test_there_and_back_again_is_the_identity():
    whole = torch.arange(11.0, dtype=torch.float64)
    for P, Q in product(range(1, 6), repeat=2):
        there = [parts.reshard(Files(whole, P).read, 11, P, Q, q) for q in range(Q)]
        cut = torch.stack(there)
        back = [parts.reshard(lambda p, a, b, cut=cut: cut[p, a:b], 11, Q, P, p) for p in range(P)]
        assert torch.equal(torch.cat(back)[:11], whole)


def test_the_gradient_of_the_survivors_is_autograds():
    rows = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    w = torch.ones(3, dtype=torch.float64).requires_grad_()
    ((1 - torch.tanh(rows @ w)) ** 2).mean().backward()
    torch.testing.assert_close(mean_gradient(w.detach(), rows), w.grad)


def test_the_reference_of_the_survivors_is_torchs_momentum():
    rows = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    start = {name: torch.full((3,), 0.5, dtype=torch.float64) for name in ("weights", "momentum")}
    w = start["weights"].clone().requires_grad_()
    optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.9)
    optimizer.state[w]["momentum_buffer"] = start["momentum"].clone()
    for _ in range(4):
        optimizer.zero_grad()
        ((1 - torch.tanh(rows @ w)) ** 2).mean().backward()
        optimizer.step()
    torch.testing.assert_close(trained(start, rows, 4), w.detach())


def test_every_thing_of_a_run_changes_within_three_steps_of_an_epochs_end():
    """So that leaving out any of them is seen at one of the stops."""
    run = Run()
    run.train(6)
    before = things(run)
    run.train(3)
    assert differing(before, things(run)) == list(before)


def test_sabotage_a_state_law_that_forgets_a_thing_would_let_it_pass(monkeypatch):
    from dtlib.exercises.labs.kill_it import state_laws

    answer = states.leaving_out("average")
    with pytest.raises(NotYet, match="the averaged weights"):
        state_law(answer)
    monkeypatch.setattr(
        state_laws,
        "things",
        lambda run: {k: v for k, v in things(run).items() if k != "the averaged weights"},
    )
    assert state_law(answer) is None


def test_a_state_law_leaves_the_readers_random_numbers_alone():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    state_law((states.state_of, states.restore))
    assert torch.equal(torch.get_rng_state(), before)


def test_a_disk_that_stops_keeps_what_was_synced():
    for operations, left in product(range(5), ("all", "half", "nothing")):
        disk = ByteDisk({"old": b"1234"}, stops_after=operations)
        with pytest.raises(Stopped):
            disk.write("new", b"abcd")
            disk.sync("new")
            disk.rename("new", "newer")
            disk.remove("old")
            disk.sync("newer")
        found = disk.after_stop(left)
        due = {"old": b"1234"} if operations < 4 else {}
        if operations:
            cut = {"all": 4, "half": 2, "nothing": 0}[left] if operations < 2 else 4
            due["newer" if operations > 2 else "new"] = b"abcd"[:cut]
        assert {name: found.read(name) for name in found.names()} == due


def test_damages_are_all_different_from_the_data_and_a_sum_does_not_see_all():
    data = b"weights\x00\xff"
    hurt = [after for _, after in damages(data, every=True)]
    assert all(after != data for after in hurt)
    assert len({after for after in hurt if after is not None}) >= 2 * len(data)
    assert all(after is None or crc32(after) != crc32(data) for after in hurt)
    assert any(after is not None and sum(after) == sum(data) for after in hurt)


def test_the_losses_of_the_undisturbed_run_are_those_of_plain_sgd_with_moments():
    """AdamW written out: decay, moments, bias, step; and the cursor is no multiple of a step."""
    from dtlib.exercises.labs.kill_it.real import SPEC

    model, cursor, cursors, found = GPT(SPEC, dtype=torch.float64), 0, [], []
    m = [torch.zeros_like(p) for p in model.parameters()]
    v = [torch.zeros_like(p) for p in model.parameters()]
    for step in range(1, 5):
        tokens, cursor = rows_at(cursor)
        assert tokens.shape[0] == BATCH
        cursors.append(cursor)
        loss = next_token_loss(model(tokens[:, :-1]), tokens[:, 1:])
        found.append(loss.item())
        grads = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for p, g, a, b in zip(model.parameters(), grads, m, v, strict=True):
                p *= 1 - 1e-2 * 1e-2
                a.mul_(0.9).add_(g, alpha=0.1)
                b.mul_(0.999).addcmul_(g, g, value=0.001)
                root = (b / (1 - 0.999**step)).sqrt() + 1e-8
                p -= 1e-2 * (a / (1 - 0.9**step)) / root
    assert found == pytest.approx(undisturbed(4), rel=1e-9)
    assert all(cursor % BATCH for cursor in cursors)


def test_what_was_saved_comes_back_whatever_it_is():
    disk = ByteDisk({})
    for step in (1, 10, 2000):
        data = [bytes(range(step % 256)), b"", b"\n" * step]
        saving.save(disk, step, data)
        assert saving.newest(disk) == (step, data)
    assert len(disk.names()) == 2 * 4


def test_the_law_of_parts_has_cases_with_padding_alone_and_with_nothing_to_read():
    nothing = [(n, P) for n in range(1, 15) for P in range(1, 6) if not all(parts.pieces(n, 1, P))]
    assert (3, 2) not in nothing and (5, 4) in nothing
    reshard_law((parts.pieces, parts.reshard))
