"""The meter of saved tensors: exact bytes, by storage, from the first save to the last release."""

from contextlib import nullcontext

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dtlib.foundations import TransformerSpec
from dtlib.memory.meter import Meter, saved_by_operation, saved_tensor_bytes
from dtlib.models import GPT, Block, next_token_loss

KINDS = {
    "classical": {"positions": 16},
    "llama": {"norm": "rms", "bias": False, "gated": True, "kv_heads": 2},
    "tied": {"positions": 16, "tied": True},
}


def small(kind, layers=2):
    return TransformerSpec(kind, layers, 32, 4, 40, **KINDS[kind])


def numbers(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


@pytest.mark.parametrize(
    ("function", "kept_floats"),
    [
        (lambda x: x + x, 0),
        (lambda x: 3 * x, 0),
        (lambda x: x * x, 1),  # both factors are one storage
        (lambda x: x * x.T.contiguous().T, 2),
        (lambda x: x.exp().exp(), 2),
        (lambda x: x.softmax(-1), 1),
        (lambda x: F.gelu(x), 1),
        (lambda x: F.silu(x) * x, 2),
        (lambda x: x.T.sin() + x.view(-1, 2, 4).sum((0, 1)).sum() + x.cos().T, 1),  # views of x
        (lambda x: x @ x.T, 1),
    ],
)
def test_an_operation_keeps_what_its_derivative_needs(function, kept_floats):
    x = numbers(8, 8)
    assert saved_tensor_bytes(function, x) == kept_floats * 8 * 8 * 4


@pytest.mark.parametrize("bytes_each", [4, 8])
def test_a_dropout_keeps_a_mask_and_a_linear_layer_its_input_but_no_weights(bytes_each):
    dtype = {4: torch.float32, 8: torch.float64}[bytes_each]
    x = numbers(6, 16, dtype=dtype)
    linear = nn.Linear(16, 64, dtype=dtype)
    assert saved_tensor_bytes(linear, x) == 6 * 16 * bytes_each
    assert saved_tensor_bytes(lambda x: linear(x), x, besides=[linear, x]) == 0
    assert saved_tensor_bytes(lambda x: linear(x), x) == (6 * 16 + 16 * 64) * bytes_each


def test_a_slice_keeps_the_whole_storage_that_it_is_cut_from():
    x = numbers(100, 4)
    assert saved_tensor_bytes(lambda x: x[:1].exp() * x[1:2], x) == 4 * 4 + 100 * 4 * 4


@pytest.mark.parametrize("kind", KINDS)
def test_reading_the_graph_gives_the_same_bytes_as_the_hooks(kind):
    """Two independent ways: handles that autograd holds, and attributes of the graph's nodes."""
    model, tokens = GPT(small(kind)), torch.arange(24).reshape(2, 12)
    with Meter(model, tokens) as meter:
        loss = next_token_loss(model(tokens), tokens)
    kept = meter.kept_bytes
    plain = next_token_loss(model(tokens), tokens)
    rows = saved_by_operation(plain, model, tokens)
    assert sum(row.bytes for row in rows) == kept == sum(row.bytes for row in meter.rows())
    del loss
    assert meter.kept_bytes == 0


def test_a_number_of_the_program_is_no_saved_tensor_and_a_tensor_of_one_number_is():
    x = numbers(8)
    for scale, kept in ((2.5, 0), (torch.tensor(2.5, dtype=torch.float64), 8)):
        rows = saved_by_operation(x / scale)
        assert sum(row.bytes for row in rows) == saved_tensor_bytes(lambda x: x / scale, x) == kept  # noqa: B023


def test_layers_add_up():
    def kept(layers):
        model, tokens = GPT(small("classical", layers)), torch.zeros(2, 12, dtype=torch.long)
        return saved_tensor_bytes(model, tokens, besides=[tokens])

    one, two, five = kept(1), kept(2), kept(5)
    assert five - one == 4 * (two - one)


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_without_data_keeps_the_bytes_of_the_real_one(kind):
    def kept(device):
        with torch.device(device):
            block = Block(small(kind))
            x = torch.zeros(2, 12, 32, requires_grad=True)
            return saved_tensor_bytes(block, x)

    assert kept("meta") == kept("cpu") > 0


def test_the_backward_pass_gives_every_byte_back_last_saved_first():
    layers = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(4)))
    x = numbers(5, 8)
    with Meter(layers) as meter:
        loss = layers(x).sum()
        meter.mark("backward")
        loss.backward()
    one = 5 * 8 * 4
    up = [one * n for n in range(1, 6)]
    assert meter.curve == up + up[-2::-1] + [0]
    assert meter.peak_bytes == 5 * one and meter.marks == [("backward", 5)]


def test_a_graph_that_is_kept_or_thrown_away():
    x = numbers(8)
    with Meter() as meter:
        y = x.exp().sum()
        y.backward(retain_graph=True)
        assert meter.kept_bytes == 32
        y.backward()
        assert meter.kept_bytes == 0
        z = x.exp()
    assert meter.kept_bytes == 32  # also after the block
    del z
    assert meter.kept_bytes == 0


def test_metering_changes_no_bit_of_a_gradient():
    model, tokens = GPT(small("llama"), dtype=torch.float64), torch.arange(24).reshape(2, 12)

    def found():
        model.zero_grad()
        next_token_loss(model(tokens), tokens).backward()
        return [p.grad.clone() for p in model.parameters()]

    plain = found()
    with Meter(model):
        metered = found()
    assert all(torch.equal(a, b) for a, b in zip(plain, metered, strict=True))


def test_sabotage_a_meter_of_outputs_is_not_one_of_saved_tensors():
    """Forward hooks see outputs: here they count a sum that nobody keeps, and miss a product."""
    block = Block(small("classical"))
    x, seen = numbers(2, 12, 32), []
    for module in block.modules():
        module.register_forward_hook(lambda m, i, out: seen.append(out.untyped_storage().nbytes()))
    assert saved_tensor_bytes(block, x) != sum(seen)


def test_sabotage_counting_tensors_instead_of_storages_counts_twice():
    x, sizes = numbers(8, 8), []

    def pack(tensor):
        sizes.append(tensor.nbytes)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        (x * x).sum()
    assert sum(sizes) == 2 * saved_tensor_bytes(lambda x: (x * x).sum(), x)


def test_what_it_refuses():
    with pytest.raises(TypeError, match=r"besides has 'model', but must hold modules and tensors"):
        Meter("model")
    with pytest.raises(ValueError, match="output has no graph"):
        saved_by_operation(torch.ones(2))
    with pytest.raises(TypeError, match="function is 3, but must be a Callable"):
        saved_tensor_bytes(3, torch.ones(2))
    with pytest.raises(TypeError, match=r"besides is Linear.*, but must be a Iterable"):
        saved_tensor_bytes(torch.exp, torch.ones(2), besides=nn.Linear(2, 2))
    with pytest.raises(TypeError, match="output is 3, but must be a Tensor"):
        saved_by_operation(3)
    with pytest.raises(TypeError, match="tensor is 3, but must be a Tensor"):
        Meter().holds(3)
    with pytest.raises(TypeError, match=r"layout torch.sparse_coo has no one storage"):
        Meter(torch.eye(3).to_sparse())


@pytest.mark.parametrize("metered", [True, False])
def test_a_saved_tensor_that_is_changed_in_place_is_refused_as_without_a_meter(metered):
    x = torch.ones(3, requires_grad=True)
    with Meter() if metered else nullcontext():
        y = x.sigmoid()
        y.mul_(2)
    with pytest.raises(RuntimeError, match="changed in place" if metered else "inplace"):
        y.sum().backward()


@pytest.mark.parametrize("train", [True, False])
def test_what_an_operation_itself_changes_in_place_is_no_mistake(train):
    norm, x = nn.BatchNorm1d(3).train(train), torch.randn(4, 3, requires_grad=True)
    with Meter() as meter:
        (norm(x * 2).relu_() + norm(x).exp_()).sum().backward()
    assert meter.kept_bytes == 0 < meter.peak_bytes


@pytest.mark.parametrize("at_once", [True, False])
def test_weights_that_come_to_another_storage_do_not_count(at_once):
    model, x = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)), torch.ones(2, 8)
    expected = saved_tensor_bytes(model, x)
    away = [parameter.data for parameter in model.parameters()]
    for parameter in model.parameters():
        parameter.data = torch.empty(0)
    with Meter(model) as meter:
        for parameter, weight in zip(model.parameters(), away, strict=True):
            parameter.data = weight
        if at_once:  # sabotage: what was seen when the meter was made
            meter._besides = [torch.empty(0)]
        output = model(x)
        assert (meter.kept_bytes == expected) is not at_once
    del output


def test_a_module_whose_parameters_are_parts_is_known_by_its_weights():
    class Parts(nn.Linear):
        def named_parameters(self, *how, **more):
            return iter([("part", torch.ones(3))])

    x = torch.ones(2, 8, requires_grad=True)
    assert saved_tensor_bytes(Parts(8, 8), x) == saved_tensor_bytes(nn.Linear(8, 8), x) == x.nbytes
