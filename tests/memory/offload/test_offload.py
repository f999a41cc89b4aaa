"""Offloaded training is resident training, bit for bit; and each rule of a store is needed."""

import copy

import pytest
import torch
from offload_models import (
    ForgetsBuffers,
    HandsOutEarly,
    batch_of,
    loss_of,
    model_of,
    same_bits,
)
from torch import nn

from dtlib.memory import (
    DiskStore,
    HostStore,
    LateStore,
    OffloadedActivations,
    OffloadedOptimizer,
    OffloadedParameters,
    StoreError,
    disk_step_bytes,
    measure_offload,
    saved_tensor_bytes,
    streamed,
)
from dtlib.memory.offload import activations as offload_activations
from dtlib.memory.offload import stream as offload_stream

STORES = {
    "host": lambda folder: HostStore(),
    "late": lambda folder: LateStore(),
    "disk": DiskStore,
}
each_store = pytest.mark.parametrize("make", STORES.values(), ids=STORES)
OPTIMIZERS = {
    "adamw": lambda params: torch.optim.AdamW(params, lr=1e-2, weight_decay=0.1),
    "amsgrad": lambda params: torch.optim.Adam(params, lr=1e-2, amsgrad=True),
    "momentum": lambda params: torch.optim.SGD(params, lr=1e-2, momentum=0.9),
    "plain": lambda params: torch.optim.SGD(params, lr=1e-2),
    "adagrad": lambda params: torch.optim.Adagrad(params, lr=1e-2),
}


@pytest.fixture(autouse=True)
def one_thread():
    """Small tensors, and lanes that are threads themselves."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def train(model, optimizer, steps=4, first=0, step=None):
    for number in range(first, first + steps):
        optimizer.zero_grad()
        loss_of(model, number).backward()
        step() if step else optimizer.step()
    return model


def resident(kind="adamw", steps=4):
    model = model_of()
    optimizer = OPTIMIZERS[kind](model.parameters())
    return train(model, optimizer, steps), optimizer


@each_store
@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("options", [{}, {"bucket_bytes": 5000, "lookahead": 2}], ids=str)
def test_an_offloaded_optimizer_has_the_same_bits(make, kind, options, tmp_path):
    expected, plain = resident(kind)
    with make(tmp_path) as store:
        model = model_of()
        optimizer = OffloadedOptimizer(OPTIMIZERS[kind](model.parameters()), store, **options)
        train(model, optimizer)
        assert same_bits(model.parameters(), expected.parameters())
        found, reference = optimizer.state_dict(), plain.state_dict()
        assert found["param_groups"] == reference["param_groups"]
        for i, state in reference["state"].items():
            tensors = {k: v for k, v in state.items() if isinstance(v, torch.Tensor)}
            assert found["state"][i].keys() == state.keys()
            assert not tensors or same_bits(
                (found["state"][i][name] for name in tensors), tensors.values()
            )


def test_a_step_moves_all_state_once_in_each_direction_and_holds_three_units():
    sizes = 128, 64, 256, 64
    params = [nn.Parameter(torch.ones(size)) for size in sizes]
    with HostStore() as store:
        optimizer = OffloadedOptimizer(torch.optim.Adam(params), store)
        for _ in range(2):
            store.sent = store.received = 0
            for parameter in params:
                parameter.grad = torch.ones_like(parameter)
            optimizer.step()
        assert store.sent == store.received == 8 * sum(sizes) == store.held
        assert not any(
            value.dim() for state in optimizer.optimizer.state.values() for value in state.values()
        )


def test_mixed_precision_moves_twelve_bytes_and_equals_a_resident_master_copy():
    start = [torch.randn(256).bfloat16() for _ in range(4)]
    masters = [nn.Parameter(value.float()) for value in start]
    plain = torch.optim.AdamW(masters, lr=1e-3)
    weights = [nn.Parameter(value.clone()) for value in start]
    with LateStore() as store:
        optimizer = OffloadedOptimizer(torch.optim.AdamW(weights, lr=1e-3), store, master=True)
        for step in range(5):
            store.sent = store.received = 0
            torch.manual_seed(step)
            for weight, master in zip(weights, masters, strict=True):
                weight.grad = torch.randn(256).bfloat16()
                master.grad = weight.grad.float()
            optimizer.step()
            plain.step()
            assert same_bits(weights, (master.bfloat16() for master in masters))
        assert store.sent + store.received == disk_step_bytes(4 * 256)
        stale = torch.optim.AdamW([nn.Parameter(value.clone()) for value in start], lr=1e-3)
        other = OffloadedOptimizer(stale, store, master=True)
        other.load_state_dict(optimizer.state_dict())
        saved = other.state_dict()["state"]
        assert same_bits((saved[i]["master"] for i in range(4)), masters)


def test_state_moves_between_a_plain_optimizer_and_an_offloaded_one_in_both_directions():
    expected, _ = resident(steps=4)
    model, plain = resident(steps=2)
    with HostStore() as store:
        optimizer = OffloadedOptimizer(OPTIMIZERS["adamw"](model.parameters()), store)
        optimizer.load_state_dict(plain.state_dict())
        train(model, optimizer, steps=1, first=2)
        back = OPTIMIZERS["adamw"](model.parameters())
        back.load_state_dict(optimizer.state_dict())
    train(model, back, steps=1, first=3)
    assert same_bits(model.parameters(), expected.parameters())
    with HostStore() as store:  # an optimizer that has run already
        model, plain = resident(steps=2)
        train(model, OffloadedOptimizer(plain, store, bucket_bytes=4000), steps=2, first=2)
    assert same_bits(model.parameters(), expected.parameters())


def test_groups_schedules_closures_and_parameters_without_gradients_are_the_optimizer_s():
    results = []
    for offload in (False, True):
        first, second, frozen = (nn.Parameter(torch.ones(6)) for _ in range(3))
        groups = [{"params": [first, frozen]}, {"params": [second], "lr": 0.3, "betas": (0.5, 0.9)}]
        inner = torch.optim.AdamW(groups, lr=0.1)
        schedule = torch.optim.lr_scheduler.ExponentialLR(inner, 0.5)
        with LateStore() as store:
            optimizer = OffloadedOptimizer(inner, store, bucket_bytes=60) if offload else inner
            calls = []

            def closure():
                calls.append(1)  # noqa: B023
                optimizer.zero_grad()  # noqa: B023
                loss = (first * 3).sum() ** 2 + (second**2).sum()  # noqa: B023
                if len(calls) > 2:  # noqa: B023
                    loss = loss + (frozen**3).sum()  # noqa: B023
                loss.backward()
                return loss

            losses = []
            for _ in range(5):
                losses.append(optimizer.step(closure))
                schedule.step()
            assert len(calls) == 5
        results.append([*losses, first, second, frozen])
    assert same_bits(*results)


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("broken", [ForgetsBuffers, HandsOutEarly])
def test_a_broken_rule_is_noticed_in_the_optimizer(broken, watched, monkeypatch):
    """The twins: a buffer filled before its last contents are out; one read while it is filled.

    The store sees that a tensor changed on its way; if nobody looked, the bits would be wrong.
    """
    if not watched:
        monkeypatch.setattr("dtlib.memory.offload.store._version", lambda tensor: 0)
    expected, _ = resident()
    model = model_of()
    with broken() as store:
        optimizer = OffloadedOptimizer(OPTIMIZERS["adamw"](model.parameters()), store)
        if watched:
            with pytest.raises(StoreError, match="changed while it was on its way"):
                train(model, optimizer)
        else:
            train(model, optimizer)
            assert not same_bits(model.parameters(), expected.parameters())


def test_a_full_disk_leaves_the_update_complete_and_the_state_whole(tmp_path, monkeypatch):
    expected, _ = resident(steps=3)
    model = model_of()
    with DiskStore(tmp_path) as store:
        optimizer = OffloadedOptimizer(OPTIMIZERS["adamw"](model.parameters()), store)
        train(model, optimizer, steps=1)
        with monkeypatch.context() as broken:
            broken.setattr("os.replace", _no_room)
            with pytest.raises(StoreError, match="No space left"):
                train(model, optimizer, steps=1, first=1)
        store.flush()
        train(model, optimizer, steps=1, first=2)
    assert same_bits(model.parameters(), expected.parameters())


def _no_room(*_):
    raise OSError(28, "No space left on device")


def gradients_of(model, step=0):
    model.zero_grad()
    loss = loss_of(model, step)
    loss.backward()
    return [loss, *(parameter.grad for parameter in model.parameters())]


@each_store
@pytest.mark.parametrize("lookahead", [0, 1, 5])
def test_offloaded_activations_give_the_same_bits_and_move_what_the_meter_counts(
    make, lookahead, tmp_path
):
    model = model_of()
    expected = [value.detach().clone() for value in gradients_of(model)]
    with make(tmp_path) as store:
        model.zero_grad()
        with OffloadedActivations(store, model, lookahead=lookahead) as away:
            loss = loss_of(model)
        loss.backward()
        assert same_bits([loss, *(p.grad for p in model.parameters())], expected)
        assert away.sent == store.sent == store.received and away.waiting == 0
        assert away.sent == saved_tensor_bytes(lambda: loss_of(model), besides=[model])
        assert 0 < away.peak_bytes < away.sent
        del loss
        store.flush()
        assert store.held == 0 and not store.keys()


def test_a_shared_memory_travels_once_and_a_reused_address_is_another_memory():
    x = torch.randn(64, 8, dtype=torch.float64, requires_grad=True)
    with LateStore() as store:
        with OffloadedActivations(store, nn.Identity()) as away:
            wide = x * 1.0
            a, b = wide.split(4, dim=1)
            loss = (a * b).sum() + (a * a).sum() + (wide.t() @ wide).sum()
        sent = away.sent
        loss.backward(retain_graph=True)
        first, x.grad = x.grad, None
        loss.backward()
        assert torch.equal(first, x.grad)
        assert sent <= 2 * wide.nbytes
        with OffloadedActivations(store, nn.Identity()):
            total = 0
            for i in range(20):  # each sine's memory is free again, and the next one takes it
                total = total + (x.detach() * i + x).sin().square().sum()
        x.grad = None
        total.backward()
    reference = x.detach().requires_grad_()
    sum((x.detach() * i + reference).sin().square().sum() for i in range(20)).backward()
    assert torch.equal(x.grad, reference.grad)


@pytest.mark.parametrize("broken", [HandsOutEarly])
def test_a_broken_rule_is_noticed_in_activations(broken):
    model = model_of()
    expected = [value.detach().clone() for value in gradients_of(model)]
    model.zero_grad()
    with broken() as store:
        with OffloadedActivations(store, model):
            loss = loss_of(model)
        loss.backward()
        assert not same_bits([loss, *(p.grad for p in model.parameters())], expected)


def test_what_is_changed_before_it_is_out_is_an_error():
    x = torch.ones(5, requires_grad=True)
    with LateStore() as store:
        with OffloadedActivations(store, nn.Identity()):
            y = x * 2
            z = (y * y).sum()
        with torch.no_grad():
            y.add_(1)
        with pytest.raises(StoreError, match="changed while it was on its way"):
            z.backward()


@each_store
@pytest.mark.parametrize("lookahead", [0, 1, 2])
def test_offloaded_parameters_give_the_same_bits_and_exact_bytes(make, lookahead, tmp_path):
    expected_model, _ = resident(steps=3)
    model = model_of()
    with make(tmp_path) as store:
        offloaded = OffloadedParameters(model.blocks, store, lookahead=lookahead)
        units = [
            list(module.parameters()) for module in model.children() if module is not model.blocks
        ] + [layer.parameters for layer in offloaded.layers]
        with make(tmp_path) as states:
            optimizer = OffloadedOptimizer(
                OPTIMIZERS["adamw"](model.parameters()),
                states,
                units=[unit for unit in units if unit],
            )
            row, layers = offloaded.layers[0].bytes, len(model.blocks)
            for step in range(3):
                store.sent = store.received = 0
                offloaded.peak_bytes = 0
                optimizer.zero_grad()
                loss_of(model, step).backward()
                assert offloaded.peak_bytes == (lookahead + 1) * row
                assert store.received == (2 * layers - 1) * row and store.sent == 0
                offloaded.step(optimizer)
                assert store.received == (3 * layers - 2) * row and store.sent == layers * row
                assert offloaded.peak_bytes <= (lookahead + 2) * row and offloaded.here == 0
        with offloaded.resident():
            saved = copy.deepcopy(model.state_dict())
        assert same_bits(saved.values(), expected_model.state_dict().values())
        offloaded.restore()
        assert not store.keys()
    assert same_bits(model.parameters(), expected_model.parameters())
    tokens, _ = batch_of(9)
    assert torch.equal(model(tokens), expected_model(tokens))


def test_a_layer_that_is_shown_before_it_has_come_is_noticed():
    model = model_of()
    expected = [value.detach().clone() for value in gradients_of(model)]
    model.zero_grad()
    with HandsOutEarly() as store:
        OffloadedParameters(model.blocks, store)
        loss = loss_of(model)
        assert not torch.equal(loss, expected[0])


@pytest.mark.parametrize("recompute", [False, True])
def test_all_three_together_and_recomputed_layers_give_the_same_bits(recompute):
    from torch.utils.checkpoint import checkpoint

    expected, _ = resident(steps=3)
    model = model_of()
    with LateStore() as store:
        offloaded = OffloadedParameters(model.blocks, store, lookahead=1)
        rest = [p for p in model.parameters() if p.numel()]
        optimizer = OffloadedOptimizer(
            OPTIMIZERS["adamw"](model.parameters()),
            store,
            units=[[p] for p in rest] + [layer.parameters for layer in offloaded.layers],
        )
        if recompute:
            for block in model.blocks:
                plain = block.forward
                block.forward = lambda *args, plain=plain: checkpoint(
                    plain, *args, use_reentrant=False
                )
        for step in range(3):
            optimizer.zero_grad()
            if recompute:
                loss = loss_of(model, step)
            else:
                with OffloadedActivations(store, model):
                    loss = loss_of(model, step)
            loss.backward()
            offloaded.step(optimizer)
        offloaded.restore()
    assert same_bits(model.parameters(), expected.parameters())


def test_bad_arguments_are_named():
    weight, other = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
    adam = torch.optim.Adam([weight, other])
    with HostStore() as store:
        with pytest.raises(ValueError, match="bucket_bytes is 0"):
            OffloadedOptimizer(adam, store, bucket_bytes=0)
        with pytest.raises(ValueError, match="lookahead is -1"):
            OffloadedOptimizer(adam, store, lookahead=-1)
        with pytest.raises(ValueError, match="1 of the optimizer's 2; every one must be listed"):
            OffloadedOptimizer(adam, store, units=[[weight]])
        with pytest.raises(ValueError, match="LBFGS sees all parameters as one vector"):
            OffloadedOptimizer(torch.optim.LBFGS([weight]), store)
        with pytest.raises(ValueError, match="lookahead is -1"):
            OffloadedActivations(store, nn.Identity(), lookahead=-1)
        with pytest.raises(ValueError, match="in_flight is 0"):
            OffloadedActivations(store, nn.Identity(), in_flight=0)
        with pytest.raises(ValueError, match="no layer to offload"):
            OffloadedParameters([], store)
        with pytest.raises(ValueError, match=r"layer 1 \(GELU\) has no weights"):
            OffloadedParameters([nn.Linear(2, 2), nn.GELU()], store)
        layer = nn.Linear(2, 2)
        with pytest.raises(TypeError, match=r"layers is Linear\(.*must be a Iterable"):
            OffloadedParameters(layer, store)
        with pytest.raises(TypeError, match="OffloadedParameters: layer 0 is 3"):
            OffloadedParameters([3], store)
        with pytest.raises(ValueError, match="optimizer is 'Adam', but must be an Off"):
            OffloadedParameters([layer], store).step(adam)
        with pytest.raises(TypeError, match="units is 3, but must be a Iterable"):
            OffloadedOptimizer(adam, store, units=3)
        with pytest.raises(TypeError, match="one of only is 3, but must be a Tensor"):
            OffloadedOptimizer(adam, store).step(only=[3])
        with pytest.raises(TypeError, match="state_dict is 3, but must be a dict"):
            OffloadedOptimizer(adam, store).load_state_dict(3)
        for make in (
            lambda store: OffloadedParameters([layer], store),
            lambda store: OffloadedActivations(store, layer),
            lambda store: OffloadedOptimizer(adam, store),
            lambda store: next(streamed(store, [])),
        ):
            with pytest.raises(TypeError, match="store is 3, but must be a Store"):
                make(3)
        with pytest.raises(ValueError, match=r"lookahead is 1\.5"):
            OffloadedOptimizer(adam, store, lookahead=1.5)
        with pytest.raises(ValueError, match="least_bytes is -1"):
            OffloadedActivations(store, layer, least_bytes=-1)
        with pytest.raises(ValueError, match="layers 0 and 1 share 'weight'"):
            OffloadedParameters([layer, layer], store)
        with pytest.raises(ValueError, match="lookahead is -1"):
            OffloadedParameters([layer], store, lookahead=-1)
        with pytest.raises(ValueError, match="lookahead is -1"):
            next(streamed(store, [], lookahead=-1))


@pytest.mark.parametrize("layers_that_fit", [0, 1])
def test_a_store_without_room_leaves_the_model_as_it_was(layers_that_fit):
    model = model_of()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    room = layers_that_fit * sum(p.nbytes + 64 for p in model.blocks[0].parameters()) + 1
    with HostStore(capacity=room) as store, pytest.raises(StoreError, match="nothing was moved"):
        OffloadedParameters(model.blocks, store)
    assert same_bits(model.parameters(), before)
    loss_of(model, 0).backward()  # and no hook is left that asks the store


def test_an_error_while_all_weights_are_here_takes_none_of_them():
    model = model_of()
    with HostStore() as store:
        offloaded = OffloadedParameters(model.blocks, store)
        with pytest.raises(KeyError), offloaded.resident():
            model.blocks[0].attention.out.weight.data.fill_(2.0)
            raise KeyError
        assert offloaded.here == 0
        offloaded.restore()
    assert model.blocks[0].attention.out.weight.eq(2).all()


def test_weights_that_come_and_go_are_no_activations():
    """Offloaded layers lie elsewhere when the block begins; no byte more is sent than of plain."""

    def sent(layers_away, stays=OffloadedActivations._stays):
        model = model_of()
        with HostStore() as store, HostStore() as other, pytest.MonkeyPatch.context() as patch:
            if layers_away:
                OffloadedParameters(model.blocks, other)
            first = {tensor.untyped_storage()._cdata for tensor in model.parameters()}
            if stays is None:  # sabotage: known by where they were
                here = lambda _, tensor: tensor.untyped_storage()._cdata in first  # noqa: E731
                patch.setattr(OffloadedActivations, "_stays", here)
            with OffloadedActivations(store, model) as away:
                loss = loss_of(model, 0)
            loss.backward()
            return away.sent

    assert sent(True) == sent(False)
    assert sent(True, stays=None) > sent(False)


def test_layers_are_recomputed_one_by_one_and_a_chain_of_them_is_refused():
    from dtlib.foundations import TransformerSpec
    from dtlib.memory import Recomputed, checkpoint_policy
    from dtlib.models import GPT, gradients

    tokens, found = torch.arange(12).reshape(2, 6), []
    for offload in (False, True):
        model = GPT(TransformerSpec("tiny", layers=3, hidden=8, heads=2, vocab=16, positions=6))
        with HostStore() as store:
            if offload:
                OffloadedParameters(model.blocks, store)
                with pytest.raises(RuntimeError, match="layer 0 runs in a recompute_chain"):
                    Recomputed(model, "full")(tokens)
            Recomputed(model, checkpoint_policy("full"))(tokens).square().sum().backward()
            found.append(gradients(model))
    assert all(torch.equal(found[0][name], found[1][name]) for name in found[0])


@pytest.mark.parametrize("name", ["LambdaLR", "CosineAnnealingLR", "OneCycleLR"])
def test_a_schedule_takes_the_offloaded_optimizer_itself_also_after_loading(name):
    options = {
        "LambdaLR": {"lr_lambda": lambda step: 1 / (1 + step)},
        "CosineAnnealingLR": {"T_max": 7},
        "OneCycleLR": {"max_lr": 0.1, "total_steps": 9},
    }[name]
    results = []
    for offload in (False, True):
        model = model_of()
        with LateStore() as store:
            optimizer = inner = OPTIMIZERS["adamw"](model.parameters())
            if offload:
                optimizer = OffloadedOptimizer(inner, store)
            schedule = getattr(torch.optim.lr_scheduler, name)(optimizer, **options)
            train(model, optimizer, 3, step=lambda: (optimizer.step(), schedule.step()))  # noqa: B023
            optimizer.load_state_dict(optimizer.state_dict())
            train(model, optimizer, 3, 3, step=lambda: (optimizer.step(), schedule.step()))  # noqa: B023
            results.append([*model.parameters(), torch.tensor(optimizer.param_groups[0]["lr"])])
    assert same_bits(*results)


def test_a_group_that_is_added_later_travels_and_hooks_are_called():
    results, seen = [], []
    for offload in (False, True):
        first, second = (nn.Parameter(torch.ones(16)) for _ in range(2))
        with LateStore() as store:
            optimizer = torch.optim.AdamW([("first", first)], lr=0.1)
            if offload:
                optimizer = OffloadedOptimizer(optimizer, store)
                optimizer.register_step_pre_hook(lambda *_: seen.append(1))
            for step in range(4):
                if step == 2:
                    optimizer.add_param_group({"params": [("second", second)], "lr": 0.3})
                optimizer.zero_grad()
                (first.square().sum() + second.pow(3).sum()).backward()
                optimizer.step()
            if offload:
                assert store.held == 2 * 2 * 16 * 4
            state = optimizer.state_dict()
            assert [group["param_names"] for group in state["param_groups"]] == [
                ["first"],
                ["second"],
            ]
            results.append([first, second, *(state["state"][i]["exp_avg"] for i in range(2))])
    assert same_bits(*results)
    assert len(seen) == 4


def test_a_scaled_loss_works_as_on_the_optimizer_itself():
    results = []
    for offload in (False, True):
        model = model_of()
        with LateStore() as store:
            optimizer = OPTIMIZERS["momentum"](model.parameters())
            optimizer = OffloadedOptimizer(optimizer, store) if offload else optimizer
            scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=2)
            for number in range(4):
                optimizer.zero_grad()
                scaler.scale(loss_of(model, number) * (torch.inf if number == 1 else 1)).backward()
                scaler.step(optimizer)
                scaler.update()
            results.append([*model.parameters(), torch.tensor(scaler.get_scale())])
    assert same_bits(*results)


@pytest.mark.parametrize("loses", [False, True])
def test_weights_that_are_loaded_beside_masters_in_the_store_stay(loses, monkeypatch):
    if loses:  # sabotage: the copy in the store wins
        monkeypatch.setattr(torch, "where", lambda same, held, now: held)
    start = torch.linspace(-1, 1, 8).bfloat16()
    weight, master = nn.Parameter(start.clone()), nn.Parameter(start.float())
    plain = torch.optim.AdamW([master], lr=0.01)
    with LateStore() as store:
        optimizer = OffloadedOptimizer(torch.optim.AdamW([weight], lr=0.01), store, master=True)
        for step in range(4):
            if step == 2:
                with torch.no_grad():
                    weight[:3] = 7
                    master[:3] = 7
            weight.grad = torch.linspace(0, 1, 8).bfloat16()
            master.grad = weight.grad.float()
            optimizer.step()
            plain.step()
        assert same_bits([weight], [master.bfloat16()]) != loses
        assert same_bits([optimizer.state_dict()["state"][0]["master"]], [master]) != loses


def test_what_works_through_another_optimizer_and_state_in_the_store_are_refused():
    with HostStore() as store:
        optimizer = OffloadedOptimizer(OPTIMIZERS["adamw"](model_of().parameters()), store)
        with pytest.raises(ValueError, match="'OffloadedOptimizer', but must be one that works"):
            OffloadedOptimizer(optimizer, store)
        with pytest.raises(RuntimeError, match=r"its state is in the store; state_dict\(\)"):
            optimizer.state  # noqa: B018
        with pytest.raises(RuntimeError, match="its state is in the store"):
            copy.deepcopy(optimizer)


@pytest.mark.parametrize("counts", ["right", "from one"])
def test_after_every_backward_pass_through_one_graph_nothing_waits(counts, monkeypatch):
    """Each asks for all bytes again, and leaves none of them on the device."""
    if counts == "from one":  # sabotage: one use more than there is
        made = offload_activations.Saved.__init__
        monkeypatch.setattr(
            offload_activations.Saved,
            "__init__",
            lambda self, *a: (made(self, *a), setattr(self, "uses", 1))[0],
        )
    model = model_of()
    expected = [value.detach().clone() for value in gradients_of(model)[1:]]
    model.zero_grad()
    left, peaks = [], []
    with LateStore() as store:
        with OffloadedActivations(store, model) as away:
            loss = loss_of(model)
        for i in range(1, 4):
            model.zero_grad()
            loss.backward(retain_graph=True)
            assert same_bits([p.grad for p in model.parameters()], expected)
            left.append(away.waiting)
            peaks.append(away.peak_bytes)
            if counts == "right":
                assert store.received == i * away.sent
    if counts == "right":
        assert left == [0, 0, 0] and len(set(peaks)) == 1
    else:
        assert min(left) > 0


def test_one_object_sends_activations_of_several_passes_whose_graphs_live_together():
    model = model_of()
    expected = [gradients_of(model, step)[1:] for step in range(2)]
    expected = [[g.clone() for g in gradients] for gradients in expected]
    with LateStore() as store:
        away, losses = OffloadedActivations(store, model), []
        for step in range(2):
            with away:
                losses.append(loss_of(model, step))
        for step in (0, 1):
            model.zero_grad()
            losses[step].backward()
            assert same_bits([p.grad for p in model.parameters()], expected[step])
            assert away.waiting == 0
        assert away.sent == store.sent == store.received


def storages_sent(least=1):
    """Sizes of the memories that go out, one by one, in their order."""
    model, sizes = model_of(), []

    class Notes(HostStore):
        def put(self, key, tensor, after=()):
            sizes.append(tensor.nbytes)
            return super().put(key, tensor, after)

    with Notes() as store:
        with OffloadedActivations(store, model, least_bytes=least) as away:
            loss = loss_of(model)
        loss.backward()
    return sizes, away


def test_what_is_smaller_than_the_least_stays_and_a_lookahead_of_more_waits_more():
    sizes, _ = storages_sent()
    least = sorted(sizes)[len(sizes) // 2]
    larger, away = storages_sent(least)
    assert larger == [size for size in sizes if size >= least] != sizes
    assert away.sent == sum(larger)
    peaks = []
    for lookahead in (0, 1, 4, len(sizes)):
        with HostStore() as store:
            model = model_of()
            with OffloadedActivations(store, model, lookahead=lookahead) as away:
                loss = loss_of(model)
            loss.backward()
            peaks.append(away.peak_bytes)
    before_the_loss = sizes[:-1]  # the count of its targets is saved last, and not looked ahead to
    assert peaks == sorted(set(peaks)) and peaks[-1] == sum(before_the_loss)


@pytest.mark.parametrize("room", [1, 3])
def test_so_many_may_be_on_their_way_out_before_the_forward_pass_waits(room):
    """The late store moves nothing before it is waited for, so what is not there is under way."""
    under_way = []

    class Notes(LateStore):
        def put(self, key, tensor, after=()):
            transfer = super().put(key, tensor, after)
            under_way.append(len(self.keys()) - len(self._held))
            return transfer

    model = model_of()
    with Notes() as store, OffloadedActivations(store, model, in_flight=room):
        loss_of(model)
        assert max(under_way) == room + 1 and len(store.keys()) - len(store._held) == room


def test_state_travels_in_the_units_and_as_far_ahead_as_is_said(monkeypatch):
    params = [nn.Parameter(torch.ones(size)) for size in (16, 32, 16, 48, 16)]
    rooms = []
    made = offload_stream.Buffers.__init__
    monkeypatch.setattr(
        offload_stream.Buffers,
        "__init__",
        lambda self, *a: (made(self, *a), rooms.append(self.count))[0],
    )
    cases = [
        ({}, [1, 1, 1, 1, 1], 3),
        ({"lookahead": 0}, [1, 1, 1, 1, 1], 2),
        ({"lookahead": 2}, [1, 1, 1, 1, 1], 4),
        ({"bucket_bytes": 192}, [2, 1, 1, 1], 3),
        ({"bucket_bytes": 10**6}, [5], 1),
        ({"units": [params[3:], params[:3]]}, [2, 3], 2),
    ]
    for options, lengths, room in cases:
        with HostStore() as store:
            adam = torch.optim.Adam(params, lr=0.1)
            optimizer = OffloadedOptimizer(adam, store, **options)
            for _ in range(2):
                for parameter in params:
                    parameter.grad = torch.ones_like(parameter)
                optimizer.step()
            assert [len(unit.parameters) for unit in optimizer.units] == lengths, options
            assert len(store.keys()) == len(lengths)
            assert rooms[-1] == room, options
            before = store.sent
            assert optimizer.step(only=[]) is None  # nobody travels
            assert store.sent == before
            twice = [optimizer.state_dict() for _ in range(2)]  # and a copy leaves no state here
            assert not any(v.dim() for state in adam.state.values() for v in state.values())
            assert all(
                torch.equal(twice[0]["state"][i][name], twice[1]["state"][i][name])
                for i in range(len(params))
                for name in ("step", "exp_avg", "exp_avg_sq")
            )


@pytest.mark.parametrize("changed", [True, False])
def test_weights_that_are_shown_for_a_while_are_sent_again_if_they_may_have_changed(changed):
    model, other = model_of(), model_of()
    with torch.no_grad():
        for parameter in other.blocks.parameters():
            parameter.add_(1)
    with LateStore() as store:
        offloaded = OffloadedParameters(model.blocks, store)
        sent = store.sent
        for _ in range(2):
            with offloaded.resident(changed=changed):
                model.load_state_dict(other.state_dict())
        layers = sum(p.nbytes for p in other.blocks.parameters())
        assert store.sent - sent == (2 * layers if changed else 0)
        assert offloaded.here == 0
        found = loss_of(model).item()
    assert found == loss_of(other if changed else model_of()).item()


def test_offloaded_weights_come_for_a_second_backward_pass_and_for_a_second_forward_pass():
    results = []
    for offload in (False, True):
        model = model_of()
        with LateStore() as store:
            offloaded = OffloadedParameters(model.blocks, store) if offload else None
            losses = [loss_of(model, step) for step in range(2)]
            losses[1].backward(retain_graph=True)
            losses[0].backward()
            losses[1].backward()
            gradients = [p.grad for p in model.parameters()]
            if offloaded:
                assert offloaded.peak_bytes <= 2 * max(layer.bytes for layer in offloaded.layers)
            results.append([*(loss.detach() for loss in losses), *gradients])
    assert same_bits(*results)


def test_a_second_measurement_finds_its_layers_in_the_store():
    with HostStore(record=True) as store:
        for _ in range(2):
            timeline = measure_offload(store, 3, [64, 128, 64], 0.0, lookahead=1)
            assert (store.sent, len(store.keys())) == (256, 3)
        assert store.received == 512
        assert sum(span.kind == "communication" for span in timeline.spans) == 3
        measure_offload(store, 3, 64, 0.0, lookahead=0)  # another size is sent anew
        assert store.sent == 256 + 64
        store.close()
        store.close()
        assert (store.held, store.keys()) == (0, [])
