"""An encoder that reads a sentence from both sides: the model of the micro-lab.

It has the shape of DistilBERT (Sanh et al. 2019), and its parameters the names that Hugging Face's
`DistilBertForSequenceClassification` gives them, so that published weights load by name:

    Encoder(encoder_specs["base"]).load_state_dict(published.state_dict())

Like `GPT` it knows nothing of ranks and has no dropout: a reference is the same on every run.
Shapes are in the names: b sentences, s tokens, h numbers wide, n heads, d numbers in a head.
"""

from dataclasses import dataclass
from math import sqrt

import torch
from torch import nn
from torch.nn import functional as F

from dtlib.formulas.require import require, require_count, require_divisor, require_type


@dataclass(frozen=True)
class EncoderSpec:
    """The sizes of an encoder; `params()` and `tensors()` count without building it.

    >>> [(spec.params(), spec.tensors()) for spec in encoder_specs.values()]
    [(66955010, 104), (677762, 40)]
    """

    name: str
    layers: int
    hidden: int
    heads: int
    ffn: int
    vocab: int
    positions: int
    classes: int = 2

    def __post_init__(self):
        owner, sizes = f"EncoderSpec {self.name!r}", vars(self).copy()
        sizes.pop("name")
        require_count(owner, **sizes)
        require_divisor(owner, "heads", self.heads, "hidden", self.hidden)

    def layer_params(self) -> int:
        """Four square matrices, two of the feed-forward, their biases, two norms."""
        h = self.hidden
        return 4 * (h * h + h) + 2 * h * self.ffn + self.ffn + h + 4 * h

    def params(self) -> int:
        """Every number that is trained."""
        h = self.hidden
        tables, head = (self.vocab + self.positions + 2) * h, h * h + h + (h + 1) * self.classes
        return tables + self.layers * self.layer_params() + head

    def tensors(self) -> int:
        """How many parameters the module lists."""
        return 4 + 16 * self.layers + 4


encoder_specs = {
    "base": EncoderSpec("base", 6, 768, 12, 3072, vocab=30_522, positions=512),
    "mini": EncoderSpec("mini", 2, 128, 4, 512, vocab=2_000, positions=64),
}


class Encoder(nn.Module):
    """Sentences in, logits of each class out: `spec` as a module of `spec.params()` parameters.

    Arguments: `spec`, an EncoderSpec; `seed` of its weights, the same bits on every rank; `dtype`.
    Under ``torch.device("meta")`` it has shapes and no weights.
    Raises ValueError for tokens that it has no row for, or more of them than positions, and for a
    sentence of nothing but filling; TypeError for what is no tensor.
    Source: Sanh et al. 2019; Devlin et al. 2019 for the start: noise of 0.02, biases of 0.

    >>> model = Encoder(encoder_specs["mini"])
    >>> model(torch.tensor([[2, 17, 44, 3], [2, 9, 3, 0]])).shape
    torch.Size([2, 2])
    >>> sum(p.numel() for p in model.parameters())
    677762
    """

    def __init__(self, spec: EncoderSpec, seed: int = 0, dtype: torch.dtype = torch.float32):
        super().__init__()
        self.spec = spec
        with torch.random.fork_rng(devices=[]):  # torch draws weights too, which we replace
            self.distilbert = nn.ModuleDict(
                {
                    "embeddings": Embeddings(spec, dtype),
                    "transformer": nn.ModuleDict(
                        {"layer": nn.ModuleList(Layer(spec, dtype) for _ in range(spec.layers))}
                    ),
                }
            )
            self.pre_classifier = nn.Linear(spec.hidden, spec.hidden, dtype=dtype)
            self.classifier = nn.Linear(spec.hidden, spec.classes, dtype=dtype)
        draw_weights(self, seed)

    @property
    def layers(self) -> nn.ModuleList:
        """The layers, which a sharded run gathers one by one."""
        return self.distilbert["transformer"]["layer"]

    def forward(self, tokens_bs: torch.Tensor, mask_bs: torch.Tensor | None = None):
        """Logits (b, classes), read off the first token; `mask_bs` is 0 where a sentence is over.

        Without a mask, tokens of id 0 are taken for filling.
        """
        _check_tokens(self.spec, tokens_bs)
        mask_bs = tokens_bs != 0 if mask_bs is None else mask_bs.bool()
        _check_mask(self.spec, tokens_bs, mask_bs)
        x_bsh = self.distilbert["embeddings"](tokens_bs)
        for layer in self.layers:
            x_bsh = layer(x_bsh, mask_bs)
        return self.classifier(F.relu(self.pre_classifier(x_bsh[:, 0])))


class Embeddings(nn.Module):
    """A row for each token and one for its place, added and normed."""

    def __init__(self, spec: EncoderSpec, dtype: torch.dtype):
        super().__init__()
        self.word_embeddings = nn.Embedding(spec.vocab, spec.hidden, dtype=dtype)
        self.position_embeddings = nn.Embedding(spec.positions, spec.hidden, dtype=dtype)
        self.LayerNorm = nn.LayerNorm(spec.hidden, eps=1e-12, dtype=dtype)

    def forward(self, tokens_bs: torch.Tensor):
        positions = torch.arange(tokens_bs.shape[1], device=tokens_bs.device)
        return self.LayerNorm(self.word_embeddings(tokens_bs) + self.position_embeddings(positions))


class Layer(nn.Module):
    """Attention, then feed-forward; the norm comes after each sum, as in BERT."""

    def __init__(self, spec: EncoderSpec, dtype: torch.dtype):
        super().__init__()
        self.attention = Attention(spec, dtype)
        self.sa_layer_norm = nn.LayerNorm(spec.hidden, eps=1e-12, dtype=dtype)
        self.ffn = FeedForward(spec, dtype)
        self.output_layer_norm = nn.LayerNorm(spec.hidden, eps=1e-12, dtype=dtype)

    def forward(self, x_bsh: torch.Tensor, mask_bs: torch.Tensor):
        x_bsh = self.sa_layer_norm(x_bsh + self.attention(x_bsh, mask_bs))
        return self.output_layer_norm(x_bsh + self.ffn(x_bsh))


class Attention(nn.Module):
    """Every token looks at every token of its sentence, before it and after."""

    def __init__(self, spec: EncoderSpec, dtype: torch.dtype):
        super().__init__()
        self.heads = spec.heads
        for name in ("q_lin", "k_lin", "v_lin", "out_lin"):
            self.add_module(name, nn.Linear(spec.hidden, spec.hidden, dtype=dtype))

    def forward(self, x_bsh: torch.Tensor, mask_bs: torch.Tensor):
        q_bnsd, k_bnsd, v_bnsd = (
            linear(x_bsh).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for linear in (self.q_lin, self.k_lin, self.v_lin)
        )
        scores_bnss = q_bnsd @ k_bnsd.transpose(-2, -1) / sqrt(q_bnsd.shape[-1])
        scores_bnss = scores_bnss.masked_fill(~mask_bs[:, None, None, :], float("-inf"))
        mixed_bnsd = scores_bnss.softmax(dim=-1) @ v_bnsd
        return self.out_lin(mixed_bnsd.transpose(1, 2).flatten(2))


class FeedForward(nn.Module):
    """Up, a GELU, down again."""

    def __init__(self, spec: EncoderSpec, dtype: torch.dtype):
        super().__init__()
        self.lin1 = nn.Linear(spec.hidden, spec.ffn, dtype=dtype)
        self.lin2 = nn.Linear(spec.ffn, spec.hidden, dtype=dtype)

    def forward(self, x_bsh: torch.Tensor):
        return self.lin2(F.gelu(self.lin1(x_bsh)))


@torch.no_grad()
def draw_weights(model: nn.Module, seed: int) -> None:
    """Matrices and tables of noise with deviation 0.02, norms of 1, biases of 0."""
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        if weight.is_meta:
            continue
        if weight.ndim > 1:
            noise = torch.randn(weight.shape, generator=generator, dtype=torch.float32)
            weight.copy_(0.02 * noise)
        else:
            weight.fill_(0.0 if name.endswith("bias") else 1.0)


def _check_tokens(spec: EncoderSpec, tokens_bs: torch.Tensor) -> None:
    owner = f"Encoder {spec.name!r}"
    require_type(owner, torch.Tensor, tokens=tokens_bs)
    shape = tuple(tokens_bs.shape)
    good = len(shape) == 2 and shape[1] > 0
    require(good, owner, "the shape of tokens", shape, "(sentences, tokens)")
    fits = f"at most {spec.positions}, one for each position"
    require(shape[1] <= spec.positions, owner, "the number of tokens", shape[1], fits)
    least, largest = map(int, tokens_bs.aminmax()) if tokens_bs.numel() else (0, 0)
    require(largest < spec.vocab, owner, "the largest token", largest, f"below {spec.vocab}")
    require(least >= 0, owner, "the least token", least, "at least 0")


def _check_mask(spec: EncoderSpec, tokens_bs: torch.Tensor, mask_bs: torch.Tensor) -> None:
    owner, shape = f"Encoder {spec.name!r}", tuple(tokens_bs.shape)
    found = tuple(mask_bs.shape)
    require(found == shape, owner, "the shape of the mask", found, f"{shape}, as of the tokens")
    empty = (~mask_bs.any(dim=1)).nonzero().flatten().tolist()
    require(not empty, owner, "the list of sentences without a token", empty, "empty")
