"""The online extras, without a network: which calls are made, and what is done with the answers."""

import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch

from dtlib.micro_lab import Encoder, encoder_specs
from dtlib.micro_lab.pretrained import pretrained_encoder, sst2

MINI = encoder_specs["mini"]
CONFIG = SimpleNamespace(
    n_layers=2, dim=128, n_heads=4, hidden_dim=512, vocab_size=2000, max_position_embeddings=64
)


@pytest.fixture
def hub(monkeypatch):
    """Modules that answer as transformers and datasets do, and a list of what was asked."""
    asked = []
    transformers, datasets = ModuleType("transformers"), ModuleType("datasets")

    class Published:
        @staticmethod
        def from_pretrained(name, num_labels):
            asked.append((name, num_labels))
            state = Encoder(MINI, seed=7).state_dict()
            state["classifier.weight"] = torch.randn(2, 128)  # new, as transformers warns
            return SimpleNamespace(config=CONFIG, state_dict=lambda: state)

    class Tokenizer:
        @staticmethod
        def from_pretrained(name):
            def tokenize(sentences, padding, truncation, max_length):
                assert padding == "max_length" and truncation
                rows = [[101, *map(len, s.split()), 102] for s in sentences]
                return {"input_ids": [(r + [0] * max_length)[:max_length] for r in rows]}

            return tokenize

    def load_dataset(path, part, split):
        asked.append((path, part, split))
        return {"sentence": ["a fine film", "no", "it drags"], "label": [1, 0, 0]}

    transformers.DistilBertForSequenceClassification = Published
    transformers.AutoTokenizer, datasets.load_dataset = Tokenizer, load_dataset
    monkeypatch.setitem(sys.modules, "transformers", transformers)
    monkeypatch.setitem(sys.modules, "datasets", datasets)
    return asked


def test_published_weights_become_an_encoder(hub):
    model = pretrained_encoder("some/name")
    assert hub == [("some/name", 2)]
    assert sum(p.numel() for p in model.parameters()) == MINI.params()
    expected = Encoder(MINI, seed=7).state_dict()["distilbert.embeddings.word_embeddings.weight"]
    assert torch.equal(model.state_dict()["distilbert.embeddings.word_embeddings.weight"], expected)


def test_every_rank_draws_the_same_new_classifier(hub):
    torch.manual_seed(1)
    one = pretrained_encoder().classifier.weight
    torch.manual_seed(2)
    assert torch.equal(one, pretrained_encoder().classifier.weight)


def test_sst2_becomes_two_tensors(hub):
    tokens, labels = sst2("test", length=6)
    assert hub == [("nyu-mll/glue", "sst2", "validation")]
    assert tokens.tolist()[0] == [101, 1, 4, 4, 102, 0] and labels.tolist() == [1, 0, 0]
    assert sst2("train", length=3, limit=2)[0].shape == (2, 3)


def test_without_the_extras_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    for call in (pretrained_encoder, sst2):
        with pytest.raises(ModuleNotFoundError, match=r"pip install 'dtlib\[online\]'"):
            call()


def test_another_part_is_refused():
    with pytest.raises(ValueError, match="part = 'dev'; allowed are 'train' and 'test'"):
        sst2("dev")


def test_the_real_transformers_loads_a_folder(tmp_path):
    transformers = pytest.importorskip("transformers")
    names = {key: getattr(CONFIG, key) for key in vars(CONFIG)}
    config = transformers.DistilBertConfig(**names, num_labels=2)
    theirs = transformers.DistilBertForSequenceClassification(config)
    theirs.save_pretrained(tmp_path)
    ours = pretrained_encoder(str(tmp_path)).state_dict()
    assert all(torch.equal(ours[name], value) for name, value in theirs.state_dict().items())
