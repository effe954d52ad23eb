"""Sessions and gates against one whole prefill, and against NumPy in binary64."""

import conftest
import numpy as np
import pytest
import reference

import libengram


@pytest.fixture
def hidden(model):
    shape = (len(conftest.TOKENS), model.copies, model.hidden_dim)
    return np.random.default_rng(1).standard_normal(shape).astype(np.float32)


def bfloat16_bits(values):
    return (reference.round_bfloat16(values).view(np.uint32) >> 16).astype(np.uint16)


def test_any_chunking_is_one_prefill(model):
    whole = model.session()
    whole.advance(conftest.TOKENS)
    expected = whole.lookup(14)
    stepped, begin = model.session(), 0
    for length in (1, 3, 2, 6):
        chunk = conftest.TOKENS[begin : begin + length]
        stepped.prepare(chunk + [400, 401])  # drafts, of which the last two are rejected
        stepped.prefetch(priority="whenever")
        stepped.commit(length)
        stepped = stepped.copy()
        np.testing.assert_array_equal(stepped.lookup(14)[:length], expected[begin : begin + length])
        begin += length
    assert stepped.position == whole.position == len(conftest.TOKENS)
    with pytest.raises(libengram.InvalidArgumentError):
        stepped.commit(1)


def test_session_equals_hasher(model):
    session = model.session()
    session.advance(conftest.TOKENS)
    keys = model.hasher.hash(conftest.TOKENS)
    for table, layer in enumerate(model.layer_ids):
        np.testing.assert_array_equal(session.keys(layer), keys[table])
        np.testing.assert_array_equal(session.rows(layer), model.hasher.rows(layer, keys[table]))
        np.testing.assert_array_equal(session.lookup(layer), model.lookup(layer, keys=keys[table]))


def test_apply_against_binary64(directory, model, hidden):
    pytest.importorskip("tokenizers", reason="needs the tokenizers package")
    official = reference.Model(directory)
    mask = [1, 1, 0, 1] * 3
    session = model.session()
    session.advance(conftest.TOKENS, mask)
    for rounding in ("reference", "none"):
        stream = hidden if rounding == "none" else reference.round_bfloat16(hidden)
        rows = session.lookup(14, dtype="f32")
        expected = official.apply(14, rows, stream, mask, rounded=rounding == "reference")
        found, gates = stream.copy(), np.empty(stream.shape[:2], np.float32)
        session.apply(14, found, rounding=rounding, gates=gates)
        np.testing.assert_allclose(found, expected, rtol=2e-2 if rounding == "reference" else 1e-4, atol=1e-6)
        assert (gates[np.array(mask) == 0] == 0).all()


def test_gate_equals_session(model, hidden):
    session = model.session()
    session.advance(conftest.TOKENS)
    gate = model.gate(1)
    words = bfloat16_bits(hidden)
    for stream in (hidden, words):
        expected = stream.copy()
        gates = np.empty(hidden.shape[:2], np.float32)
        session.apply(1, expected, gates=gates)
        again = np.empty_like(gates)
        found = gate.apply(session.lookup(1), stream, gates=again)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(again, gates)
        in_place = stream.copy()
        assert gate.apply(session.lookup(1), in_place, out=in_place) is in_place
        np.testing.assert_array_equal(in_place, expected)


def test_gate_of_given_weights(directory, model, hidden):
    """The file's own wkv, as the FP8 bytes and widened to binary32."""
    files = reference.Files(directory)
    name = "layers.1.engram."
    shape = files.tensor(name + "wkv.weight")[1]
    codes = files.bytes_of(name + "wkv.weight")[0].reshape(shape)
    scales = files.bytes_of(name + "wkv.scale")[0].reshape(-1, shape[1] // 32)
    norms = [
        files.bytes_of(name + part)[0].view(np.uint16).reshape(model.copies, model.hidden_dim)
        for part in ("q_weight", "k_weight")
    ]
    gate = libengram.Gate(codes, *norms, norm_eps=model.norm_eps, wkv_scale=scales)
    session = model.session()
    session.advance(conftest.TOKENS)
    rows = session.lookup(1)
    expected = model.gate(1).apply(rows, hidden)
    np.testing.assert_array_equal(gate.apply(rows, hidden), expected)
    tiles = np.repeat(np.repeat(reference.e8m0(scales), 32, 0)[: shape[0]], 32, 1)
    wide = (reference.e4m3(codes) * tiles).astype(np.float32)
    norms = [conftest.bfloat16_values(norm) for norm in norms]
    other = libengram.Gate(wide, *norms, norm_eps=model.norm_eps)
    np.testing.assert_allclose(other.apply(rows, hidden), expected, rtol=2e-2, atol=1e-5)
    with pytest.raises(libengram.InvalidArgumentError, match=r"wkv: expected \[1280, embedding"):
        libengram.Gate(wide[:-1], *norms, norm_eps=1e-6)
    with pytest.raises(libengram.InvalidArgumentError, match="wkv: expected the type of q_weight"):
        libengram.Gate(codes, *norms, norm_eps=1e-6)


def test_apply_refuses(model, hidden):
    session = model.session()
    session.advance(conftest.TOKENS)
    for bad, message in [
        (hidden[:-1], r"hidden: expected .*\[12, 4, 256\], found float32 \[11, 4, 256\]"),
        (hidden.astype(np.float64), "found float64"),
        (hidden[:, ::-1], "strides"),
        (hidden.astype(np.int32), "found int32"),
    ]:
        with pytest.raises(libengram.InvalidArgumentError, match=message):
            session.apply(1, bad)
    with pytest.raises(libengram.InvalidArgumentError, match="gates: expected"):
        session.apply(1, hidden.copy(), gates=np.empty((12, 3), np.float32))
    with pytest.raises(libengram.InvalidArgumentError, match="rounding"):
        session.apply(1, bfloat16_bits(hidden), rounding="none")
    with pytest.raises(libengram.InvalidArgumentError, match="rounding: expected one of"):
        session.apply(1, hidden, rounding="up")
    with pytest.raises(libengram.InvalidArgumentError, match="embedding: expected bfloat16"):
        model.gate(1).apply(session.lookup(1, dtype="f32"), hidden)
