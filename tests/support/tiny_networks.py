"""Tiny networks of random weights, saved as real ones are: two layers, whole words, a window of 24 tokens."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import sentence_transformers
import torch
import transformers

WINDOW = 24


def save_network(folder: Path, architecture: str, words: Sequence[str], **config: object) -> Path:
    """Write a random BERT of two layers, and a tokenizer of whole words that says how long its window is."""
    torch.manual_seed(7)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    network = getattr(transformers, architecture)(
        transformers.BertConfig(vocab_size=len(vocabulary), max_position_embeddings=32, **sizes, **config)
    )
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.ndim == 2:
                parameter.normal_(0, 0.5)  # at the usual 0.02 all texts look the same
    network.save_pretrained(folder)
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n")
    tokenizer = transformers.BertTokenizerFast(vocab={w: i for i, w in enumerate(vocabulary)}, model_max_length=WINDOW)
    tokenizer.save_pretrained(folder)
    return folder


def save_bi_encoder(folder: Path, words: Sequence[str]) -> Path:
    """Write a bi-encoder that takes the mean of its tokens' vectors."""
    bert = save_network(folder / "bert", "BertModel", words)
    modules = sentence_transformers.sentence_transformer.modules
    whole = [modules.Transformer(str(bert)), modules.Pooling(32, pooling_mode="mean")]
    sentence_transformers.SentenceTransformer(modules=whole, device="cpu").save(str(folder / "bi-encoder"))
    return folder / "bi-encoder"


def save_ranker(folder: Path, words: Sequence[str], outputs: int = 1) -> Path:
    """Write a cross-encoder."""
    return save_network(folder, "BertForSequenceClassification", words, num_labels=outputs)
