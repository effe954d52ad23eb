"""libengram in mlx-vlm's DeepSeek-V4.1: the whole model with tiny random weights, its own tables and
hash against ours, logits compared bit for bit.

The weights are random and the model small; what is tested is the host's own code around ours: chunked
prefill, decode steps, an image span, batches that are padded, the loader.
"""

import json
import pathlib

import numpy as np
import pytest

mx = pytest.importorskip("mlx.core", reason="needs mlx (tests/hosts/requirements.txt)")
pytest.importorskip("mlx_vlm", reason="needs mlx-vlm (tests/hosts/requirements.txt)")

import libengram  # noqa: E402
import libengram.mlx  # noqa: E402
from mlx.utils import tree_flatten, tree_map_with_path  # noqa: E402
from mlx_vlm.models.deepseek_v41 import Model, ModelConfig  # noqa: E402
from mlx_vlm.models.deepseek_v41.engram import (  # noqa: E402
    NgramHashState,
    QuantizedEngramEmbedding,
)
from mlx_vlm.models.deepseek_v41.language import BatchDeepseekV41Cache  # noqa: E402
from mlx_vlm.utils import load_model  # noqa: E402
from tokenizers import Tokenizer  # noqa: E402

TOKENIZER = pathlib.Path(__file__).resolve().parents[2] / "data" / "demo-tokenizer.json"
LAYERS = (1, 14)
IMAGE = 1023
# A backbone of the released shape, 16 layers deep, so that both Engram layers are there.
BACKBONE = dict(
    num_hidden_layers=16,
    num_attention_heads=4,
    head_dim=64,
    qk_rope_head_dim=16,
    q_lora_rank=64,
    o_lora_rank=32,
    o_groups=2,
    moe_intermediate_size=64,
    n_routed_experts=4,
    num_experts_per_tok=2,
    sliding_window=16,
    compress_ratios=[0, 0] + [2] * 6 + [1] * 8,
    kv_source_layer_ids=[2, 8],
    index_source_layer_ids=[2, 8],
    candidate_source_layer_id=8,
    candidate_topk_blocks=4,
    candidate_block_size=2,
    index_n_heads=2,
    index_head_dim=32,
    index_topk=8,
    max_position_embeddings=4096,
)
VISION = dict(
    num_hidden_layers=1,
    hidden_size=32,
    num_attention_heads=2,
    intermediate_size=32,
)


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("mlx") / "model"
    libengram.make_model(path, tokenizer=TOKENIZER, engram_vocab_size=2000, hidden_dim=64)
    config = json.loads((path / "config.json").read_text())
    config["text_config"].update(BACKBONE)
    config.update(model_type="deepseek_v41", image_token_id=IMAGE, vision_config=VISION)
    (path / "config.json").write_text(json.dumps(config))
    return path


def made_model(directory):
    """The host's model with random weights, and the tables of the directory as it would hold them."""
    config = ModelConfig.from_dict(json.loads((directory / "config.json").read_text()))
    mx.random.seed(0)
    model = Model(config)
    numbers = (mx.float32, mx.bfloat16, mx.float16)

    def random(path, value):
        if value.dtype not in numbers or "engram.embed" in path:
            return value
        return (mx.random.normal(value.shape) * 0.05).astype(value.dtype)

    model.update(tree_map_with_path(random, model.parameters()))
    for layer in LAYERS:
        model.language_model.layers[layer].engram.embed = own_table(directory, layer)
    model.language_model.engram_hash = own_hash(directory, model.language_model)
    mx.eval(model.parameters())
    return model


def stored(directory, name):
    """A one-byte tensor of the directory [rows, bytes], read without either library."""
    index = json.loads((directory / "model.safetensors.index.json").read_text())["weight_map"]
    data = (directory / index[name]).read_bytes()
    length = int.from_bytes(data[:8], "little")
    tensor = json.loads(data[8 : 8 + length])[name]
    begin, end = (8 + length + offset for offset in tensor["data_offsets"])
    return np.frombuffer(data[begin:end], np.uint8).reshape(tensor["shape"]).copy()


def own_table(directory, layer):
    codes = stored(directory, f"layers.{layer}.engram.embed.weight")
    scales = stored(directory, f"layers.{layer}.engram.embed.scale")
    table = QuantizedEngramEmbedding(*codes.shape, 32, 8, scale_dtype=mx.uint8, mode="mxfp8")
    table.weight, table.scales, table.biases = mx.array(codes.view(np.uint32)), mx.array(scales), None
    return table


def own_hash(directory, language_model):
    class Fast:  # as transformers wraps it
        backend_tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))

        def __len__(self):
            return self.backend_tokenizer.get_vocab_size()

    return NgramHashState(language_model.config, language_model.layout, tokenizer=Fast())


@pytest.fixture(scope="module")
def model(directory):
    return made_model(directory).language_model


@pytest.fixture(scope="module")
def prompt():
    tokens = np.random.default_rng(0).integers(3, 1000, size=40)
    tokens[9:12] = IMAGE
    return tokens


PREFILL_THEN_DECODE = [7, 11] + [1] * 22
WHOLE = [40]


def logits(model, tokens, chunks):
    cache, out, position = model.make_cache(), [], 0
    for length in chunks:
        step = model(mx.array(tokens[None, position : position + length]), cache=cache).logits
        out.append(np.array(step[0]).view(np.uint32))
        position += length
    return np.concatenate(out)


def greedy(model, tokens, count):
    """``count`` decode steps after a prefill in two chunks: their logits, and the tokens chosen."""
    cache, chosen, out = model.make_cache(), [], []
    model(mx.array(tokens[None, :7]), cache=cache)
    step = model(mx.array(tokens[None, 7:]), cache=cache).logits
    for _ in range(count):
        out.append(np.array(step[0, -1]).view(np.uint32))
        chosen.append(int(step[0, -1].argmax()))
        step = model(mx.array([[chosen[-1]]]), cache=cache).logits
    return np.stack(out), chosen


@pytest.mark.parametrize("tier", ["direct", "mmap", "ram"])
@pytest.mark.parametrize("chunks", [PREFILL_THEN_DECODE, WHOLE], ids=["steps", "whole"])
def test_logits_are_the_hosts_own(directory, model, prompt, tier, chunks):
    own = logits(model, prompt, chunks)
    memory = libengram.mlx.attach(model, directory, tier=tier)
    try:
        np.testing.assert_array_equal(logits(model, prompt, chunks), own)
        counters = memory.counters()
        assert counters["hashed"] == 40
        assert counters["prefetched"] == 40 * len(LAYERS)
        assert counters["looked_up"] == 0
    finally:
        memory.detach()
    np.testing.assert_array_equal(logits(model, prompt, chunks), own)


def test_greedy_decoding_chooses_the_same_tokens(directory, model, prompt):
    own, chosen = greedy(model, prompt[:18], 22)
    memory = libengram.mlx.attach(model, directory, cache="1M")
    try:
        ours, same = greedy(model, prompt[:18], 22)
        np.testing.assert_array_equal(ours, own)
        assert same == chosen
        whole = logits(model, np.concatenate([prompt[:18], chosen[:-1]]), [18, 21])
        np.testing.assert_array_equal(whole[17:], own)
    finally:
        memory.detach()


def test_without_engram_the_logits_are_others(directory, model, prompt):
    own = logits(model, prompt, WHOLE)
    layers = {layer: model.layers[layer].engram for layer in LAYERS}
    try:
        for layer in LAYERS:
            model.layers[layer].engram = None
        assert np.abs(logits(model, prompt, WHOLE).view(np.float32) - own.view(np.float32)).max() > 0.01
    finally:
        for layer, engram in layers.items():
            model.layers[layer].engram = engram


def test_ids_in_the_cache_are_the_hosts_own(directory, model, prompt):
    """A generation may go on across attach and detach."""
    own = logits(model, prompt, [7, 11, 22])
    cache, out = model.make_cache(), []
    for begin, end in [(0, 7), (7, 18), (18, 40)]:
        memory = libengram.mlx.attach(model, directory) if begin == 7 else None
        out.append(np.array(model(mx.array(prompt[None, begin:end]), cache=cache).logits[0]))
        if memory:
            memory.detach()
    np.testing.assert_array_equal(np.concatenate(out).view(np.uint32), own)


def test_padded_batches(directory, model, prompt):
    """Requests of unequal length in one batch, padded left, then decoded together."""

    def run():
        rows = [model.make_cache()[0] for _ in range(3)]
        batch = BatchDeepseekV41Cache(rows, left_padding=[0, 6, 9])
        tokens = np.zeros((3, 12), np.int64)
        for i, padding in enumerate([0, 6, 9]):
            tokens[i, padding:] = prompt[i : i + 12 - padding]
        first = np.array(model(mx.array(tokens), cache=[batch]).logits)
        second = np.array(model(mx.array(prompt[None, 20:23].T), cache=[batch]).logits)
        real = [first[i, padding:] for i, padding in enumerate([0, 6, 9])]
        return np.concatenate([*real, second[:, 0]]).view(np.uint32)

    own = run()
    memory = libengram.mlx.attach(model, directory)
    try:
        np.testing.assert_array_equal(run(), own)
        assert memory.counters()["looked_up"] == 0
    finally:
        memory.detach()


def test_ids_that_nobody_announced_are_looked_up(directory, model, prompt):
    ids = own_hash(directory, model)(mx.array(prompt[None]), 0, model.make_cache()[0])
    own = np.array(model(mx.array(prompt[None]), engram_hashes=ids).logits)
    memory = libengram.mlx.attach(model, directory)
    try:
        ours = np.array(model(mx.array(prompt[None]), engram_hashes=ids).logits)
        np.testing.assert_array_equal(ours.view(np.uint32), own.view(np.uint32))
        assert memory.counters()["looked_up"] == 40 * len(LAYERS)
    finally:
        memory.detach()


def test_lost_history_is_refused(directory, model, prompt):
    memory = libengram.mlx.attach(model, directory)
    try:
        cache = model.make_cache()
        cache[0].offset = 5
        with pytest.raises(libengram.InvalidArgumentError, match="position 5 .* history"):
            model(mx.array(prompt[None, 5:8]), cache=cache)
    finally:
        memory.detach()


def test_other_models_are_refused(tmp_path, directory, model):
    own = model.engram_hash, [model.layers[layer].engram.embed for layer in LAYERS]
    other = tmp_path / "other"
    for changed, named in [
        (dict(engram_vocab_size=3000, hidden_dim=64), "primes of layer 1"),
        (dict(engram_vocab_size=2000, hidden_dim=96), "hidden_size"),
        (dict(engram_vocab_size=2000, hidden_dim=64, layer_ids=[1, 13]), "engram_layer_ids"),
        (dict(engram_vocab_size=2000, hidden_dim=64, copies=2), "hc_mult"),
    ]:
        libengram.make_model(other, tokenizer=TOKENIZER, **changed)
        with pytest.raises(libengram.InvalidArgumentError, match=named):
            libengram.mlx.attach(model, other)
        for path in other.iterdir():
            path.unlink()
        other.rmdir()
    assert own == (model.engram_hash, [model.layers[layer].engram.embed for layer in LAYERS])


def test_another_host_is_refused(directory, model, monkeypatch):
    monkeypatch.setattr(NgramHashState, "__call__", lambda self, ids, start, cache, mask: ids)
    with pytest.raises(libengram.UnsupportedError, match="expected .self input_ids"):
        libengram.mlx.attach(model, directory)
    monkeypatch.undo()
    monkeypatch.setattr("importlib.metadata.version", lambda name: "0.8.0")
    with pytest.raises(libengram.UnsupportedError, match="expected version 0.7.*found 0.8.0"):
        libengram.mlx.attach(model, directory)


def test_attached_twice_is_refused(directory, model):
    memory = libengram.mlx.attach(model, directory)
    with pytest.raises(libengram.InvalidArgumentError, match="detach it first"):
        libengram.mlx.attach(model, directory)
    memory.detach()
    memory.detach()
    assert not memory.attached


@pytest.fixture(scope="module")
def checkpoint(directory, tmp_path_factory):
    """The directory with the backbone's weights beside the tables, as mlx-vlm loads it."""
    path = tmp_path_factory.mktemp("mlx") / "checkpoint"
    path.mkdir()
    for file in directory.iterdir():
        (path / file.name).write_bytes(file.read_bytes())
    model = made_model(directory)
    weights = {
        name: value for name, value in tree_flatten(model.parameters()) if ".engram." not in name
    }
    mx.save_safetensors(str(path / "backbone.safetensors"), weights)
    index_file = path / "model.safetensors.index.json"
    index = json.loads(index_file.read_text())
    index["weight_map"].update({name: "backbone.safetensors" for name in weights})
    index_file.write_text(json.dumps(index))
    return path


def bytes_read():
    lines = pathlib.Path("/proc/self/io").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("rchar")).split()[1])


def test_the_loader_never_reads_the_tables(checkpoint, prompt):
    tables = sum(
        stored(checkpoint, f"layers.{layer}.engram.embed.{part}").nbytes
        for layer in LAYERS
        for part in ("weight", "scale")
    )
    whole = sum(file.stat().st_size for file in checkpoint.iterdir())
    own = logits(load_model(checkpoint).language_model, prompt, WHOLE)
    before = bytes_read()
    with libengram.mlx.without_tables(checkpoint) as memories:
        model = load_model(checkpoint)
    assert bytes_read() - before < whole - tables + (1 << 20)
    assert tables > 1 << 22  # or the line above could not fail
    assert not [name for name, _ in tree_flatten(model.parameters()) if "engram.embed" in name]
    mx.eval(model.parameters())
    np.testing.assert_array_equal(logits(model.language_model, prompt, WHOLE), own)
    with pytest.raises(libengram.InvalidArgumentError, match="never loaded"):
        memories[0].detach()
    # Outside of the context the loader is the host's own again.
    assert not isinstance(
        load_model(checkpoint).language_model.layers[1].engram.embed, libengram.mlx._Rows
    )
