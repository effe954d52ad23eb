"""The token map against the `tokenizers` package's own normalizers."""

import hashlib

import conftest
import numpy as np
import pytest

import libengram

tokenizers = pytest.importorskip("tokenizers", reason="needs the tokenizers package")
import reference  # noqa: E402


@pytest.mark.parametrize("path", conftest.tokenizer_files(), ids=lambda path: path.name)
def test_equals_the_tokenizers_package(path):
    token_map = libengram.TokenMap.from_tokenizer(path)
    expected = reference.token_map(path)
    np.testing.assert_array_equal(token_map.ids, expected)
    assert token_map.compressed_size == expected.max() + 1 == len(set(expected))
    assert token_map.sha256 == hashlib.sha256(expected.astype("<i4").tobytes()).hexdigest()


@pytest.mark.parametrize("prefix_space", [False, True])
@pytest.mark.parametrize("special", [[], ["<pad>", "</s>", " <x>", "É"]])
def test_equals_the_tokenizers_package_on_trained_ones(tmp_path, prefix_space, special):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    texts = [path.read_text("utf-8") for path in conftest.TESTS.glob("unit/token/*.cpp")]
    texts += ["Ein schöner Tag, déjà vu, naïve façade. ΑΒΓ αβγ, 你好, ёж ЁЖ\t\n  ﬁn ①²"] * 50
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix_space)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=3000,
            show_progress=False,
            special_tokens=special,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        ),
    )
    path = tmp_path / "tokenizer.json"
    tokenizer.save(str(path))
    expected = reference.token_map(path)
    np.testing.assert_array_equal(libengram.TokenMap.from_tokenizer(tokenizer).ids, expected)
    np.testing.assert_array_equal(libengram.TokenMap.from_json(tokenizer.to_str()).ids, expected)


def test_compress_keeps_shapes_and_masks():
    token_map = libengram.TokenMap.from_tokenizer(conftest.DEMO_TOKENIZER)
    tokens = np.arange(12).reshape(3, 4)
    mask = np.ones((3, 4), bool)
    mask[1, 2] = False
    tokens[1, 2] = -77  # not looked at
    found = token_map.compress(tokens, mask)
    expected = np.where(mask, token_map.ids[np.where(mask, tokens, 0)], -1)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(token_map.compress(tokens.astype(np.int32), mask), expected)
    with pytest.raises(libengram.OutOfRangeError, match="found -77"):
        token_map.compress(tokens)
    with pytest.raises(IndexError, match="does not fit 32 bits"):
        token_map.compress([1 << 40])


def test_comes_back_from_its_file(tmp_path):
    token_map = libengram.TokenMap.from_tokenizer(conftest.DEMO_TOKENIZER)
    token_map.save(tmp_path / "map")
    again = libengram.TokenMap.load(tmp_path / "map")
    assert again.sha256 == token_map.sha256 and len(again) == len(token_map)
    with pytest.raises(libengram.CorruptError, match="entry 1"):
        libengram.TokenMap.from_ids([0, 2, 1])


def test_tokenizer_round_trip():
    tokenizer = libengram.Tokenizer.from_file(conftest.DEMO_TOKENIZER)
    ids = tokenizer.encode("Hello, wörld")
    assert b"".join(tokenizer.decode(int(i)) for i in ids).decode() == "Hello, wörld"
