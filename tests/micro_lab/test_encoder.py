"""The encoder has DistilBERT's shapes, names and outputs."""

import pytest
import torch

from dtlib.micro_lab import Encoder, EncoderSpec, encoder_specs

MINI = encoder_specs["mini"]
LAYER = [
    *(f"attention.{part}_lin.{kind}" for part in "qkv" for kind in ("weight", "bias")),
    *("attention.out_lin.weight", "attention.out_lin.bias"),
    *("sa_layer_norm.weight", "sa_layer_norm.bias"),
    *(f"ffn.lin{i}.{kind}" for i in (1, 2) for kind in ("weight", "bias")),
    *("output_layer_norm.weight", "output_layer_norm.bias"),
]


def names(layers):
    """The names in Hugging Face's state dict, in its order."""
    tables = [f"{table}_embeddings.weight" for table in ("word", "position")]
    front = [f"distilbert.embeddings.{n}" for n in [*tables, "LayerNorm.weight", "LayerNorm.bias"]]
    middle = [f"distilbert.transformer.layer.{i}.{name}" for i in range(layers) for name in LAYER]
    head = [f"{part}.{kind}" for part in ("pre_classifier", "classifier") for kind in KINDS]
    return front + middle + head


KINDS = ("weight", "bias")


@pytest.mark.parametrize(
    ("size", "params", "tensors"), [("base", 66_955_010, 104), ("mini", 677_762, 40)]
)
def test_the_published_counts(size, params, tensors):
    spec = encoder_specs[size]
    with torch.device("meta"):
        model = Encoder(spec)
    found = [p.numel() for p in model.parameters()]
    assert sum(found) == spec.params() == params
    assert len(found) == spec.tensors() == tensors


def test_one_layer_of_base_is_the_published_count():
    assert encoder_specs["base"].layer_params() == 7_087_872


@pytest.mark.parametrize("size", encoder_specs)
def test_names_are_hugging_faces_in_their_order(size):
    with torch.device("meta"):
        assert list(Encoder(encoder_specs[size]).state_dict()) == names(encoder_specs[size].layers)


def test_outputs_and_gradients_are_those_of_transformers():
    transformers = pytest.importorskip("transformers")
    config = transformers.DistilBertConfig(
        vocab_size=MINI.vocab,
        max_position_embeddings=MINI.positions,
        n_layers=MINI.layers,
        n_heads=MINI.heads,
        dim=MINI.hidden,
        hidden_dim=MINI.ffn,
        num_labels=2,
    )
    theirs, ours = transformers.DistilBertForSequenceClassification(config).eval(), Encoder(MINI)
    ours.load_state_dict(theirs.state_dict())
    tokens = torch.randint(1, MINI.vocab, (3, 12), generator=torch.Generator().manual_seed(0))
    mask = (torch.arange(12) < torch.tensor([[12], [7], [3]])).long()
    expected = theirs(input_ids=tokens, attention_mask=mask).logits
    found = ours(tokens, mask)
    assert (found - expected).abs().max() < 1e-5
    expected.logsumexp(1).sum().backward()
    found.logsumexp(1).sum().backward()
    for (name, mine), (same, other) in zip(
        ours.named_parameters(), theirs.named_parameters(), strict=True
    ):
        assert name == same
        assert (mine.grad - other.grad).abs().max() < 1e-5


def test_filling_changes_nothing_and_words_do():
    model = Encoder(MINI, dtype=torch.float64)
    short, filled = torch.tensor([[2, 8, 3]]), torch.tensor([[2, 8, 3, 0, 0]])
    assert (model(short) - model(filled)).abs().max() < 1e-12
    assert (model(short) - model(torch.tensor([[2, 9, 3]]))).abs().max() > 1e-6


def test_later_words_count_too():
    """No token is hidden from the first one, unlike in a decoder."""
    model = Encoder(MINI, dtype=torch.float64)
    one, other = torch.tensor([[2, 8, 9, 3]]), torch.tensor([[2, 8, 10, 3]])
    assert (model(one) - model(other)).abs().max() > 1e-6


def test_weights_depend_on_the_seed_alone():
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    one = Encoder(MINI, seed=4).state_dict()
    assert torch.equal(before, torch.random.get_rng_state())
    torch.manual_seed(2)
    assert all(torch.equal(one[n], w) for n, w in Encoder(MINI, seed=4).state_dict().items())
    assert not torch.equal(one["classifier.weight"], Encoder(MINI).classifier.weight)


@pytest.mark.parametrize(
    ("tokens", "says"),
    [
        (torch.zeros(3, dtype=torch.long), "the shape of tokens is"),
        (torch.ones(1, 65, dtype=torch.long), "the number of tokens is 65, but must be at most 64"),
        (torch.tensor([[2000]]), "the largest token is 2000, but must be below 2000"),
    ],
)
def test_tokens_that_it_cannot_read_are_named(tokens, says):
    with pytest.raises(ValueError, match=says):
        Encoder(MINI)(tokens)


def test_heads_must_divide_the_width():
    with pytest.raises(ValueError, match="heads is 3, but must be a divisor of hidden"):
        EncoderSpec("odd", 1, 16, 3, 16, 10, 10)


@pytest.mark.parametrize(
    ("tokens", "mask", "says"),
    [
        ([[-1, 2]], None, "the least token is -1, but must be at least 0"),
        ([[2, 3], [0, 0]], None, r"sentences without a token is \[1\]"),
        ([[2, 3]], [[1, 1, 0]], r"the shape of the mask is \(1, 3\), but must be \(1, 2\)"),
        ([[2, 3]], [[0, 0]], r"sentences without a token is \[0\]"),
    ],
)
def test_what_would_end_in_no_number_is_refused(tokens, mask, says):
    mask = mask if mask is None else torch.tensor(mask)
    with pytest.raises(ValueError, match=says):
        Encoder(MINI)(torch.tensor(tokens), mask)
