#!/usr/bin/env python3
"""Trains data/demo-tokenizer.json from the project's own text.

Needs `tokenizers` from PyPI. The result is checked in; run this only to change it. Its shape is the
release's: byte-level BPE, the same kind of pre-tokenizer, special tokens 0, 1 and 2 with pad 2.
"""

import pathlib

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "data"
TEXTS = [DATA / "demo-text.txt"]
SPECIAL_TOKENS = ["<begin>", "<end>", "<pad>"]
VOCABULARY_SIZE = 1024


def main() -> None:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(r"\p{N}{1,3}"), "isolated"),
            pre_tokenizers.Split(
                Regex(
                    r"[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
                    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
                ),
                "isolated",
            ),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE,
        special_tokens=SPECIAL_TOKENS,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train([str(path) for path in TEXTS], trainer)
    tokenizer.save(str(DATA / "demo-tokenizer.json"), pretty=False)


if __name__ == "__main__":
    main()
