"""torch tensors in and out, and the modules; where torch can be imported."""

import json

import conftest
import numpy as np
import pytest

import libengram

torch = pytest.importorskip("torch", reason="needs torch")
import libengram.torch  # noqa: E402


@pytest.fixture
def rows(model):
    return torch.from_numpy(model.hasher.rows(1, model.hasher.hash(conftest.TOKENS)[0]))


def safetensors(directory, layer):
    """A layer's state dict, read by definition of the format."""
    index = json.loads((directory / "model.safetensors.index.json").read_text())["weight_map"]
    dtypes = {
        "F8_E4M3": torch.float8_e4m3fn,
        "F8_E8M0": torch.uint8,
        "BF16": torch.bfloat16,
    }
    state = {}
    prefix = f"layers.{layer}.engram."
    for name, file in index.items():
        if not name.startswith(prefix):
            continue
        data = (directory / file).read_bytes()
        size = int.from_bytes(data[:8], "little")
        info = json.loads(data[8 : 8 + size])[name]
        begin, end = (8 + size + at for at in info["data_offsets"])
        tensor = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.uint8)
        state[name[len(prefix) :]] = tensor.view(dtypes[info["dtype"]]).view(info["shape"])
    return state


def test_embedding_equals_a_table_in_memory(directory, model, rows):
    state = safetensors(directory, 1)
    scale = torch.exp2(state["embed.scale"].float() - 127).repeat_interleave(32, dim=1)
    table = (state["embed.weight"].float() * scale).to(torch.bfloat16)
    embedding = libengram.torch.EngramEmbedding(model, 1)
    assert torch.equal(embedding(rows), torch.nn.functional.embedding(rows, table))
    out = torch.empty(12, 24, 256, dtype=torch.bfloat16)
    assert embedding(rows.to(torch.int32), out=out) is out
    assert torch.equal(out, embedding(rows))
    assert "layer=1" in repr(embedding) and not list(embedding.parameters())


def test_layer_loads_a_state_dict(directory, model, rows):
    layer = libengram.torch.EngramLayer(model, 1)
    layer.load_state_dict(safetensors(directory, 1))
    torch.manual_seed(1)
    hidden = torch.randn(12, model.copies, model.hidden_dim)
    mask = torch.tensor([True, False] * 6)
    session = model.session()
    session.advance(conftest.TOKENS)
    for stream in (hidden, hidden.to(torch.bfloat16)):
        expected = model.gate(1).apply(session.lookup(1), stream, mask=mask, out=torch.empty_like(stream))
        found = layer(stream, rows, mask)
        assert found.dtype == stream.dtype and torch.equal(found, expected)
        assert torch.equal(found[1], stream[1]) and not torch.equal(found[0], stream[0])
    before = layer(hidden, rows)
    layer.q_weight.mul_(2)
    assert not torch.equal(layer(hidden, rows), before)


def test_state_dicts_of_another_model_are_refused(directory, model):
    layer = libengram.torch.EngramLayer(model, 1)
    with pytest.raises(libengram.InvalidArgumentError, match="rows, as the opened model's layer 1"):
        layer.load_state_dict(safetensors(directory, 14))
    wide = libengram.torch.EngramLayer(model, 1, wkv_dtype=torch.bfloat16)
    with pytest.raises(libengram.InvalidArgumentError, match="expected torch.bfloat16"):
        wide.load_state_dict(safetensors(directory, 1))


def test_tensors_of_other_kinds_are_refused(model, rows):
    with pytest.raises(libengram.InvalidArgumentError, match="found float32"):
        model.lookup(1, rows=rows.float())
    with pytest.raises(libengram.InvalidArgumentError, match="found 'Tensor'"):
        model.lookup(1, rows=rows.to("meta"))
    with pytest.raises(libengram.InvalidArgumentError, match="C-contiguous"):
        model.lookup(1, rows=rows.T)
    if torch.cuda.is_available():
        with pytest.raises(libengram.InvalidArgumentError, match="memory of the CPU"):
            model.lookup(1, rows=rows.cuda())


def test_sessions_take_tensors(model):
    session = model.session()
    session.advance(torch.tensor(conftest.TOKENS))
    hidden = torch.zeros(12, model.copies, model.hidden_dim, dtype=torch.bfloat16)
    session.apply(1, hidden)
    words = np.zeros(hidden.shape, np.uint16)
    session.apply(1, words)
    np.testing.assert_array_equal(hidden.view(torch.int16).numpy().view(np.uint16), words)
