"""Rows through every way in and out, against NumPy and the command line."""

import subprocess
import sys

import conftest
import numpy as np
import pytest
import reference

import libengram


@pytest.fixture
def rows(model):
    return model.hasher.rows(14, model.hasher.hash(conftest.TOKENS)[1])


def test_values_are_the_formula(directory, model, rows):
    """FP8 rows decoded by definition from the file's bytes."""
    files = reference.Files(directory)
    expected = files.lookup(14, rows)
    np.testing.assert_array_equal(model.lookup(14, rows=rows, dtype="f32"), expected)
    np.testing.assert_array_equal(
        model.lookup(14, rows=rows, dtype="f16"), expected.astype(np.float16)
    )
    words = model.lookup(14, rows=rows)
    np.testing.assert_array_equal(conftest.bfloat16_values(words), expected)  # exact for FP8


def test_keys_and_rows_agree(model, rows):
    keys = model.hasher.hash(conftest.TOKENS)[1]
    assert keys.shape == (12, 3) and rows.shape == (12, 24)
    by_rows = model.lookup(14, rows=rows)
    np.testing.assert_array_equal(model.lookup(14, keys=keys), by_rows)
    deeper = model.lookup(14, keys=keys.reshape(2, 6, 3))
    np.testing.assert_array_equal(deeper.reshape(by_rows.shape), by_rows)
    np.testing.assert_array_equal(model.lookup(14, keys=keys.view(np.int64)), by_rows)
    np.testing.assert_array_equal(model.lookup(14, rows=rows.astype(np.int32)), by_rows)


@pytest.mark.parametrize(
    "options", [{"tier": "mmap"}, {"tier": "direct"}, {"tier": "direct", "cache": "1M"}, {"tier": "auto"}]
)
def test_tiers_give_equal_bytes(directory, model, rows, options):
    with libengram.Model.open(directory, load="rows", **options) as other:
        for _ in range(2):
            raw = other.lookup(14, rows=rows, dtype="raw")
            np.testing.assert_array_equal(raw, model.lookup(14, rows=rows, dtype="raw"))
        assert other.tiers()[14]["tier"] in ("mmap", "ram", "direct")
        assert bool(other.tier_reason) == (options["tier"] == "auto")


def test_shared_memory(directory, model, rows):
    name = f"libengram-test-{id(model)}"
    libengram.load_shared(directory, name)
    try:
        with libengram.Model.open(directory, tier=f"shared:{name}") as other:
            found = other.lookup(14, rows=rows)
    finally:
        libengram.unload_shared(name)
    np.testing.assert_array_equal(found, model.lookup(14, rows=rows))
    with pytest.raises(libengram.NotFoundError):
        libengram.Model.open(directory, tier=f"shared:{name}")


@pytest.mark.parametrize("dtype", ["uint16", "float16", "float32"])
def test_into_given_memory(model, rows, dtype):
    name = {"uint16": "bf16", "float16": "f16", "float32": "f32"}[dtype]
    expected = model.lookup(14, rows=rows, dtype=name)
    out = np.zeros(expected.shape, dtype)
    assert model.lookup(14, rows=rows, out=out) is out
    np.testing.assert_array_equal(out, expected)
    wide = np.zeros((12, 24, 300), dtype)
    model.lookup(14, rows=rows, out=wide[..., :256])
    np.testing.assert_array_equal(wide[..., :256], expected)
    assert not wide[..., 256:].any()


def test_ml_dtypes_bfloat16(model, rows):
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="needs ml_dtypes")
    out = np.empty((12, 24, 256), ml_dtypes.bfloat16)
    model.lookup(14, rows=rows, out=out)
    np.testing.assert_array_equal(out.astype(np.float32), model.lookup(14, rows=rows, dtype="f32"))


def test_prefetch(model):
    keys = model.hasher.hash(conftest.TOKENS)
    tickets = [model.prefetch(layer, keys[i]) for i, layer in enumerate(model.layer_ids)]
    for table, layer in enumerate(model.layer_ids):
        found = tickets[table].wait(dtype="f32")
        np.testing.assert_array_equal(found, model.lookup(layer, keys=keys[table], dtype="f32"))
        assert not tickets[table].pending
        with pytest.raises(libengram.InvalidArgumentError, match="no lookup pending"):
            tickets[table].wait()
    with model.prefetch(1, keys[0], priority="whenever") as ticket:
        assert ticket.pending
    assert not ticket.pending


def test_stats(directory):
    keys = None
    with libengram.Model.open(directory, tier="direct", cache="1M", load="rows") as model:
        keys = model.hasher.hash([5, 6, 7, 8])[0]
        model.lookup(1, keys=keys)
        model.lookup(1, keys=keys)
        stats = model.stats()
        assert stats[1]["orders"][2] == {"keys": 8, "unique": 8, "hits": 4}
        assert stats[1]["reads"] > 0 and stats[1]["read_bytes"] > 0
        assert stats[14]["orders"][4]["keys"] == 0
        assert model.cache_capacity >= 64


def test_command_line_gives_the_same_bytes(directory, model, rows, tmp_path):
    """`python -m libengram`, and through it what the C consumer is compared with."""
    output = tmp_path / "rows.npy"
    ids = ",".join(map(str, conftest.TOKENS))
    command = [sys.executable, "-m", "libengram", "lookup", str(directory), "--ids", ids]
    command += ["--layer", "14", "--format", "raw", "--output", str(output)]
    subprocess.run(command, check=True, capture_output=True)
    np.testing.assert_array_equal(np.load(output), model.lookup(14, rows=rows, dtype="raw"))
    version = subprocess.run(
        [sys.executable, "-m", "libengram", "--version"], check=True, capture_output=True, text=True
    )
    assert version.stdout.strip() == libengram.__version__
