#!/usr/bin/env python3
"""Tables written by other people's software, read by the command line.

formats.py ENGRAM DEMO_TOKENIZER SHARED_DIR

GGUF files come from the gguf package and block formats are decoded by it; everything else is
written and decoded by NumPy from the definitions. Exits 77 with a reason where a package is not
installed.
"""

import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

try:
    import gguf
    import numpy as np

    import reference
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

ENGRAM, DEMO_TOKENIZER = sys.argv[1], pathlib.Path(sys.argv[2])
Q = gguf.GGMLQuantizationType


def engram(*arguments, check=True):
    done = subprocess.run([ENGRAM, *map(str, arguments)], capture_output=True, text=True)
    if check and done.returncode != 0:
        raise AssertionError(f"engram {arguments}: {done.stderr}")
    return done.stdout if check else done


class Base:
    """A procedural FP8 model and everything a GGUF converter takes from it."""

    def __init__(self, folder):
        self.path = folder / "base"
        engram("make-model", self.path, "--tokenizer", DEMO_TOKENIZER, "--engram-vocab", 300,
               "--hidden", 64, "--copies", 2)
        self.model = reference.Model(self.path)
        self.layers = [1, 14]
        self.token_map = reference.token_map(self.path / "tokenizer.json")
        self.constants = [
            {"rows": sum(self.model.primes[layer]), "primes": self.model.primes[layer],
             "offsets": self.model.offsets[layer], "multipliers": self.model.multipliers[layer]}
            for layer in self.layers
        ]

    def tensor(self, layer, name):
        return self.model.bytes_of(f"layers.{layer}.engram.{name}")[0]

    def row264(self, layer):
        codes = self.tensor(layer, "embed.weight").reshape(-1, 256)
        scales = self.tensor(layer, "embed.scale").reshape(-1, 8)
        return np.concatenate([codes, scales], axis=1)

    def values(self, layer):
        """[rows, 256] binary32."""
        codes = reference.e4m3(self.tensor(layer, "embed.weight")).reshape(-1, 8, 32)
        scales = reference.e8m0(self.tensor(layer, "embed.scale")).reshape(-1, 8, 1)
        return (codes * scales).reshape(-1, 256).astype(np.float32)

    def wkv(self, layer):
        codes = reference.e4m3(self.tensor(layer, "wkv.weight")).reshape(-1, 6144)
        scales = reference.e8m0(self.tensor(layer, "wkv.scale")).reshape(-1, 192)
        tiles = np.repeat(np.repeat(scales, 32, axis=0)[: len(codes)], 32, axis=1)
        return (codes * tiles).astype(np.float32)

    def norm(self, layer, name):
        return reference.bfloat16_values(self.tensor(layer, name)).reshape(2, -1).astype(np.float32)


def lookup(model, layer, rows=None, form="f32", *options):
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "o.npy")
        engram("lookup", model, "--layer", layer, "--rows", ",".join(map(str, rows)), "--output", out,
               "--format", form, *options)
        return np.load(out)


class Writer:
    """A GGUF file of one dialect."""

    def __init__(self, path, base, architecture="deepseek41", **options):
        self.base, self.architecture = base, architecture
        self.file = gguf.GGUFWriter(path, architecture, **options)

    def key(self, name, value, kind=None):
        name = f"{self.architecture}.{name}"
        if isinstance(value, str):
            self.file.add_string(name, value)
        elif isinstance(value, float):
            self.file.add_float32(name, value)
        elif isinstance(value, int):
            self.file.add_uint32(name, value)
        else:
            array = gguf.GGUFValueType.ARRAY
            self.file.add_key_value(name, [int(v) for v in value], array, kind or gguf.GGUFValueType.UINT32)

    def flat(self, name):
        return [v for constants in self.base.constants for v in constants[name]]

    def gates(self, names=("engram_kv", "engram_q_norm", "engram_k_norm"), wkv=np.float16):
        self.key("attention.layer_norm_rms_epsilon", 1e-20)
        for layer in self.base.layers:
            self.file.add_tensor(f"blk.{layer}.{names[0]}.weight", self.base.wkv(layer).astype(wkv))
            self.file.add_tensor(f"blk.{layer}.{names[1]}.weight", self.base.norm(layer, "q_weight"))
            self.file.add_tensor(f"blk.{layer}.{names[2]}.weight", self.base.norm(layer, "k_weight"))

    def finish(self):
        self.file.write_header_to_file()
        self.file.write_kv_data_to_file()
        self.file.write_tensors_to_file()
        self.file.close()


def dialect_a(path, base, rows=None, encoding="e4m3_e8m0_32_row264", **options):
    writer = Writer(path, base, **options)
    u64 = gguf.GGUFValueType.UINT64
    writer.key("engram.encoding", encoding)
    writer.key("engram.layer_ids", base.layers)
    writer.key("engram.rows", [c["rows"] for c in base.constants])
    writer.key("engram.compressed_vocab_size", int(base.token_map.max()) + 1)
    writer.key("engram.pad_id", 2)
    writer.key("engram.token_map", base.token_map)
    writer.key("engram.primes", writer.flat("primes"))
    writer.key("engram.multipliers", writer.flat("multipliers"), u64)
    writer.gates()
    for layer in base.layers:
        table = base.row264(layer) if rows is None else rows[layer]
        writer.file.add_tensor(f"blk.{layer}.engram_embd.weight", table.view(np.int8))
    writer.finish()


def dialect_b(path, base, tables, kind, keys=None, **options):
    writer = Writer(path, base, **options)
    u64 = gguf.GGUFValueType.UINT64
    names = {"layer_ids": "layer_ids", "heads": "head_count", "dim": "key_length",
             "order": "max_ngram_size", "pad": "pad_id", "primes": "primes", "offsets": "offsets"}
    names.update(keys or {})
    writer.key(f"engram.{names['layer_ids']}", base.layers, gguf.GGUFValueType.INT32)
    writer.key(f"engram.{names['heads']}", 8)
    writer.key(f"engram.{names['dim']}", 256)
    writer.key(f"engram.{names['order']}", 4)
    writer.key(f"engram.{names['pad']}", 2)
    writer.key("engram.multipliers", writer.flat("multipliers"), u64)
    writer.key(f"engram.{names['primes']}", writer.flat("primes"), u64)
    writer.key(f"engram.{names['offsets']}", writer.flat("offsets"), u64)
    writer.key("engram.token_map", base.token_map, gguf.GGUFValueType.INT32)
    writer.gates(("engram_wkv", "engram_q", "engram_k"), np.float32)
    for layer in base.layers:
        writer.file.add_tensor(f"blk.{layer}.engram_embd.weight", tables[layer], raw_dtype=kind)
    writer.finish()


class Formats(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name)
        cls.base = Base(cls.root)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def expect_values(self, model, values, *options):
        """Every row of both layers, from every tier."""
        for layer in self.base.layers:
            rows = range(len(values[layer]))
            for tier in ("mmap", "ram"):
                found = lookup(model, layer, rows, "f32", "--tier", tier, *options)
                np.testing.assert_array_equal(found.view(np.uint32), values[layer].view(np.uint32))

    def expect_refused(self, words, command, *arguments):
        done = engram(command, *arguments, check=False)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(words, done.stderr)

    def base_values(self):
        return {layer: self.base.values(layer) for layer in self.base.layers}

    def apply(self, model):
        hidden = np.random.default_rng(3).standard_normal((20, 2, 64)).astype(np.float32)
        np.save(self.root / "h.npy", hidden)
        ids = ",".join(str(v) for v in np.random.default_rng(4).integers(3, 900, 20))
        out = self.root / "out.npy"
        engram("apply", model, "--layer", 14, "--ids", ids, "--hidden", self.root / "h.npy",
               "--output", out, "--no-round")
        return np.load(out)

    def test_row264(self):
        path = self.root / "a.gguf"
        dialect_a(path, self.base)
        self.expect_values(path, self.base_values())
        ids = "5,9,700,3,2"
        self.assertEqual(engram("hash", path, "--ids", ids, "--json"),
                         engram("hash", self.base.path, "--ids", ids, "--json"))
        np.testing.assert_allclose(self.apply(path), self.apply(self.base.path), rtol=2e-5, atol=2e-5)
        inspected = json.loads(engram("inspect", path, "--json"))
        self.assertEqual(inspected["tables"][0]["format"], "fp8")
        self.assertEqual(inspected["missing"], [])

    def test_split_files_and_raw_parts(self):
        split = self.root / "split"
        split.mkdir()
        dialect_a(split / "m.gguf", self.base, split_max_tensors=3)
        self.assertGreater(len(list(split.glob("*-of-*"))), 1)
        self.expect_values(split, self.base_values())
        self.expect_values(next(split.glob("*-00002-of-*")), self.base_values())
        (missing := next(split.glob("*-00002-of-*"))).unlink()
        self.expect_refused("files 'm-...', found", "inspect", split)
        del missing
        parts = self.root / "parts"
        parts.mkdir()
        dialect_a(self.root / "whole.gguf", self.base)
        data = (self.root / "whole.gguf").read_bytes()
        # One cut at a page and one anywhere: the second cannot be mapped, and says so.
        for name, cut in (("m.gguf.part", len(data) // 3 // 4096 * 4096),):
            (parts / f"{name}1").write_bytes(data[:cut])
            (parts / f"{name}2").write_bytes(data[cut:])
        self.expect_values(parts, self.base_values())
        self.expect_values(parts / "m.gguf.part1", self.base_values())
        for file in parts.iterdir():
            file.unlink()
        for i in range(12):
            step = len(data) // 12 + 1
            (parts / f"m.gguf.{i}").write_bytes(data[i * step : (i + 1) * step])
        self.expect_refused("it cannot be mapped; tier ram reads it", "lookup", parts, "--layer", 1,
                            "--rows", 0, "--output", self.root / "o.npy")
        found = lookup(parts, 14, range(50), "f32", "--tier", "ram")
        np.testing.assert_array_equal(found, self.base.values(14)[:50])

    def test_every_block_type(self):
        random = np.random.default_rng(7)
        sizes = {Q.Q8_0: (32, 34), Q.Q6_K: (256, 210), Q.Q5_K: (256, 176), Q.Q4_K: (256, 144),
                 Q.Q3_K: (256, 110), Q.Q2_K: (256, 84), Q.MXFP4: (32, 17)}
        halves = {Q.Q8_0: [0], Q.Q6_K: [208], Q.Q5_K: [0, 2], Q.Q4_K: [0, 2], Q.Q3_K: [108], Q.Q2_K: [80, 82]}
        for kind, (columns, size) in sizes.items():
            with self.subTest(kind.name):
                tables, values = {}, {}
                for layer, constants in zip(self.base.layers, self.base.constants):
                    blocks = random.integers(0, 256, (constants["rows"] * 256 // columns, size), dtype=np.uint8)
                    for at in halves.get(kind, []):
                        scale = random.normal(0, 0.01, len(blocks)).astype("<f2")
                        blocks[:, at : at + 2] = scale.view(np.uint8).reshape(-1, 2)
                    if kind == Q.MXFP4:
                        blocks[:, 0] = random.integers(110, 140, len(blocks))
                    table = blocks.reshape(constants["rows"], -1)
                    tables[layer] = table
                    values[layer] = gguf.quants.dequantize(table, kind).astype(np.float32)
                    if kind == Q.MXFP4:  # ggml's integers have no minus zero; E2M1 has
                        codes = blocks[:, 1:]
                        minus = np.concatenate([codes & 8, codes >> 4 & 8], axis=1).reshape(-1, 256) != 0
                        values[layer] = np.where(minus & (values[layer] == 0), np.float32(-0.0), values[layer])
                path = self.root / f"b-{kind.name}.gguf"
                dialect_b(path, self.base, tables, kind)
                self.expect_values(path, values)

    def test_plain_types_and_dialect_c(self):
        values = {layer: self.base.values(layer) for layer in self.base.layers}
        path = self.root / "f16.gguf"
        tables = {layer: v.astype(np.float16) for layer, v in values.items()}
        dialect_b(path, self.base, tables, Q.F16,
                  {"layer_ids": "layers", "heads": "head_count", "dim": "head_dim", "order": "ngram_size",
                   "pad": "pad_token_id", "primes": "head_bucket_sizes", "offsets": "head_offsets"})
        self.expect_values(path, {layer: t.astype(np.float32) for layer, t in tables.items()})
        np.testing.assert_allclose(self.apply(path), self.apply(self.base.path), rtol=2e-5, atol=2e-5)

    def test_dialect_d(self):
        path = self.root / "d.gguf"
        writer = Writer(path, self.base)
        writer.key("engram.layer_ids", self.base.layers)
        writer.key("engram.pad_id", 2)
        writer.key("engram_head_dim", 256)
        writer.file.add_tensor("engram_token_map.weight", self.base.token_map.astype(np.int32))
        writer.file.add_tensor("engram_primes.weight", np.array(writer.flat("primes"), np.int64))
        writer.file.add_tensor("engram_multipliers.weight", np.array(writer.flat("multipliers"), np.int64))
        for layer in self.base.layers:
            packed = self.base.row264(layer)
            writer.file.add_tensor(f"blk.{layer}.engram_embd.weight", packed[:, :256].copy().view(np.int8))
            writer.file.add_tensor(f"blk.{layer}.engram_embd_scale.weight", packed[:, 256:].copy().view(np.int8))
        writer.finish()
        self.expect_values(path, self.base_values())

    def test_lloyd4(self):
        random = np.random.default_rng(9)
        codebook = np.array([0, 0.095, 0.1901, 0.2944, 0.4126, 0.5586, 0.7484, 1], np.float32)
        tables, values = {}, {}
        for layer, constants in zip(self.base.layers, self.base.constants):
            table = random.integers(0, 256, (constants["rows"], 136), dtype=np.uint8)
            nibbles = np.stack([table[:, :128] & 15, table[:, :128] >> 4], axis=2).reshape(-1, 256)
            scale = table[:, 128:].astype(np.int32)
            scale = ((8 + (scale & 7)) / 16 * 2.0 ** ((scale >> 3) - 16)).astype(np.float32)
            magnitude = codebook[nibbles & 7] * np.repeat(scale, 32, axis=1)
            tables[layer] = table
            values[layer] = np.where(nibbles & 8, -magnitude, magnitude).astype(np.float32)
        path = self.root / "lloyd.gguf"
        dialect_a(path, self.base, tables, "lloyd4_e5m3_32_r136")
        self.expect_values(path, values)
        dialect_a(self.root / "under-way.gguf", self.base, tables, "conversion_underway")
        self.expect_refused("found 'conversion_underway'", "inspect", self.root / "under-way.gguf")

    def test_refusals(self):
        path = self.root / "good.gguf"
        dialect_a(path, self.base)
        good = path.read_bytes()
        bad = self.root / "bad.gguf"

        def refused(words, data):
            bad.write_bytes(data)
            self.expect_refused(words, "inspect", bad)

        refused("not a GGUF file", b"GGXF" + good[4:])
        refused("version", good[:4] + struct.pack("<I", 4) + good[8:])
        refused("table of tensors of", good[:8] + struct.pack("<Q", 1 << 60) + good[16:])
        refused("table of keys of", good[:16] + struct.pack("<Q", 1 << 40) + good[24:])
        refused("truncated: tensor 'blk.14.engram_embd.weight' needs", good[:-8192])
        refused("table of tensors of 8 at byte 24: the file has 100 bytes", good[:100])
        # One multiplier of the file differs from those the geometry gives.
        multiplier = struct.pack("<Q", self.base.constants[0]["multipliers"][1])
        self.assertEqual(good.count(multiplier), 1)
        wrong = struct.pack("<Q", self.base.constants[0]["multipliers"][1] ^ 2)
        refused("layer 1: multiplier 1: expected", good.replace(multiplier, wrong))
        # Keys under another architecture's name (faults H05 and H06): all that is missing is named.
        writer = Writer(bad, self.base)
        writer.architecture = "deepseek4"
        writer.key("engram.layer_ids", self.base.layers)
        writer.key("engram.pad_id", 2)
        writer.finish()
        self.expect_refused("the conversion left out deepseek41.engram.layer_ids, "
                            "deepseek41.engram.multipliers, deepseek41.engram.primes", "inspect", bad)
        for cut in range(0, min(len(good), 60000), 977):
            bad.write_bytes(good[:cut])
            self.assertEqual(engram("inspect", bad, check=False).returncode, 1)

    def test_int3_and_declarations(self):
        random = np.random.default_rng(11)
        values = {}
        folder = self.root / "int3"
        folder.mkdir()
        for name in ("config.json", "tokenizer.json"):
            (folder / name).write_bytes((self.base.path / name).read_bytes())
        for layer, constants in zip(self.base.layers, self.base.constants):
            rows = constants["rows"]
            codes = random.integers(-4, 4, (rows, 256))
            scales = random.integers(0x20, 0x60, (rows, 8), dtype=np.uint8)
            bits = ((codes & 7)[:, :, None] >> np.arange(3)) & 1
            packed = np.packbits(bits.reshape(rows, -1).astype(np.uint8), axis=1, bitorder="little")
            exact = codes * np.repeat(reference.e4m3(scales), 32, axis=1) / 8
            values[layer] = exact.astype(np.float32)
            header, payload = {}, b""
            for part, dtype, data in (("weight", "U8", packed), ("scale", "F8_E4M3", scales)):
                header[f"layers.{layer}.engram.embed.{part}"] = {
                    "dtype": dtype, "shape": list(data.shape),
                    "data_offsets": [len(payload), len(payload) + data.nbytes]}
                payload += data.tobytes()
            text = json.dumps(header).encode()
            (folder / f"l{layer}.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + payload)
        self.expect_refused("fits int3-e4m3 and nothing declares which", "inspect", folder)
        for layer in self.base.layers:  # a zero has the sign of its scale, which is positive
            values[layer] = np.where(values[layer] == 0, np.float32(0), values[layer])
        self.expect_values(folder, values, "--codec", "int3-e4m3")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
