"""ZeRO's stages equal data parallelism and one process, send what the formulas say, and every
check has a twin that fails."""

import pytest
from zero_job import SEQUENCES, SPECS

from dtlib.foundations import data_parallel_bytes
from dtlib.memory import (
    gradient_scatters,
    model_state_bytes,
    sharded_sent_bytes,
    weight_gathers,
    zero_sent_bytes,
)
from dtlib.runtime import RanksError, launch

FP64 = 8
STAGES = {
    "stage 1": (1, {}),
    "stage 1, buckets": (1, {"bucket_bytes": 30000}),
    "stage 2": (2, {"bucket_bytes": 30000}),
    "stage 3": (3, {}),
    "stage 3, without prefetch": (3, {"prefetch": 0}),
    "stage 3, kept after forward": (3, {"reshard": False}),
}
SOME = {way: STAGES[way] for way in ("stage 1, buckets", "stage 2", "stage 3")}


@pytest.fixture(scope="module", params=[2, 4])
def ranks(request):
    with launch(request.param, timeout=60) as ranks:
        yield ranks


@pytest.fixture(scope="module")
def pair():
    with launch(2, timeout=60) as ranks:
        yield ranks


def fifty_steps(ways, steps=50, micro_batches=1, hold=False, **options):
    """For each way: its errors against one process and DataParallel, and whether the bits agree."""
    from zero_job import Job, batch

    from dtlib.models import relative_errors, worst

    def train(zero, extra):
        job = Job(zero, **options, **extra)
        for step in range(steps):
            job.step(*batch(step), micro_batches=micro_batches, hold=hold)
        return job.weights()

    one, replicas = train("one", {}), train(0, {})
    found = {}
    for way, (zero, extra) in ways.items():
        weights = train(zero, extra)
        same = all(weights[name].equal(replicas[name]) for name in replicas)
        errors = [worst(relative_errors(weights, other))[1] for other in (one, replicas)]
        found[way] = max(errors), same
    return found


def test_fifty_steps_equal_one_process_and_on_two_ranks_data_parallelism_bit_for_bit(ranks):
    ways = STAGES if ranks.n == 2 else SOME
    for found in ranks.run(fifty_steps, ways):
        for way, (error, same_bits) in found.items():
            assert error <= 1e-10, way
            assert same_bits or ranks.n > 2, way


def test_odd_sizes_too(ranks):
    for found in ranks.run(fifty_steps, SOME, steps=4, spec="odd"):
        assert max(error for error, _ in found.values()) <= 1e-11, found


@pytest.mark.parametrize(
    "options",
    [
        {"spec": "tied"},
        {"spec": "experts"},
        {"frozen": ("embedding",)},
        {"frozen": ("query", "blocks.1.feed_forward")},
        {"frozen": ("blocks.0", "embedding", "positions")},
    ],
    ids=str,
)
def test_tied_routed_and_frozen_parameters_too(pair, options):
    for found in pair.run(fifty_steps, SOME, steps=4, **options):
        for way, (error, same_bits) in found.items():
            assert error <= 1e-11, way
            assert same_bits, way


@pytest.mark.parametrize("hold", [True, False])
def test_accumulated_gradients_too(pair, hold):
    """Bit for bit where whole gradients add up first, as data parallelism's do in `no_sync`."""
    for found in pair.run(fifty_steps, SOME, steps=4, micro_batches=2, hold=hold):
        assert max(error for error, _ in found.values()) <= 1e-11, found
        if hold:
            assert [same for _, same in found.values()] == [True, False, True]


def one_step_counted(zero, micro_batches, hold=False, **options):
    """Calls and bytes of a rank in one step, and the length of each padded flat tensor."""
    import torch.distributed as dist
    from zero_job import Job, batch

    from dtlib.parallelism import counted

    job = Job(zero, spec="odd", **options)
    job.step(*batch(0), micro_batches=micro_batches, hold=True)  # a first pass shows the order
    with counted(dist.group.WORLD) as log:
        job.step(*batch(1), micro_batches=micro_batches, hold=hold)
    if zero == 0:
        return log.calls, log.total_bytes, [bucket.flat.numel() for bucket in job.trained.buckets]
    flats = job.optimizer.flats if zero < 3 else job.trained._flats()
    return log.calls, log.total_bytes, [flat.whole.numel() for flat in flats]


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("zero", range(4))
def test_a_step_calls_and_sends_what_the_formulas_say(ranks, zero, m):
    options = {} if zero == 3 else {"bucket_bytes": 6000}
    options |= {"first_bucket_bytes": 6000} if zero == 0 else {}
    for calls, sent, lengths in ranks.run(one_step_counted, zero, m, hold=zero == 0, **options):
        n = len(lengths)
        assert n > 2
        both = {"all_gather": n * weight_gathers(zero, m)}
        both |= {"reduce_scatter": n * gradient_scatters(zero, m)}
        assert calls == (both if zero else {"all_reduce": n})
        assert sent == zero_sent_bytes(sum(lengths), zero, ranks.n, m, FP64)


@pytest.mark.parametrize(
    ("options", "gathers", "scatters"),
    [
        ({}, 6, 3),
        ({"hold": True}, 6, 1),
        ({"reshard": False}, 3, 3),
        ({"reshard": False, "hold": True}, 3, 1),
    ],
    ids=str,
)
def test_stage_3_trades_memory_for_bytes_when_gradients_accumulate(
    pair, options, gathers, scatters
):
    micro_batches = 4  # of one sequence
    gathers, scatters = gathers // 3 * micro_batches, scatters if scatters == 1 else micro_batches
    for calls, sent, lengths in pair.run(one_step_counted, 3, micro_batches, **options):
        n = len(lengths)
        assert calls == {"all_gather": n * gathers, "reduce_scatter": n * scatters}
        assert sent == sharded_sent_bytes(sum(lengths), gathers, scatters, 2, FP64)


def test_the_bytes_are_those_of_data_parallelism_up_to_stage_2():
    for P in (2, 64, 1000):
        for zero, times in ((0, 1), (1, 1), (2, 1), (3, 1.5)):
            once = data_parallel_bytes(1e9, P, 2)
            assert zero_sent_bytes(1e9, zero, P, 1, 2) == pytest.approx(times * once, rel=1e-15)


def test_the_bytes_of_sixteen_micro_batches_per_parameter():
    """4, 34 and 96 bytes of 2-byte numbers, as the number of ranks grows."""
    per_parameter = [zero_sent_bytes(1e9, zero, 10**9, 16, 2) / 1e9 for zero in (1, 2, 3)]
    assert per_parameter == pytest.approx([4, 34, 96], rel=1e-8)


def held(zero):
    """Bytes that a rank holds of weights, gradients and optimizer between the passes of a step."""
    import torch
    from zero_job import Job, batch

    job = Job(
        zero,
        spec="odd",
        dtype="bfloat16",
        **({"master_dtype": torch.float32} if zero in (1, 2) else {}),
    )
    job.step(*batch(0))
    job.optimizer.zero_grad()
    job.backward(*batch(1))
    flats = job.optimizer.flats if zero < 3 else job.trained._flats()
    inner = job.optimizer.optimizer if zero < 3 else job.optimizer
    weights = {t.untyped_storage().data_ptr(): t.untyped_storage() for t in job.module.parameters()}
    weights.pop(0, None)
    gradients = [p.grad for f in flats for p in (*f.parameters, f.own) if p.grad is not None]
    moments = [t for own in inner.state.values() for t in own.values() if t.dim()]
    return (
        sum(s.nbytes() for s in weights.values()),
        sum(g.nbytes for g in gradients),
        sum(t.nbytes for t in [f.own for f in flats] + moments),
        [f.whole.numel() for f in flats],
    )


@pytest.mark.parametrize("zero", [1, 2])
def test_a_rank_holds_what_the_account_says(ranks, zero):
    """Weights of 2 bytes; gradients of 2 while they are whole, in 32 bits in the part."""
    P = ranks.n
    for weights, gradients, optimizer, lengths in ranks.run(held, zero):
        whole = sum(lengths)
        params = SPECS["odd"].params()
        assert (weights, optimizer) == (2 * whole, 12 * whole // P)
        assert gradients == (2 * params if zero == 1 else 4 * whole // P)
        account = model_state_bytes(whole, zero, P)
        wider = 2 * whole // P if zero == 2 else 2 * (params - whole)  # 32 bits; what fills up
        assert weights + gradients + optimizer == account + wider


def held_in_stage_3():
    import torch
    import torch.distributed as dist
    from zero_job import ADAM, batch, model, own

    from dtlib.memory import FullySharded
    from dtlib.models import next_token_loss

    made = model("odd", "float32")
    sharded = FullySharded(made, dist.group.WORLD, dtype=torch.bfloat16)
    optimizer = torch.optim.AdamW(sharded.parameters(), **ADAM)
    x, y = map(own, batch(0))
    for _ in range(2):
        optimizer.zero_grad()
        next_token_loss(sharded(x), y).backward()
        optimizer.step()
    parts = list(sharded.parameters())
    moments = [t for state in optimizer.state.values() for t in state.values() if t.dim()]
    kept = [*parts, *(part.grad for part in parts), *moments, *made.parameters()]
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in kept}
    flats = sharded._flats()
    whole = sum(flat.whole.untyped_storage().nbytes() for flat in flats)
    padding = sum(flat.part for flat in flats) - sum(part.numel() for part in parts)
    return sum(storages.values()) + whole, sum(flat.whole.numel() for flat in flats), padding


def test_stage_3_holds_one_part_of_everything_and_nothing_whole(ranks):
    """Weights and gradients of a part have its padding, moments of its pieces have not."""
    for total, numbers, padding in ranks.run(held_in_stage_3):
        assert 0 <= padding < ranks.n * 3
        assert total + 8 * padding == model_state_bytes(numbers, 3, ranks.n)
        assert model_state_bytes(numbers, 3, ranks.n) == 16 * numbers / ranks.n


def measured_memory(zero):
    """Bytes between a forward and a backward pass, of the state and as the meter counts, and the
    account of the two."""
    from zero_job import SPECS, TOKENS, Job, batch, own

    from dtlib.memory import (
        Meter,
        gpt_kept_tensors,
        held_gradient_bytes,
        held_optimizer_bytes,
        held_weight_bytes,
    )
    from dtlib.models import next_token_loss

    job = Job(zero, dtype="float32")
    job.step(*batch(0))  # moments
    job.optimizer.zero_grad()
    job.backward(*batch(2))  # gradients of a first micro-batch
    flats = job.trained._flats() if zero == 3 else getattr(job.optimizer, "flats", [])
    parameters = [*job.trained.parameters(), *job.module.parameters(), *(f.own for f in flats)]
    gradients = [p.grad for p in parameters if p.grad is not None]
    inner = job.optimizer.optimizer if zero in (1, 2) else job.optimizer
    moments = [t for state in inner.state.values() for t in state.values() if t.dim()]
    there = [*parameters, *(flat.whole for flat in flats)]
    x, y = (own(tokens).contiguous() for tokens in batch(1))
    with Meter(*there, x, y) as meter:
        loss = next_token_loss(job.trained(x), y)  # its graph holds what is counted
    storages = {t.untyped_storage()._cdata: t.untyped_storage() for t in there}
    storages |= {t.untyped_storage()._cdata: t.untyped_storage() for t in gradients + moments}
    found = sum(storage.nbytes() for storage in storages.values()), meter.kept_bytes
    loss.backward()
    spec, P = SPECS["plain"], SEQUENCES // len(x)
    formulas = ((held_weight_bytes, 4), (held_gradient_bytes, 4), (held_optimizer_bytes, 8))
    state = sum(held(spec.params(), width, zero, P) for held, width in formulas)
    return found, (state, sum(row.bytes for row in gpt_kept_tensors(spec, TOKENS, len(x), 4)))


@pytest.mark.parametrize("zero", range(4))
def test_the_memory_of_a_rank_is_that_of_the_equation_within_one_percent(ranks, zero):
    """The state is that of the account to the byte, and activations are divided by no stage."""
    for (state, kept), (state_account, kept_account) in ranks.run(measured_memory, zero):
        assert kept == kept_account
        assert state == state_account
        assert state + kept == pytest.approx(state_account + kept_account, rel=0.01)
        for other in set(range(4)) - {zero}:  # sabotage: another stage's account is far off
            factor = model_state_bytes(1, other, ranks.n) / model_state_bytes(1, zero, ranks.n)
            assert abs(factor * state_account / state - 1) > 0.05


def beside_torch(steps):
    """Errors of ours against torch's own, in stage 1 and 3."""
    import torch
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.optim import ZeroRedundancyOptimizer
    from torch.nn.parallel import DistributedDataParallel
    from zero_job import ADAM, Job, batch, model, own

    from dtlib.models import next_token_loss, relative_errors, worst

    ours = {zero: Job(zero) for zero in (1, 2, 3)}
    replica, sharded = model(), model()
    replicated = DistributedDataParallel(replica)
    first = ZeroRedundancyOptimizer(replica.parameters(), torch.optim.AdamW, **ADAM)
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for block in sharded.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(sharded, mesh=mesh)
    third = torch.optim.AdamW(sharded.parameters(), **ADAM)
    for step in range(steps):
        x, y = batch(step)
        for job in ours.values():
            job.step(x, y)
        for module, optimizer in ((replicated, first), (sharded, third)):
            optimizer.zero_grad()
            next_token_loss(module(own(x)), own(y)).backward()
            optimizer.step()
    natives = {
        "ZeroRedundancyOptimizer": dict(replica.named_parameters()),
        "FSDP2": {name: p.full_tensor() for name, p in sharded.named_parameters()},
    }
    return {
        (zero, name): worst(relative_errors(job.weights(), native))[1]
        for zero, job in ours.items()
        for name, native in natives.items()
    }


def test_torchs_own_sharding_ends_with_the_same_weights(pair):
    for errors in pair.run(beside_torch, 5):
        assert max(errors.values()) <= 1e-12, errors


def state_there_and_back(zero):
    """Errors after a sharded state became a plain one, and a plain one a sharded one."""
    import torch
    from zero_job import ADAM, Job, batch, model, values

    from dtlib.models import next_token_loss, relative_errors, worst

    job, one, late = Job(zero), Job("one"), Job(zero)
    for step in range(3):
        job.step(*batch(step))
        one.step(*batch(step))

    def saved(job):
        if job.zero == 3:
            return job.weights(), job.trained.optimizer_state_dict(job.optimizer)
        return job.weights(), job.optimizer.state_dict()

    weights, state = saved(job)
    plain = model()
    plain.load_state_dict(weights)
    optimizer = torch.optim.AdamW(plain.parameters(), **ADAM)
    optimizer.load_state_dict(state)
    if zero == 3:
        late.trained.load_state_dict(one.module.state_dict())
        late.trained.load_optimizer_state_dict(late.optimizer, one.optimizer.state_dict())
    else:
        late.module.load_state_dict(one.module.state_dict())
        late.optimizer.load_state_dict(one.optimizer.state_dict())
    again_weights, again = saved(late)
    same = one.optimizer.state_dict()
    round_trip = (
        all(
            torch.equal(again["state"][i][key], value)
            for i, entry in same["state"].items()
            for key, value in entry.items()
        )
        and again["param_groups"] == same["param_groups"]
    )
    for step in range(3, 5):
        x, y = batch(step)
        for each in (job, one, late):
            each.step(x, y)
        optimizer.zero_grad()
        next_token_loss(plain(x), y).backward()
        optimizer.step()
    ends = {"job": job.weights(), "plain": values(plain), "late": late.weights()}
    errors = {k: worst(relative_errors(v, one.weights()))[1] for k, v in ends.items()}
    return errors, round_trip, all(again_weights[k].shape == v.shape for k, v in weights.items())


@pytest.mark.parametrize("zero", [1, 2, 3])
def test_states_are_those_of_plain_optimizers_and_go_there_and_back(ranks, zero):
    for errors, round_trip, shapes in ranks.run(state_there_and_back, zero):
        assert max(errors.values()) <= 1e-11, errors
        assert round_trip
        assert shapes


def master_copies_there_and_back(zero):
    """Whether a run that was saved and loaded goes on bit for bit, weights of 16 bits and parts."""
    import torch
    from zero_job import Job, batch

    options = {"dtype": "bfloat16", "spec": "odd", "master_dtype": torch.float32}
    job, late = Job(zero, **options), Job(zero, **options)
    for step in range(3):
        job.step(*batch(step))
    late.module.load_state_dict(job.weights())
    late.optimizer.load_state_dict(job.optimizer.state_dict())
    fresh = Job(zero, **options)  # sabotage: without master copies, what they held is lost
    state = job.optimizer.state_dict()
    for entry in state["state"].values():
        del entry["master"]
    fresh.module.load_state_dict(job.weights())
    fresh.optimizer.load_state_dict(state)
    for step in range(3, 6):
        for each in (job, late, fresh):
            each.step(*batch(step))

    def same(other):
        pairs = zip(job.optimizer.flats, other.optimizer.flats, strict=True)
        return all(torch.equal(mine.own, others.own) for mine, others in pairs)

    return same(late), same(fresh)


@pytest.mark.parametrize("zero", [1, 2])
def test_master_copies_are_saved_so_that_a_run_goes_on_bit_for_bit(pair, zero):
    assert pair.run(master_copies_there_and_back, zero) == [(True, False)] * 2


def clipped(zero):
    import torch
    import torch.distributed as dist
    from zero_job import Job, batch

    from dtlib.memory import clip_gradients
    from dtlib.models import relative_errors, worst

    one, job = Job("one"), Job(zero)
    norms = []
    for step in range(3):
        for each in (one, job):
            each.optimizer.zero_grad()
            each.backward(*batch(step))
        norms.append(torch.nn.utils.clip_grad_norm_(one.module.parameters(), 0.3).item())
        if zero == 3:
            norms[-1] /= clip_gradients(job.trained.parameters(), 0.3, dist.group.WORLD).item()
        else:
            norms[-1] /= job.optimizer.clip_gradients(0.3).item()
        one.optimizer.step()
        job.optimizer.step()
    return norms, worst(relative_errors(job.weights(), one.weights()))[1]


@pytest.mark.parametrize("zero", [1, 2, 3])
def test_the_norm_of_all_parts_together_is_that_of_the_whole(pair, zero):
    for ratios, error in pair.run(clipped, zero):
        assert ratios == pytest.approx([1, 1, 1], rel=1e-12)
        assert error <= 1e-11


def groups_and_schedule():
    """Parameter groups: weight decay for matrices only, and a rate that changes."""
    import torch
    import torch.distributed as dist
    from zero_job import batch, model, own, values

    from dtlib.memory import ShardedOptimizer
    from dtlib.models import next_token_loss, relative_errors, worst

    def groups(module):
        matrices = [p for p in module.parameters() if p.dim() > 1]
        rest = [p for p in module.parameters() if p.dim() <= 1]
        return [{"params": matrices, "weight_decay": 0.5}, {"params": rest, "weight_decay": 0.0}]

    one, mine = model(), model()
    plain = torch.optim.AdamW(groups(one), lr=0.01)
    sharded = ShardedOptimizer(groups(mine), torch.optim.AdamW, dist.group.WORLD, zero=2, lr=0.01)
    rates = [torch.optim.lr_scheduler.StepLR(o, 1, 0.5) for o in (plain, sharded.optimizer)]
    for step in range(4):
        x, y = batch(step)
        for optimizer, module, tokens, targets in (
            (plain, one, x, y),
            (sharded, mine, own(x), own(y)),
        ):
            optimizer.zero_grad()
            next_token_loss(module(tokens), targets).backward()
            optimizer.step()
        for rate in rates:
            rate.step()
    return sharded.param_groups[0]["lr"], worst(relative_errors(values(mine), values(one)))[1]


def test_parameter_groups_and_learning_rate_schedules_work_as_on_a_plain_optimizer(pair):
    for rate, error in pair.run(groups_and_schedule):
        assert rate == 0.01 * 0.5**4
        assert error <= 1e-11


def damaged(zero, damage):
    """The error after three steps in which something is left out."""
    import torch
    from zero_job import Job, batch

    from dtlib.memory.zero.parts import PartedFlat
    from dtlib.models import relative_errors, worst

    class Done:
        def wait(self):
            pass

    flat = PartedFlat
    kept = flat.gather, flat.reduce
    one, job = Job("one"), Job(zero)

    def no_gather(self):
        return Done()

    def one_missing(self, factor, dtype=None):
        whole, part, work = kept[1](self, factor, dtype)
        work.wait()
        return whole, part if self is not smallest else part.zero_(), Done()

    def own_gradient_only(self, factor, dtype=None):
        whole = self.lay_out([p.grad for p in self.parameters])
        self.drop_gradients()
        return whole, whole[self.place].clone(), Done()

    flats = job.optimizer.flats if zero < 3 else job.trained._flats()
    smallest = min(flats, key=lambda flat: flat.length)
    if damage == "no gather":
        flat.gather = no_gather
    if damage == "one part's gradient missing":
        flat.reduce = one_missing
    if damage == "own gradient":
        flat.reduce = own_gradient_only
    try:
        for step in range(3):
            one.step(*batch(step))
            job.step(*batch(step))
    finally:
        flat.gather, flat.reduce = kept
    with torch.no_grad():
        return worst(relative_errors(job.weights(), one.weights()))[1]


@pytest.mark.parametrize("zero", [1, 2, 3])
@pytest.mark.parametrize("damage", ["no gather", "one part's gradient missing", "own gradient"])
def test_sabotage_what_is_left_out_shows(pair, zero, damage):
    assert max(pair.run(damaged, zero, "nothing")) <= 1e-11
    assert max(pair.run(damaged, zero, damage)) > 1e-4


def norms_of_parts(check):
    import torch
    import torch.distributed as dist
    from zero_job import batch, model, own, values

    from dtlib.memory import NormalisedSGD, ShardedOptimizer
    from dtlib.models import next_token_loss, relative_errors, worst
    from dtlib.parallelism import DataParallel

    replica, sharded = model(), model()
    replicated = DataParallel(replica, dist.group.WORLD)
    plain = NormalisedSGD(replica.parameters(), lr=0.01)
    parts = ShardedOptimizer(
        sharded.parameters(), NormalisedSGD, dist.group.WORLD, lr=0.01, check=check
    )
    for optimizer, module in ((plain, replicated), (parts, sharded)):
        x, y = map(own, batch(0))
        next_token_loss(module(x), y).backward()
        optimizer.step()
    with torch.no_grad():
        return worst(relative_errors(values(sharded), values(replica)))[1]


def test_an_optimizer_that_looks_at_norms_is_refused_and_if_forced_trains_another_model(pair):
    with pytest.raises(RanksError, match="NormalisedSGD is not elementwise"):
        pair.run(norms_of_parts, True)
    assert min(pair.run(norms_of_parts, False)) > 1e-4


def clipped_in_between(zero, late=True):
    """The weight after a clipping between two backward passes of one step, which lose nothing."""
    import torch
    import torch.distributed as dist

    from dtlib.memory import ShardedOptimizer
    from dtlib.memory.zero.parts import PartedFlat

    weight = torch.nn.Parameter(torch.zeros(3))
    optimizer = ShardedOptimizer([weight], torch.optim.SGD, dist.group.WORLD, zero=zero, lr=1.0)
    kept = PartedFlat.has_gradients
    PartedFlat.has_gradients = kept if late else lambda _: False
    try:
        optimizer.zero_grad(set_to_none=True)
        weight.sum().backward()
        norm = optimizer.clip_gradients(100.0)
        (2 * weight).sum().backward()
        optimizer.step()
    finally:
        PartedFlat.has_gradients = kept
    return norm.item(), weight.tolist()


@pytest.mark.parametrize("zero", [1, 2])
def test_a_backward_pass_after_a_clipping_counts(pair, zero):
    for norm, weight in pair.run(clipped_in_between, zero):
        assert norm == pytest.approx(3**0.5)
        assert weight == [-3.0] * 3
    lost = pair.run(clipped_in_between, zero, late=False)[0][1]  # sabotage
    assert lost == ([-1.0] * 3 if zero == 1 else [-3.0] * 3)


def refused(zero, **options):
    import torch
    import torch.distributed as dist

    from dtlib.memory import ShardedOptimizer

    linear = torch.nn.Linear(3, 3)
    if options.pop("frozen", False):
        linear.requires_grad_(False)
    if options.pop("sparse", False):
        linear = torch.nn.Embedding(4, 3, sparse=True)
    group = options.pop("group", dist.group.WORLD)
    state, cast = options.pop("state", None), options.pop("cast", False)
    given = {
        "twice": [*linear.parameters(), *linear.parameters()],
        "text": ["weight"],
    }.get(options.pop("given", ""), linear.parameters())
    optimizer = ShardedOptimizer(given, torch.optim.SGD, group, zero=zero, **options)
    if state:
        optimizer.load_state_dict(state)
    if cast:
        linear.double()
        optimizer.step()
    linear(torch.tensor([1])).sum().backward()
    optimizer.clip_gradients(0.0)


@pytest.mark.parametrize(
    ("zero", "options", "said"),
    [
        (3, {}, r"zero = 3; allowed are 1 and 2 \(3 is FullySharded\)"),
        (1, {"group": None}, "group = None"),
        (1, {"frozen": True}, "none requires a gradient"),
        (1, {"given": "twice"}, "one is listed twice"),
        (2, {"given": "text"}, "optimize Tensors, but one of the params is str"),
        (1, {"bucket_bytes": 0}, "bucket_bytes is 0"),
        (True, {}, "zero = True"),
        (1, {"master_dtype": "f"}, "master_dtype is 'f', but must be a floating-point"),
        (1, {"sparse": True}, "sparse"),
        (1, {"state": {"param_groups": [], "state": {}}}, r"groups of \[\] parameters"),
        (2, {"state": {"step": 3}}, r"state_dict is \['step'\], but must be a dict of 'state'"),
        (1, {"cast": True}, "2 of 2 parameters lie in memory of their own again"),
    ],
    ids=str,
)
def test_what_cannot_work_is_refused(pair, zero, options, said):
    with pytest.raises(RanksError, match=said):
        pair.run(refused, zero, **options)


def test_the_benchmark_times_equal_steps_of_both_libraries(pair):
    from benchmarks.memory.zero_against_fsdp import WAYS, ratio, step_times

    small = {"layers": 2, "hidden": 16, "heads": 4, "vocab": 32, "norm": "rms", "bias": False}
    for times in pair.run(step_times, small, 4, 8, 3):
        assert {label: len(series) for label, series in times.items()} == {
            f"2 ranks, {name}": 3 for name in WAYS
        }
        assert ratio(times, 2) > 0
