"""Constants and keys against NumPy's own generator and plain Python."""

import conftest
import numpy as np
import pytest

import libengram


def test_multipliers_of_ten_thousand_seeds():
    """NumPy draws them: default_rng(10007 * layer), 63 bits by Lemire's method."""
    compressed_size = 99092
    bound = max(1, ((2**63 - 1) // compressed_size) // 2)
    for layer in range(10_000):
        spec = libengram.HashSpec.compute(
            [layer], engram_vocab_size=2, compressed_size=compressed_size, pad=2, heads=1
        )
        draws = np.random.default_rng(10007 * layer).integers(0, bound, size=4, dtype=np.int64)
        np.testing.assert_array_equal(spec.multipliers(layer), 2 * draws + 1)


def test_released_constants():
    """The released model's table sizes follow from its config."""
    spec = libengram.HashSpec.compute(
        [1, 14], engram_vocab_size=16_000_000, compressed_size=99092, pad=2
    )
    assert spec.row_count(1) == 384_006_168
    assert spec.row_count(14) == 384_016_682
    assert spec.primes(1)[0] == 16_000_057
    assert (spec.orders, spec.heads, spec.columns, spec.layer_ids) == (3, 8, 24, [1, 14])
    assert spec.pad == 2
    offsets = np.concatenate([[0], np.cumsum(spec.primes(14))[:-1]]).astype(np.uint64)
    np.testing.assert_array_equal(spec.offsets(14), offsets)
    with pytest.raises(libengram.NotFoundError, match="layers that do: 1, 14"):
        spec.primes(2)


def test_keys_and_rows_against_plain_python(directory, model):
    pytest.importorskip("tokenizers", reason="needs the tokenizers package")
    import reference

    mask = [1] * len(conftest.TOKENS)
    mask[4] = 0
    _, keys, rows = reference.Model(directory).hash(conftest.TOKENS, mask)
    found = model.hasher.hash(conftest.TOKENS, mask)
    for table, layer in enumerate(model.layer_ids):
        np.testing.assert_array_equal(found[table], np.array(keys[layer], np.uint64))
        np.testing.assert_array_equal(model.hasher.rows(layer, found[table]), rows[layer])


def test_batches_equal_sequences(model):
    """Sequences cut in two, with windows of raw ids, give what each gives whole."""
    hasher, rng = model.hasher, np.random.default_rng(3)
    whole = [rng.integers(0, 1000, size=n).astype(np.int32) for n in (1, 4, 9, 30)]
    expected, pieces, lookback = [], [], []
    for ids in whole:
        cut = int(rng.integers(0, len(ids)))
        masked = rng.integers(0, 2, size=len(ids)).astype(bool)
        expected.append(hasher.hash(ids, masked)[:, cut:])
        window = [libengram.BEFORE_START] * 3
        for distance in range(1, min(cut, 3) + 1):
            at = cut - distance
            window[distance - 1] = int(ids[at]) if masked[at] else libengram.MASKED
        lookback.append(window)
        pieces.append((ids[cut:], masked[cut:]))
    start = np.cumsum([0] + [len(ids) for ids, _ in pieces])
    ids = np.concatenate([ids for ids, _ in pieces])
    mask = np.concatenate([mask for _, mask in pieces])
    found = hasher.hash_batch(ids, start, lookback, mask)
    np.testing.assert_array_equal(found, np.concatenate(expected, axis=1))


def test_a_hole_in_history_is_refused(model):
    with pytest.raises(libengram.InvalidArgumentError, match="history inside a sequence"):
        model.hasher.hash_batch([5], [0, 1], [[7, libengram.BEFORE_START, 6]])
    with pytest.raises(libengram.InvalidArgumentError, match=r"lookback: expected .*\[1, 3\]"):
        model.hasher.hash_batch([5], [0, 1], [[7, 6]])
    with pytest.raises(libengram.InvalidArgumentError, match="query start 1: expected ascending"):
        model.hasher.hash_batch([5, 6], [0, 1], [[7, 6, 5]])


def test_hasher_of_parts(model):
    hasher = libengram.Hasher(model.hasher.spec, model.token_map)
    np.testing.assert_array_equal(hasher.hash([5, 6, 7]), model.hasher.hash([5, 6, 7]))
    other = libengram.HashSpec.compute([1], engram_vocab_size=100, compressed_size=50000, pad=2)
    with pytest.raises(ValueError, match="expected 50000 compressed ids"):
        libengram.Hasher(other, model.token_map)
