"""A mixture of experts over ranks is the one of a single process: every output and gradient."""

import pytest
import torch

from dtlib.models import relative_errors, worst
from dtlib.runtime import launch

E, H, K = 8, 12, 2


@pytest.fixture(scope="module")
def two():
    with launch(2, timeout=60) as ranks:
        yield ranks


@pytest.fixture(params=[2, 4])
def ranks(request, two, four):
    return two if request.param == 2 else four


def mixture(dtype, active=K, shared=0, lean=0.0):
    """The reference layer; `lean` makes every token prefer expert 0, and none choose the last."""
    from dtlib.foundations import MoE, TransformerSpec
    from dtlib.models.gpt import GPT

    moe = MoE(experts=8, active=active, ffn=20, shared=shared)
    spec = TransformerSpec("moe", layers=1, hidden=12, heads=2, vocab=11, gated=True, moe=moe)
    layer = GPT(spec, seed=3, dtype=dtype).blocks[0].feed_forward
    with torch.no_grad():
        layer.router.weight[0] += lean
        layer.router.weight[-1] -= lean
    return layer


def batch(dtype, tokens=24):
    generator = torch.Generator().manual_seed(5)
    x = torch.randn(tokens, H, generator=generator, dtype=torch.float64)
    y = torch.randn(tokens, H, generator=generator, dtype=torch.float64)
    return (x.abs() + 0.1).to(dtype), y.to(dtype)


def one_process(dtype, **options):
    layer, (x, y) = mixture(dtype, **options), batch(dtype)
    x.requires_grad_()
    out = layer(x)
    (out * y).sum().backward()
    named = {name: p.grad for name, p in layer.named_parameters()}
    return {"out": out.detach(), "dX": x.grad, **named}


def on_a_rank(build, data, dtype, sabotage="", **options):
    """This rank's rows of the output and of dX, and its gradients after the replicas are summed."""
    import torch.distributed as dist

    from dtlib.parallelism.expert import layer as expert

    rank, P = dist.get_rank(), dist.get_world_size()
    x, y = (part.chunk(P)[rank].clone() for part in data(dtype))
    x.requires_grad_()
    layer = expert.MoELayer(build(dtype, **options), dist.group.WORLD)
    original = expert.combine
    if sabotage == "permutation":
        expert.combine = lambda done, gate, routes, group: original(
            done.roll(1, 0), gate, routes, group
        )
    if sabotage == "gate":
        expert.combine = lambda done, gate, *rest: original(done, torch.ones_like(gate), *rest)
    try:
        out = layer(x)
    finally:
        expert.combine = original
    (out * y).sum().backward()
    if sabotage != "router":
        expert.sum_gradients(
            layer, dist.group.WORLD, dist.group.WORLD if sabotage == "group" else None
        )
    named = {name: p.grad for name, p in layer.named_parameters()}
    return {"out": out.detach(), "dX": x.grad, **named}, layer.routes.loads


def gathered(results):
    found = {name: torch.cat([r[name] for r in results]) for name in ("out", "dX")}
    for result in results:
        found |= {name: value for name, value in result.items() if name not in found}
    return found


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("options", [{}, {"active": 1}, {"shared": 1}, {"lean": 2.0}])
def test_a_layer_over_ranks_equals_one_process_in_output_dx_and_every_gradient(
    ranks, dtype, options
):
    results = ranks.run(on_a_rank, mixture, batch, dtype, **options)
    found = gathered([result for result, _ in results])
    name, error = worst(relative_errors(found, one_process(dtype, **options)))
    assert error <= (1e-12 if dtype == torch.float64 else 1e-5), name


def test_an_expert_that_gets_nothing_has_a_zero_gradient_and_the_others_stay_right(four):
    results = four.run(on_a_rank, mixture, batch, torch.float64, lean=2.0)
    loads = [load for _, loads in results for load in loads]
    assert min(loads) == 0 and max(loads) == 24 and sum(loads) == 24 * K
    last = results[-1][0]["experts.7.up.weight"]
    assert torch.count_nonzero(last) == 0


@pytest.mark.parametrize(
    ("sabotage", "wrong"),
    [
        ("permutation", {"out", "dX", "router.weight", "experts.0.up.weight"}),
        ("gate", {"out", "dX", "experts.0.up.weight"}),
        ("router", {"router.weight"}),
    ],
)
def test_a_mistake_on_the_way_is_found(four, sabotage, wrong):
    results = four.run(on_a_rank, mixture, batch, torch.float64, sabotage)
    found = gathered([result for result, _ in results])
    reference = one_process(torch.float64)
    if sabotage == "gate":
        for result, _ in results:
            assert "router.weight" in result
    errors = relative_errors({n: found[n] for n in reference}, reference)
    assert {name for name, error in errors.items() if error > 1e-6} >= wrong
    if sabotage == "router":
        assert {name for name, error in errors.items() if error > 1e-12} == wrong


def test_expert_gradients_summed_over_the_wrong_group_are_the_gradients_of_other_experts(four):
    results = four.run(on_a_rank, mixture, batch, torch.float64, "group")
    found = gathered([result for result, _ in results])
    reference = one_process(torch.float64)
    errors = relative_errors(found, reference)
    assert errors["out"] < 1e-12 and errors["dX"] < 1e-12 and errors["router.weight"] < 1e-12
    assert any(errors[name] > 1e-2 for name in errors if name.startswith("experts"))
    mixed = sum(reference[f"experts.{e}.up.weight"] for e in (0, 2, 4, 6))
    torch.testing.assert_close(found["experts.0.up.weight"], mixed)


def travelled(build_routes, expert_of):
    import torch.distributed as dist

    from dtlib.parallelism.expert.layer import combine, dispatch

    rank, group = dist.get_rank(), dist.group.WORLD
    x = torch.randn(6, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(rank))
    routes = build_routes(expert_of(rank), group)
    arrived = dispatch(x, routes, group)
    ones = torch.ones(6, expert_of(rank).shape[1], dtype=torch.float64)
    return x, combine(arrived, ones, routes, group), routes


def test_there_and_back_with_gates_of_one_is_k_times_the_identity_even_with_empty_messages(four):
    def to_one_rank(rank):
        return torch.tensor([[0, 1]] * 6) if rank != 2 else torch.tensor([[7, 0]] * 6)

    def routes(expert_tk, group):
        from dtlib.parallelism.expert.layer import dropless_routes

        return dropless_routes(expert_tk, 8, group)

    results = four.run(travelled, routes, to_one_rank)
    assert all(torch.equal(out, 2 * x) for x, out, _ in results)
    plans = [p for _, _, p in results]
    assert any(0 in p.sent for p in plans) and sum(sum(p.loads) for p in plans) == 4 * 6 * 2
    assert [[p.sent[q] for p in plans] for q in range(4)] == [p.received for p in plans]


def test_a_full_expert_drops_the_last_in_its_queue_and_their_rows_are_exactly_zero(four):
    def first(rank):
        return torch.tensor([[0], [0], [1], [0], [5], [0]])

    def routes(expert_tk, group):
        from dtlib.parallelism.expert.layer import capacity_routes

        return capacity_routes(expert_tk, 8, 2, group)

    for x, out, used in four.run(travelled, routes, first):
        assert torch.equal(out[[0, 1, 2, 4]], x[[0, 1, 2, 4]])
        assert torch.equal(out[[3, 5]], torch.zeros(2, 3, dtype=torch.float64))
        assert used.dropped == 2
        assert used.sent == used.received == [4] * 4 and used.loads == [8, 8]


def padded(build, data):
    import torch.distributed as dist

    from dtlib.parallelism.expert.layer import MoELayer

    rank, P = dist.get_rank(), dist.get_world_size()
    x, y = (part.chunk(P)[rank].clone() for part in data(torch.float64))
    grads = []
    for factor in (None, 8.0):
        layer, own = (
            MoELayer(build(torch.float64), dist.group.WORLD, capacity_factor=factor),
            x.clone().requires_grad_(),
        )
        out = layer(own)
        (out * y).sum().backward()
        grads.append({"out": out.detach(), "dX": own.grad,
                      **{n: p.grad for n, p in layer.named_parameters()}})  # fmt: skip
    return grads, layer.routes.dropped


def test_with_room_for_all_padding_changes_nothing(four):
    for (exact, roomy), dropped in four.run(padded, mixture, batch):
        assert dropped == 0
        assert worst(relative_errors(roomy, exact))[1] <= 1e-12


def counted_bytes(build, factor):
    import torch.distributed as dist

    from dtlib.parallelism import MoELayer, counted

    layer = MoELayer(build(torch.float32), dist.group.WORLD, capacity_factor=factor)
    x = torch.randn(16, 12, generator=torch.Generator().manual_seed(dist.get_rank()))
    x.requires_grad_()
    with counted(dist.group.WORLD) as log:
        out = layer(x)
    forward = dict(log.bytes)
    with counted(dist.group.WORLD) as log:
        out.sum().backward()
    away = sum(n for q, n in enumerate(layer.routes.sent) if q != dist.get_rank())
    back = sum(n for q, n in enumerate(layer.routes.received) if q != dist.get_rank())
    return forward, dict(log.bytes), (away + back) * 12 * 4


def test_padded_bytes_are_the_formula_on_every_rank_and_the_backward_pass_sends_them_again(four):
    from dtlib.parallelism import padded_routed_bytes

    exact = padded_routed_bytes(16, K, H, 4, 4, capacity_factor=1.5)
    for forward, backward, rows in four.run(counted_bytes, mixture, 1.5):
        assert sum(forward.values()) == sum(backward.values()) == exact == rows


def test_dropless_bytes_are_the_rows_of_the_plan_and_the_counts(four):
    for forward, backward, rows in four.run(counted_bytes, mixture, None):
        counts = 3 * 2 * 8  # three other ranks, two experts each, 64-bit counts
        assert sum(forward.values()) == rows + counts
        assert sum(backward.values()) == rows


MESSAGES = [
    (lambda m: m.MoELayer(mixture(torch.float32), m.dist.group.WORLD, capacity_factor=0),
     "capacity_factor is 0"),
    (lambda m: m.experts_per_rank(6, m.dist.group.WORLD), "a divisor of experts, which is 6"),
    (lambda m: m.capacity_routes(torch.zeros(2, 1, dtype=torch.int64), 8, 0, m.dist.group.WORLD),
     "capacity is 0, but must be a whole number of at least 1"),
]  # fmt: skip


@pytest.mark.parametrize(("wrong", "says"), MESSAGES)
def test_a_wrong_argument_is_named_with_its_rule(four, wrong, says):
    def attempt(wrong):
        from dtlib.parallelism.expert import layer as expert

        try:
            wrong(expert)
        except ValueError as error:
            return str(error)

    assert all(says in said for said in four.run(attempt, wrong))


def model_and_tokens():
    from dtlib.foundations import MoE, TransformerSpec
    from dtlib.models import GPT

    moe = MoE(experts=4, active=2, ffn=8, shared=1, dense_layers=1)
    spec = TransformerSpec("tiny", layers=2, hidden=8, heads=2, vocab=13, gated=True, moe=moe)
    tokens = torch.randint(0, 13, (4, 7), generator=torch.Generator().manual_seed(1))
    return GPT(spec, seed=2, dtype=torch.float64), tokens


def trained(model_and_tokens, steps, groups_by_size=None):
    """Train; `groups_by_size` says how the ranks share the work: {"edp": 2, "ep": 2}."""
    import torch.distributed as dist

    from dtlib.mesh import Mesh, make_groups
    from dtlib.models import next_token_loss
    from dtlib.parallelism.expert.layer import expert_parallel, sum_gradients

    model, tokens = model_and_tokens()
    count, everyone, copies = tokens[:, 1:].numel(), None, None
    if groups_by_size:
        own, everyone = make_groups(Mesh.of(**groups_by_size)), dist.group.WORLD
        copies = own["edp"] if groups_by_size["edp"] > 1 else None
        expert_parallel(model, own["ep"])
        tokens = tokens.chunk(dist.get_world_size())[dist.get_rank()]
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = next_token_loss(model(tokens[:, :-1]), tokens[:, 1:], reduction="sum") / count
        loss.backward()
        if groups_by_size:
            sum_gradients(model, everyone, copies)
        optimizer.step()
    return {name: p.detach() for name, p in model.named_parameters()}


@pytest.mark.parametrize("shape", [{"edp": 1, "ep": 4}, {"edp": 2, "ep": 2}])
def test_a_gpt_trained_expert_parallel_has_the_weights_of_one_process(four, shape):
    reference = trained(model_and_tokens, 5)
    for found in four.run(trained, model_and_tokens, 5, shape):
        assert worst(relative_errors(found, {n: reference[n] for n in found}))[1] <= 1e-9
        assert len(found) < len(reference)


def local_balance(build, data):
    import torch.distributed as dist

    from dtlib.parallelism import Router, balance_loss

    rank, P = dist.get_rank(), dist.get_world_size()
    layer = build(torch.float64)
    router = Router.sharing(layer.router, 2)
    losses = []
    for group in (dist.group.WORLD, None):
        router.zero_grad()
        loss = balance_loss(router(data(torch.float64)[0].chunk(P)[rank]), group)
        loss.backward()
        losses.append((loss.detach(), router.weight.grad.clone()))
    return losses


def test_parts_of_the_balance_loss_add_up_and_means_of_local_losses_are_another_loss(four):
    from dtlib.parallelism import Router, balance_loss

    router = Router.sharing(mixture(torch.float64).router, 2)
    whole = balance_loss(router(batch(torch.float64)[0]))
    whole.backward()
    results = four.run(local_balance, mixture, batch)
    assert float(sum(r[0][0] for r in results)) == pytest.approx(float(whole.detach()), rel=1e-12)
    torch.testing.assert_close(sum(r[0][1] for r in results), router.weight.grad)
    assert float(sum(r[1][0] for r in results)) / 4 > float(whole.detach()) + 1e-3


def without_counts():
    import torch.distributed as dist

    from dtlib.parallelism.expert import layer as expert

    exchanges, expert.exchange_counts = expert.exchange_counts, lambda sent_pe, group: sent_pe
    x = torch.ones(4, 3) * dist.get_rank()
    wants = torch.tensor([[0, 0, 1, 1], [0, 1, 1, 1]])[dist.get_rank()][:, None]
    try:
        routes = expert.dropless_routes(wants, 2, dist.group.WORLD)
        return expert.dispatch(x, routes, dist.group.WORLD)
    finally:
        expert.exchange_counts = exchanges


def test_without_an_exchange_of_counts_a_rank_dies():
    from dtlib.runtime import RanksError

    with launch(2, timeout=5) as doomed, pytest.raises(RanksError):
        doomed.run(without_counts)
