"""Mistakes of the caller: an exception that names expected and found, never a crash."""

import copy
import pickle
import threading

import conftest
import numpy as np
import pytest

import libengram
from libengram import InvalidArgumentError

ROWS = np.zeros((4, 24), np.int64)
GOOD_OUT = np.empty((4, 24, 256), np.uint16)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "give rows or keys"),
        ({"rows": ROWS, "keys": ROWS}, "give rows or keys"),
        ({"rows": ROWS.astype(np.float32)}, r"rows: expected int32 or int64, found float32 \[4, 24\]"),
        ({"rows": ROWS.astype(np.uint64)}, "found uint64"),
        ({"rows": ROWS[:, ::2]}, r"C-contiguous array, found int64 \[4, 12\] with strides \[24, 2\]"),
        ({"rows": "rows"}, "found 'str'"),
        ({"rows": {1: 2}}, "found 'dict'"),
        ({"rows": [[1, 2], [3]]}, None),  # NumPy's own words
        ({"keys": np.zeros((4, 2), np.uint64)}, r"keys: expected uint64 \[..., 3\]"),
        ({"keys": np.zeros((4, 3), np.float64)}, "keys: expected uint64, found float64"),
        ({"keys": np.uint64(3)}, "keys: expected"),
        ({"rows": ROWS, "dtype": "f64"}, "dtype: expected bf16, f16, f32 or raw, found 'f64'"),
        ({"rows": ROWS, "out": np.empty((4, 24, 255), np.uint16)}, r"expected .*\[4, 24, 256\]"),
        ({"rows": ROWS, "out": np.empty((4, 24, 256), np.int16)}, "found int16"),
        ({"rows": ROWS, "out": GOOD_OUT, "dtype": "f32"}, "out: expected float32"),
        ({"rows": ROWS, "out": GOOD_OUT[::-1]}, "one positive stride"),
        ({"rows": ROWS, "out": np.empty((4, 256, 24), np.uint16).transpose(0, 2, 1)}, "stride"),
        ({"rows": ROWS, "out": np.empty((4, 24, 512), np.uint16)[..., ::2]}, "stride"),
        ({"rows": ROWS, "out": np.broadcast_to(GOOD_OUT[0], (4, 24, 256))}, "writable"),
        ({"rows": ROWS, "out": 7}, "out: expected a writable array of NumPy or DLPack, found 'int'"),
    ],
)
def test_lookup_refuses(model, arguments, message):
    with pytest.raises(ValueError, match=message):
        model.lookup(1, **arguments)


def test_lookup_into_read_only_memory(model):
    out = GOOD_OUT.copy()
    out.flags.writeable = False
    with pytest.raises(InvalidArgumentError, match="out: expected a writable array"):
        model.lookup(1, rows=ROWS, out=out)


def test_overlapping_out_rows(model):
    out = np.lib.stride_tricks.as_strided(GOOD_OUT.copy(), (4, 24, 256), (2, 2, 2))
    with pytest.raises(InvalidArgumentError):
        model.lookup(1, rows=ROWS, out=out)


def test_rows_outside_the_table(model):
    last = model.row_count(1) - 1
    model.lookup(1, rows=[0, last])
    for row in (-1, last + 1, 2**62):
        with pytest.raises(libengram.OutOfRangeError, match=f"found {row}"):
            model.lookup(1, rows=[0, row])
    with pytest.raises(libengram.NotFoundError, match="layers that do: 1, 14"):
        model.lookup(3, rows=[0])


def test_empty_batches(model):
    assert model.lookup(1, rows=[]).shape == (0, 256)
    assert model.lookup(1, rows=np.empty((0, 24), np.int64)).shape == (0, 24, 256)
    assert model.lookup(1, keys=np.empty((0, 3), np.uint64)).shape == (0, 24, 256)
    assert model.hasher.hash([]).shape == (2, 0, 3)
    session = model.session()
    session.advance([])
    assert session.lookup(1).shape == (0, 24, 256)


def test_options(directory):
    options = libengram.ModelOptions(tier="direct", cache="2M", resident={1: (2, 3)})
    assert pickle.loads(pickle.dumps(options)) == options
    assert options.cache_bytes == 2 << 20 and options.resident_pairs == [(1, 2), (1, 3)]
    with libengram.Model.open(directory, libengram.ModelOptions(load="rows"), tier="ram") as model:
        assert model.tiers()[1]["tier"] == "ram"
    with libengram.Model.open(directory, tier="ram", resident={1: [2], 14: []}) as model:
        tiers = model.tiers()
        assert 0 < tiers[1]["resident_bytes"] < tiers[1]["table_bytes"]
    for changes, error, message in [
        ({"tier": "tape"}, InvalidArgumentError, "tier: expected one of mmap, ram.*found 'tape'"),
        ({"load": "all"}, InvalidArgumentError, "load: expected one of gates"),
        ({"nan": "zero"}, InvalidArgumentError, "nan: expected one of"),
        ({"cache": "4X"}, ValueError, "cache: expected bytes or a size like '4G', found '4X'"),
        ({"codec": "nope"}, libengram.Error, "table codec 'nope'"),
        ({"resident": {1: [9]}, "tier": "ram"}, libengram.OutOfRangeError, "expected order 2..4"),
        ({"speed": 9}, TypeError, "speed"),
        ({"token_map_sha256": "00"}, libengram.CorruptError, "expected token map SHA-256 00"),
    ]:
        with pytest.raises(error, match=message):
            libengram.Model.open(directory, **changes)
    with pytest.raises(TypeError, match="expected ModelOptions"):
        libengram.Model.open(directory, {"tier": "ram"})


def test_handles_are_not_pickled(model):
    for handle in (model, model.session(), model.gate(1), model.hasher, model.token_map):
        with pytest.raises(TypeError):
            pickle.dumps(handle)


def test_a_closed_model(directory):
    model = libengram.Model.open(directory, tier="ram")
    session, gate = model.session(), model.gate(1)
    keys = model.hasher.hash([5, 6])
    ticket = model.prefetch(1, keys[0])
    model.close()
    model.close()
    assert model.closed
    with pytest.raises(InvalidArgumentError, match="the model is closed"):
        model.lookup(1, rows=[0])
    with pytest.raises(InvalidArgumentError, match="the model is closed"):
        model.session()
    session.advance([5, 6])  # what it has made keeps the tables
    np.testing.assert_array_equal(session.lookup(1), ticket.wait())
    assert gate.copies == 4


def test_models_without_tables_or_gates(directory):
    with libengram.Model.open(directory, load="addresses") as model:
        assert model.hasher.hash([5]).shape == (2, 1, 3)
        for call in (lambda: model.lookup(1, rows=[0]), model.stats, model.session().prefetch):
            with pytest.raises(libengram.UnavailableError):
                call()
    with libengram.Model.open(directory, load="rows") as model:
        with pytest.raises(libengram.UnavailableError, match="without gates"):
            model.gate(1)


def test_a_session_belongs_to_one_thread(directory):
    """Two threads at one session: each call works alone or says that it is in use."""
    with libengram.Model.open(directory, tier="direct") as model:
        session = model.session()
        tokens = np.arange(600, dtype=np.int32) % 1000
        failures = []

        def work():
            for _ in range(30):
                try:
                    session.advance(tokens)
                    session.lookup(1)
                except libengram.UnavailableError as error:
                    assert "in use by another thread" in str(error)
                except libengram.InvalidArgumentError as error:  # the other moved it in between
                    assert "expected" in str(error)
                except Exception as error:  # noqa: BLE001
                    failures.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures


def test_models_are_shared_by_threads(model):
    expected = model.lookup(1, rows=np.arange(1000))
    failures = []

    def work(seed):
        rows = np.random.default_rng(seed).integers(0, 1000, size=500)
        for _ in range(20):
            if not np.array_equal(model.lookup(1, rows=rows), expected[rows]):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_progress_is_called_and_its_exceptions_come_out(directory):
    seen = []
    with libengram.Model.open(directory, tier="ram", progress=lambda *at: seen.append(at)):
        pass
    assert seen and seen[-1][0] == seen[-1][1]

    def fail(done, total):
        raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        libengram.Model.open(directory, tier="ram", progress=fail)


def test_errors_have_codes_and_errno(tmp_path):
    with pytest.raises(libengram.NotFoundError) as caught:
        libengram.Model.open(tmp_path / "none")
    assert caught.value.code == 2 and isinstance(caught.value, LookupError)
    assert issubclass(libengram.SystemError, OSError)
    assert issubclass(libengram.OutOfMemoryError, MemoryError)


def test_copies(model):
    session = model.session()
    session.advance([5, 6])
    fork = copy.copy(session)
    fork.advance([7])
    assert (session.position, fork.position) == (2, 3)


def test_foreign_objects_with_array_attributes(model):
    class Pretender:
        dtype = "bfloat16"

        def view(self, dtype):
            return "not an array"

        def __dlpack__(self, **_):
            raise BufferError("no")

    with pytest.raises(InvalidArgumentError, match="found 'Pretender'"):
        model.lookup(1, rows=ROWS, out=Pretender())
    with pytest.raises(InvalidArgumentError, match="mask: expected 2 values"):
        model.session().advance([5, 6], mask=[True])
    assert conftest.TOKENS
