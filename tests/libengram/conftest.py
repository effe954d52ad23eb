"""What the tests of the Python package share: procedural models, and optional data."""

import os
import pathlib
import sys

import numpy as np
import pytest

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "python"))  # reference.py: the whole path again, in NumPy

import libengram  # noqa: E402

DEMO_TOKENIZER = TESTS.parent / "data" / "demo-tokenizer.json"
SHARED = TESTS.parent.parent / "shared"
TOKENS = [5, 6, 7, 8, 9, 300, 301, 7, 8, 9, 5, 6]


@pytest.fixture(scope="session")
def directory(tmp_path_factory):
    """An FP8 model in the official layout."""
    path = tmp_path_factory.mktemp("models") / "fp8"
    libengram.make_model(path, tokenizer=DEMO_TOKENIZER, seed=7)
    return path


@pytest.fixture
def model(directory):
    with libengram.Model.open(directory, tier="ram") as opened:
        yield opened


def bfloat16_values(words):
    return (words.astype(np.uint32) << 16).view(np.float32)


def tokenizer_files():
    """Real tokenizers of this machine: the demo's, the stand-in, and those of ENGRAM_TOKENIZERS."""
    files = [DEMO_TOKENIZER, *sorted(SHARED.glob("data/*tokenizer*.json"))]
    extra = os.environ.get("ENGRAM_TOKENIZERS")
    return files + (sorted(pathlib.Path(extra).rglob("*tokenizer*.json")) if extra else [])
