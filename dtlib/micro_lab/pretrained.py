"""Published weights and the real SST-2, for whoever is online: `pip install "dtlib[online]"`.

Nothing here is shipped. The weights (Sanh et al. 2019) and the sentences (Socher et al. 2013, as
part of GLUE, Wang et al. 2019) come from the Hugging Face Hub when these functions are called.
"""

from typing import Any

WEIGHTS, SENTENCES = "distilbert/distilbert-base-uncased", ("nyu-mll/glue", "sst2")
PARTS = {"train": "train", "test": "validation"}  # the labels of GLUE's own test part are secret


def pretrained_encoder(name: str = WEIGHTS):
    """An `Encoder` with published weights; its classifier is new, and drawn from a fixed seed.

    Argument: `name`, of a DistilBERT on the Hub, or the folder of one. Raises ModuleNotFoundError
    without transformers; RuntimeError where names or shapes of the weights are others.
    """
    transformers = _extra("transformers")
    import torch

    from dtlib.micro_lab.encoder import Encoder, EncoderSpec

    with torch.random.fork_rng(devices=[]):  # every rank draws the same new classifier
        torch.manual_seed(0)
        published = transformers.DistilBertForSequenceClassification.from_pretrained(
            name, num_labels=2
        )
    c = published.config
    spec = EncoderSpec(
        name, c.n_layers, c.dim, c.n_heads, c.hidden_dim, c.vocab_size, c.max_position_embeddings
    )
    model = Encoder(spec)
    model.load_state_dict(published.state_dict())
    return model


def sst2(part: str = "train", length: int = 64, name: str = WEIGHTS, limit: int | None = None):
    """Sentences of SST-2 as two tensors: tokens (sentences, length) and labels (sentences,).

    Arguments: `part`, "train" (67,349 sentences) or "test" (872, GLUE's validation part); `length`,
    to which sentences are cut or filled with 0; `name`, of the model whose tokens these are;
    `limit`, of sentences. Raises ModuleNotFoundError without transformers and datasets.
    """
    import torch

    if part not in PARTS:
        raise ValueError(f"part = {part!r}; allowed are 'train' and 'test'")
    transformers, datasets = _extra("transformers"), _extra("datasets")
    rows = datasets.load_dataset(*SENTENCES, split=PARTS[part])
    sentences, labels = list(rows["sentence"])[:limit], list(rows["label"])[:limit]
    tokenizer = transformers.AutoTokenizer.from_pretrained(name)
    tokens = tokenizer(sentences, padding="max_length", truncation=True, max_length=length)
    return torch.tensor(tokens["input_ids"]), torch.tensor(labels)


def _extra(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{error.name} is missing: pip install 'dtlib[online]' "
            "(or work offline, with size='mini' and data='toy')"
        ) from None
