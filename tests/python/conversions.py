#!/usr/bin/env python3
"""Conversions, shards, rotations, manifests: what the command line writes, read by others.

conversions.py ENGRAM DEMO_TOKENIZER SHARED_DIR KILLS

Files are read by NumPy, the gguf package and the tables of docs/FORMAT.md, never by the library
that wrote them. KILLS is how many conversions are killed. Exits 77 with a reason where a package is
not installed.
"""

import fcntl
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

try:
    import gguf
    import numpy as np

    import reference
    from files import Pages, model_tensors, mxfp4_reference, safetensors, tree, write_safetensors
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

ENGRAM, DEMO_TOKENIZER, KILLS = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[4])
LAYERS = (1, 14)


def engram(*arguments, check=True, **options):
    done = subprocess.run([ENGRAM, *map(str, arguments)], capture_output=True, text=True, **options)
    if check and done.returncode != 0:
        raise AssertionError(f"engram {arguments}: {done.stderr}")
    return done.stdout if check else done


class Conversions(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name)
        cls.base = cls.root / "base"
        engram("make-model", cls.base, "--tokenizer", DEMO_TOKENIZER, "--engram-vocab", 400,
               "--hidden", 64, "--copies", 2)
        cls.tensors = model_tensors(cls.base)
        cls.codes = {l: cls.tensors[f"layers.{l}.engram.embed.weight"][1].reshape(-1, 256) for l in LAYERS}
        cls.scales = {l: cls.tensors[f"layers.{l}.engram.embed.scale"][1].reshape(-1, 8) for l in LAYERS}
        cls.packed = {l: np.concatenate([cls.codes[l], cls.scales[l]], axis=1) for l in LAYERS}
        cls.values = {l: (reference.e4m3(cls.codes[l]) * np.repeat(reference.e8m0(cls.scales[l]), 32, axis=1))
                      .astype(np.float32) for l in LAYERS}
        cls.made = {}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def convert(self, target, *options, source=None):
        key = (target, options, source)
        if key not in self.made:
            path = self.root / f"made-{len(self.made)}"
            engram("convert", source or self.base, path, "--to", target, *options)
            self.made[key] = path
            listed = json.loads((path / "engram-manifest.json").read_text())["files"]
            found = tree(path)
            found.pop("engram-manifest.json")
            self.assertEqual({f["path"]: f["sha256"] for f in listed}, found)
        return self.made[key]

    def expect_refused(self, words, *arguments):
        done = engram(*arguments, check=False)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertIn(words, done.stderr)

    def part(self, model, layer, part, prefix=""):
        return model_tensors(model)[f"{prefix}layers.{layer}.engram.{part}"]

    def test_fp8_forms_are_the_same_bytes(self):
        for layer in LAYERS:
            mlx = self.convert("mxfp8")
            dtype, raw, shape = self.part(mlx, layer, "embed.weight", "language_model.")
            self.assertEqual((dtype, shape), ("U32", [len(self.codes[layer]), 64]))
            np.testing.assert_array_equal(raw.reshape(-1, 256), self.codes[layer])
            dtype, raw, _ = self.part(mlx, layer, "embed.scales", "language_model.")
            self.assertEqual(dtype, "U8")
            np.testing.assert_array_equal(raw.reshape(-1, 8), self.scales[layer])
            reader = gguf.GGUFReader(self.convert("row264") / "model.gguf")
            table = next(t for t in reader.tensors if t.name == f"blk.{layer}.engram_embd.weight")
            np.testing.assert_array_equal(np.asarray(table.data).view(np.uint8), self.packed[layer])
            paged = self.convert("paged") / f"engram-layer-{layer:05}.safetensors"
            np.testing.assert_array_equal(Pages.rows(paged, layer), self.packed[layer])
        tables = json.loads((self.convert("mxfp8") / "config.json").read_text())["omlx_deepseek_v41"]["engram_tables"]
        self.assertEqual(tables["language_model.layers.1.engram.embed"]["mode"], "mxfp8")
        # And back, through each: the very files of the official form.
        official = tree(self.convert("fp8"))
        for through in ("row264", "mxfp8", "paged"):
            back = tree(self.convert("fp8", source=self.convert(through)))
            for name in ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"):
                if through == "row264":  # its gate comes back as bfloat16, so only the table is compared
                    continue
                self.assertEqual(back[name], official[name])
            again = model_tensors(self.convert("fp8", source=self.convert(through)))
            for layer in LAYERS:
                np.testing.assert_array_equal(again[f"layers.{layer}.engram.embed.weight"][1].reshape(-1, 256), self.codes[layer])

    def test_row264_carries_constants(self):
        reader = gguf.GGUFReader(self.convert("row264") / "model.gguf")
        field = lambda name: reader.get_field(f"deepseek41.engram.{name}").contents()
        model = reference.Model(self.base)
        self.assertEqual(field("encoding"), "e4m3_e8m0_32_row264")
        self.assertEqual(field("primes"), [p for l in LAYERS for p in model.primes[l]])
        self.assertEqual(field("multipliers"), [m for l in LAYERS for m in model.multipliers[l]])
        self.assertEqual(field("token_map"), [int(v) for v in model.map])
        self.assertEqual(field("rows"), [sum(model.primes[l]) for l in LAYERS])
        self.assertEqual(reader.alignment, 16384)
        for tensor in reader.tensors:
            self.assertEqual(tensor.data_offset % 16384, 0)

    def test_bf16_and_companions(self):
        model = self.convert("bf16")
        for layer in LAYERS:
            dtype, raw, shape = safetensors(model / f"engram_embed_weight_l{layer}.safetensors")[0][f"layers.{layer}.engram.embed.weight"]
            self.assertEqual((dtype, shape), ("BF16", [len(self.codes[layer]), 256]))
            wide = raw.view(np.uint16).astype(np.uint32) << 16
            np.testing.assert_array_equal(wide.view(np.float32).reshape(-1, 256), self.values[layer])
        storage = json.loads((model / "quant_model_description.json").read_text())["optional"]["embedding_storage"]
        self.assertEqual(storage["version"], 2)
        self.assertEqual(storage["modules"]["layers.14.engram.embed"],
                         {"format": "bf16", "weight_dtype": "BF16", "layout": "row_major",
                          "weight_shape": [len(self.codes[14]), 256]})
        index = json.loads((model / "quant_model_weights.safetensors.index.json").read_text())
        total = sum(raw.nbytes for _, raw, _ in model_tensors(model).values())
        self.assertEqual(index["metadata"]["total_size"], total)
        # FP8 again from bfloat16: the same values, though not the same bytes.
        engram("compare", self.base, self.convert("fp8", source=model), "--exact", "--all")

    def test_int8(self):
        model = self.convert("int8")
        for layer in LAYERS:
            codes = self.part(model, layer, "embed.weight")[1].view(np.int8).reshape(-1, 8, 32)
            scales = self.part(model, layer, "embed.scale")[1].view("<f4").reshape(-1, 8, 1)
            groups = self.values[layer].reshape(-1, 8, 32)
            amax = np.abs(groups).max(axis=2, keepdims=True)
            expected = np.exp2(np.ceil(np.log2(amax / 127))).astype(np.float32)
            np.testing.assert_array_equal(scales, expected)
            np.testing.assert_array_equal(codes, np.rint(groups / expected).clip(-127, 127).astype(np.int8))

    def test_mxfp4_by_every_rule(self):
        for exponent in ("search", "floor", "ceil"):
            for ties in ("even", "toward-zero"):
                model = self.convert("mxfp4", "--exponent", exponent, "--ties", ties)
                for layer in LAYERS:
                    packed, scale = mxfp4_reference(self.values[layer], exponent, ties)
                    np.testing.assert_array_equal(self.part(model, layer, "embed.scale")[1].reshape(-1, 8), scale)
                    np.testing.assert_array_equal(self.part(model, layer, "embed.weight")[1].reshape(-1, 128), packed)
        config = json.loads((self.convert("mxfp4") / "config.json").read_text())
        self.assertEqual(config["quantization_config"], {"engram_embed_quant": "mxfp4", "engram_embed_block_size": 32,
                                                         "engram_embed_layers": [1, 14]})
        # ModelOpt: the larger exponent, ties toward zero, zeros as nibble 8.
        model = self.convert("mxfp4", "--like", "modelopt")
        packed, scale = mxfp4_reference(self.values[1], "ceil", "toward-zero")
        nibbles = np.stack([packed & 15, packed >> 4], axis=2).reshape(-1, 256)
        nibbles = np.where(self.values[1] == 0, 8, nibbles)
        expected = (nibbles[:, 0::2] | nibbles[:, 1::2] << 4).astype(np.uint8)
        np.testing.assert_array_equal(self.part(model, 1, "embed.weight")[1].reshape(-1, 128), expected)

    def test_mxfp4_moves_to_gguf_and_back(self):
        source = self.convert("mxfp4")
        blocks = self.convert("mxfp4-gguf", source=source)
        reader = gguf.GGUFReader(blocks / "model.gguf")
        back = self.convert("mxfp4", source=blocks)
        grid = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])
        for layer in LAYERS:
            codes = self.part(source, layer, "embed.weight")[1].reshape(-1, 128)
            scales = self.part(source, layer, "embed.scale")[1].reshape(-1, 8)
            values = grid[np.stack([codes & 15, codes >> 4], axis=2).reshape(-1, 256)]
            values = values * np.repeat(np.exp2(scales.astype(np.float64) - 127), 32, axis=1)
            table = next(t for t in reader.tensors if t.name == f"blk.{layer}.engram_embd.weight")
            np.testing.assert_array_equal(gguf.quants.dequantize(table.data, table.tensor_type), values.astype(np.float32))
            np.testing.assert_array_equal(self.part(back, layer, "embed.weight")[1].reshape(-1, 128), codes)
            np.testing.assert_array_equal(self.part(back, layer, "embed.scale")[1].reshape(-1, 8), scales)
        # To FP8: the same values, and the same scale bytes.
        engram("compare", source, self.convert("fp8", source=source), "--exact", "--all")

    def test_q8_0_and_lloyd4(self):
        reader = gguf.GGUFReader(self.convert("q8_0") / "model.gguf")
        for layer in LAYERS:
            table = next(t for t in reader.tensors if t.name == f"blk.{layer}.engram_embd.weight")
            expected = gguf.quants.quantize(self.values[layer], gguf.GGMLQuantizationType.Q8_0)
            np.testing.assert_array_equal(np.asarray(table.data).reshape(expected.shape), expected)
        reader = gguf.GGUFReader(self.convert("lloyd4") / "model.gguf")
        table = next(t for t in reader.tensors if t.name == "blk.1.engram_embd.weight")
        raw = np.asarray(table.data).view(np.uint8)
        self.assertEqual(raw.shape[1], 136)
        book = np.array([0, 0.095, 0.1901, 0.2944, 0.4126, 0.5586, 0.7484, 1], np.float32).astype(np.float64)
        scale = np.array([(8 + (b & 7)) / 16 * 2.0 ** ((b >> 3) - 16) for b in range(256)])
        groups = np.abs(self.values[1].reshape(-1, 32).astype(np.float64))
        upper = np.searchsorted(scale, groups.max(axis=1))
        error = lambda s: (np.abs(groups[:, :, None] - book * scale[s][:, None, None]).min(axis=2) ** 2).sum(axis=1)
        expected = np.where(error(upper - 1) < error(upper), upper - 1, upper)
        np.testing.assert_array_equal(raw[:, 128:].reshape(-1), expected)

    def test_paged_files_made_elsewhere(self):
        ours = self.convert("paged", "--tables-only")
        theirs = self.root / "paged-elsewhere"
        theirs.mkdir()
        for name in ("config.json", "tokenizer.json"):
            shutil.copy(self.base / name, theirs)
        for layer in LAYERS:
            name = f"engram-layer-{layer:05}.safetensors"
            metadata = dict(safetensors(ours / name)[1], **{"engram.source": "made by a test"})
            Pages.write(theirs / name, layer, self.packed[layer], metadata)
        engram("compare", self.base, theirs, "--exact", "--all")
        engram("check", theirs, "--level", "full")
        path = theirs / "engram-layer-00001.safetensors"
        good = path.read_bytes()
        start = 8 + struct.unpack("<Q", good[:8])[0]
        self.assertEqual(start % 4096, 0)
        page = lambda i: slice(start + 4096 * i, start + 4096 * (i + 1))
        lookup = ("lookup", theirs, "--layer", 1, "--rows", 46, "--output", self.root / "o.npy")

        def refused(words, data):
            path.write_bytes(data)
            self.expect_refused(words, *lookup)
            self.expect_refused(words, *lookup, "--tier", "ram")
            self.expect_refused(words, "check", theirs, "--level", "full")

        damaged = bytearray(good)
        damaged[start + 4096 * 3 + 100] ^= 1
        refused("page 3: damaged", bytes(damaged))
        moved = bytearray(good)
        moved[page(3)], moved[page(4)] = good[page(4)], good[page(3)]
        refused("page 3: misplaced: it says it is page 4", bytes(moved))
        other = (theirs / "engram-layer-00014.safetensors").read_bytes()
        other_start = 8 + struct.unpack("<Q", other[:8])[0]
        foreign = bytearray(good)
        foreign[page(3)] = other[other_start + 4096 * 3 : other_start + 4096 * 4]
        refused("page 3: of another table", bytes(foreign))
        zeros = bytearray(good)
        zeros[page(3)] = bytes(4096)
        refused("page 3: of another table", bytes(zeros))
        path.write_bytes(good.replace(b'"engram.version": "1"', b'"engram.version": "2"'))
        self.expect_refused("expected paged-table version 1", "inspect", theirs)
        path.write_bytes(good.replace(b'"engram.layer_id": "1"', b'"engram.layer_id": "2"'))
        self.expect_refused("is of another table", "inspect", theirs)
        path.write_bytes(good)
        engram(*lookup)

    def test_layers_can_be_converted_apart(self):
        apart = self.root / "apart"
        apart.mkdir()
        for layer in LAYERS:
            one = self.convert("paged", "--layers", str(layer))
            self.assertFalse((one / "model.safetensors.index.json").exists())
            for path in one.iterdir():
                shutil.copy(path, apart)
        engram("compare", self.base, apart, "--exact", "--all")
        self.expect_refused("leave --layers out", "convert", self.base, self.root / "x", "--to", "row264", "--layers", 1)
        self.expect_refused("layer", "convert", self.base, self.root / "x", "--to", "fp8", "--layers", 2)

    def test_compare_names_what_it_sees(self):
        source = self.convert("mxfp4")
        wrong = self.root / "wrong"
        shutil.copytree(source, wrong)
        path = wrong / "model-00001-of-00002.safetensors"
        data = bytearray(path.read_bytes())
        start = 8 + struct.unpack("<Q", data[:8])[0]
        size = len(self.codes[1]) * 128
        codes = np.frombuffer(bytes(data[start : start + size]), np.uint8)
        data[start : start + size] = (codes << 4 | codes >> 4).tobytes()
        path.write_bytes(data)
        done = engram("compare", source, wrong, "--max-rel-l2", 0.2, check=False)
        self.assertIn("pairs swapped", done.stdout)
        self.assertEqual(done.returncode, 1)
        self.assertIn("relative L2 at most: expected 0.2", done.stderr)
        data[start : start + size] = codes.tobytes()
        scales = np.frombuffer(bytes(data[start + size : start + size + len(self.codes[1]) * 8]), np.uint8)
        path.write_bytes(data[: start + size] + np.roll(scales, 1).tobytes() + data[start + size + scales.nbytes :])
        self.assertIn("scales shifted", engram("compare", source, wrong))
        path.write_bytes(data[: start + size] + (scales + 1).tobytes() + data[start + size + scales.nbytes :])
        self.assertIn("scaled: every value of B is A's divided by 0.5", engram("compare", source, wrong))
        table = json.loads(engram("compare", self.base, source, "--all", "--json").splitlines()[0])
        values = self.values[1].astype(np.float64)
        codes, scale = mxfp4_reference(self.values[1])
        grid = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])
        found = grid[np.stack([codes & 15, codes >> 4], axis=2).reshape(-1, 256)] * np.repeat(np.exp2(scale - 127.0), 32, axis=1)
        self.assertAlmostEqual(table["relative_l2"], np.linalg.norm(found - values) / np.linalg.norm(values), 7)
        cosine = (found * values).sum(1) / np.linalg.norm(found, axis=1) / np.linalg.norm(values, axis=1)
        self.assertAlmostEqual(table["cosine"], cosine.mean(), 7)
        self.assertAlmostEqual(table["worst_cosine"], cosine.min(), 7)
        self.assertAlmostEqual(table["max_abs"], np.abs(found - values).max(), 7)
        self.assertAlmostEqual(table["exact_share"], (found == values).mean(), 7)
        self.assertEqual(sum(table["scales_a"].values()), 8 * len(values))
        self.assertEqual([c["rows"] for c in table["columns"]], reference.Model(self.base).primes[1])

    def test_shards(self):
        model = reference.Model(self.base)
        for by in ("rows", "heads", "strided"):
            for world in (1, 3, 5, 32):
                path = self.root / f"shards-{by}-{world}"
                engram("shard", self.base, path, "--model-parallel", world, "--by", by, "--tables-only")
                for layer in LAYERS:
                    seen = np.zeros(len(self.codes[layer]), int)
                    for rank in range(world):
                        directory = path / f"rank-{rank:05}"
                        manifest = json.loads((directory / "engram-shard.json").read_text())
                        held = next(l for l in manifest["layers"] if l["layer"] == layer)["held"]
                        ids = np.concatenate([np.arange(a, b) for a, b in held] or [np.arange(0)]).astype(int)
                        seen[ids] += 1
                        np.testing.assert_array_equal(self.part(directory, layer, "embed.weight")[1].reshape(-1, 256), self.codes[layer][ids])
                        np.testing.assert_array_equal(self.part(directory, layer, "embed.scale")[1].reshape(-1, 8), self.scales[layer][ids])
                        if by == "strided":
                            columns = range(rank, 24, world)
                            expected = [np.arange(o, o + p) for c in columns for o, p in [(model.offsets[layer][c], model.primes[layer][c])]]
                            np.testing.assert_array_equal(ids, np.concatenate(expected or [np.arange(0)]))
                    np.testing.assert_array_equal(seen, 1)
        # A shard serves its rows by their global ids, and no other.
        directory = self.root / "shards-heads-3" / "rank-00001"
        begin, end = json.loads((directory / "engram-shard.json").read_text())["layers"][0]["held"][0]
        for tier in ("mmap", "ram"):
            out = self.root / "o.npy"
            engram("lookup", directory, "--layer", 1, "--rows", f"{begin},{end - 1}", "--output", out, "--tier", tier)
            np.testing.assert_array_equal(np.load(out), self.values[1][[begin, end - 1]])
            for row in (0, begin - 1, end):
                self.expect_refused(f"{row} is in the table, but not in this shard of it", "lookup", directory,
                                    "--layer", 1, "--rows", row, "--output", out, "--tier", tier)
        manifest = directory / "engram-shard.json"
        text = manifest.read_text()
        manifest.write_text(text.replace(f"[{begin}, {end}]", f"[{begin}, {end - 1}]"))
        self.expect_refused("rows are held, the tensor has", "inspect", directory)
        manifest.write_text(text.replace('"rank": 1', '"rank": 3'))
        self.expect_refused("rank 3 of 3", "inspect", directory)
        self.expect_refused("is a shard already", "shard", self.root / "shards-rows-1" / "rank-00000", self.root / "x", "--model-parallel", 2)

    def test_rotation(self):
        random_ = np.random.default_rng(2)
        block, _ = np.linalg.qr(random_.standard_normal((32, 32)))
        for name, matrix in (("blocks", np.kron(np.eye(2), block)), ("whole", np.linalg.qr(random_.standard_normal((64, 64)))[0])):
            matrix = matrix.astype(np.float32)
            path = self.root / f"quarot-{name}.safetensors"
            write_safetensors(path, {"global_rotation": ("F32", matrix, [64, 64])}, {}, 8)
            rotated = self.root / f"rotated-{name}"
            engram("rotate", self.base, rotated, "--rotation", path)
            hidden = random_.standard_normal((12, 2, 64)).astype(np.float32)
            ids = ",".join(str(v) for v in random_.integers(3, 900, 12))
            outs = []
            for model, stream in ((self.base, hidden), (rotated, (hidden @ matrix).astype(np.float32))):
                np.save(self.root / "h.npy", stream)
                engram("apply", model, "--layer", 14, "--ids", ids, "--hidden", self.root / "h.npy",
                       "--output", self.root / "o.npy", "--no-round")
                outs.append(np.load(self.root / "o.npy"))
            # The value rows are rounded to bfloat16 (2^-9 relative); nothing else differs.
            update = np.abs(outs[0] - hidden).max()
            np.testing.assert_allclose(outs[1], outs[0] @ matrix, atol=0.02 * update + 1e-5)
            self.assertGreater(np.abs(outs[1] - hidden @ matrix).max(), 0.2 * update)
            engram("compare", self.base, rotated, "--exact", "--all")
            self.expect_refused("rotated already", "rotate", rotated, self.root / "x", "--rotation", path)
            config = rotated / "config.json"
            config.write_text(config.read_text().replace("quarot_global", "other"))
            self.expect_refused("engram_rotation_config", "inspect", rotated)
        write_safetensors(path, {"global_rotation": ("F32", 2 * matrix, [64, 64])}, {}, 8)
        self.expect_refused("not orthogonal", "rotate", self.base, self.root / "x", "--rotation", path)

    def test_verify(self):
        model = self.root / "verified"
        shutil.copytree(self.base, model)
        self.expect_refused("nothing to verify against", "verify", model)
        sums = "".join(f"{value}  {name}\n" for name, value in tree(model).items())
        (model / "SHA256SUMS").write_text(sums)
        self.assertIn("against SHA256SUMS", engram("verify", model))
        engram("manifest", model)
        self.assertIn("against engram-manifest.json", engram("verify", model))
        self.assertIn("nothing about accuracy", engram("verify", model))
        shard = model / "model-00002-of-00002.safetensors"
        good = shard.read_bytes()
        shard.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        self.expect_refused("model-00002-of-00002.safetensors: expected SHA-256", "verify", model)
        shard.write_bytes(good[:-1])
        self.expect_refused(f"expected {len(good)} bytes, found {len(good) - 1}", "verify", model)
        shard.unlink()
        self.expect_refused("cannot open", "verify", model)
        shard.write_bytes(good)
        (model / "more.txt").write_text("x")
        self.expect_refused("more.txt: not in engram-manifest.json", "verify", model)
        # A Hugging Face cache: links to blobs named by their digests.
        cache = self.root / "cache"
        (cache / "blobs").mkdir(parents=True)
        (cache / "snapshot").mkdir()
        blob = cache / "blobs" / hashlib.sha256(good).hexdigest()
        blob.write_bytes(good)
        (cache / "snapshot" / shard.name).symlink_to(f"../blobs/{blob.name}")
        self.assertIn("against blob names", engram("verify", cache / "snapshot"))
        blob.write_bytes(good + b"x")  # faults I16: a complete blob that grew
        self.expect_refused("expected SHA-256", "verify", cache / "snapshot")

    def test_destinations_are_guarded(self):
        target = self.root / "guarded"
        target.mkdir()
        (target / "something").write_text("")
        self.expect_refused("refusing to overwrite", "convert", self.base, target, "--to", "bf16")
        self.expect_refused("expected one of fp8", "convert", self.base, self.root / "x", "--to", "nf4")
        self.expect_refused("can be read, not written", "convert", self.base, self.root / "x", "--to", "paged:q4_k")
        self.expect_refused("nothing to resume", "convert", self.base, self.root / "x", "--to", "bf16", "--resume")
        with open(self.root / "busy.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.expect_refused("another job is writing it", "convert", self.base, self.root / "busy", "--to", "bf16")
        engram("convert", self.base, self.root / "busy", "--to", "bf16")
        leftovers = [p.name for p in self.root.iterdir() if p.name.endswith((".partial", ".lock"))]
        self.assertEqual(leftovers, [])

    def test_nan_rows_are_refused(self):
        bad = self.root / "nan"
        shutil.copytree(self.base, bad)
        path = bad / "model-00002-of-00002.safetensors"
        data = bytearray(path.read_bytes())
        data[8 + struct.unpack("<Q", data[:8])[0] + 700 * 256 + 5] = 0xFF
        path.write_bytes(data)
        for target in ("fp8", "paged", "bf16", "mxfp4", "row264"):
            self.expect_refused("layer 14: row 700 holds a NaN", "convert", bad, self.root / "x", "--to", target)
            shutil.rmtree(self.root / "x.partial")
        self.expect_refused("layer 14: row 700 holds a NaN", "check", bad, "--level", "full")
        self.assertFalse((self.root / "x").exists())
        (self.root / "x.lock").unlink()

    def test_killed_conversions_leave_nothing_wrong(self):
        source = self.root / "large"
        engram("make-model", source, "--tokenizer", DEMO_TOKENIZER, "--engram-vocab", 9000, "--hidden", 64, "--copies", 2)
        options = ("--to", "paged:bf16", "--rows-per-chunk", "3000", "--threads", "2")
        started = time.monotonic()
        engram("convert", source, self.root / "whole", *options)
        duration = time.monotonic() - started
        whole = tree(self.root / "whole")
        target, partial = self.root / "killed", self.root / "killed.partial"
        source_random = random.Random(1)
        resumed = completed = 0
        for i in range(KILLS):
            resume = partial.exists() and source_random.random() < 0.7
            process = subprocess.Popen([ENGRAM, "convert", str(source), str(target), *options, *(["--resume"] if resume else [])],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            resumed += resume
            time.sleep(source_random.random() * duration * 1.1)
            process.send_signal(signal.SIGKILL)
            _, errors = process.communicate()
            self.assertIn(process.returncode, (0, -signal.SIGKILL), errors)
            if target.exists():  # published: then it is whole, whenever the kill came
                self.assertEqual(tree(target), whole)
                shutil.rmtree(target)
                completed += 1
            elif partial.exists():
                # Whatever file is there under its final name: complete and right, or refused.
                view = self.root / "view"
                shutil.rmtree(view, ignore_errors=True)
                view.mkdir()
                for name in ("config.json", "tokenizer.json"):
                    shutil.copy(source / name, view)
                for path in partial.glob("*.safetensors"):
                    os.link(path, view / path.name)
                accepted = engram("check", view, "--level", "full", check=False).returncode == 0
                if accepted:
                    engram("compare", source, view, "--exact", "--all")
        if partial.exists():
            engram("convert", source, target, *options, "--resume")
            self.assertEqual(tree(target), whole)
        print(f"{KILLS} kills: {resumed} resumed, {completed} complete before the kill", file=sys.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
