#!/usr/bin/env python3
"""Compares the command line with reference.py: compare.py ENGRAM DEMO_TOKENIZER SHARED_DIR

Exits 77 with a reason where NumPy or tokenizers is not installed.
"""

import hashlib
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy as np
    import tokenizers

    import reference
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

ENGRAM, DEMO_TOKENIZER, SHARED = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
STAND_IN = SHARED / "data" / "v41-stand-in-tokenizer.json"


def engram(*arguments, check=True):
    done = subprocess.run([ENGRAM, *map(str, arguments)], capture_output=True, text=True)
    if check and done.returncode != 0:
        raise AssertionError(f"engram {arguments}: {done.stderr}")
    return done.stdout if check else done


def mixed_text(characters, seed):
    """Prose, code, Chinese, emoji, digits, white space and rare code points."""
    source = random.Random(seed)
    here = pathlib.Path(__file__).resolve()
    root = here.parent.parent.parent
    texts = [path.read_text() for path in (root / "data" / "demo-text.txt", here, root / "README.md")]
    pieces = []
    while sum(map(len, pieces)) < characters:
        kind = source.randrange(6)
        if kind < 3:
            text = source.choice(texts)
            start = source.randrange(len(text))
            pieces.append(text[start : start + source.randrange(400)])
        elif kind == 3:
            pieces.append("".join(chr(source.randrange(0x4E00, 0x9FA6)) for _ in range(20)))
        elif kind == 4:
            pieces.append("".join(chr(source.randrange(0x1F300, 0x1F700)) for _ in range(5)))
        else:
            pieces.append(
                "".join(
                    source.choice([" ", "  ", "\n", "\r\n", "\t", "\v", "\u00a0", "\u3000", "1234567",
                                   "e\u0301", "\u0939\u093f", "\U000e0041", "'s", "--", "\x00"])
                    for _ in range(12)
                )
            )
    return "".join(pieces)


class TokenMaps(unittest.TestCase):
    def expect_equal(self, tokenizer):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "map"
            shown = json.loads(engram("token-map", tokenizer, "--output", path, "--json"))
            ours = np.fromfile(path, dtype="<i4")
        theirs = reference.token_map(tokenizer)
        np.testing.assert_array_equal(ours, theirs)
        self.assertEqual(shown["sha256"], hashlib.sha256(theirs.astype("<i4").tobytes()).hexdigest())
        self.assertEqual(shown["compressed_size"], int(theirs.max()) + 1)

    def test_demo(self):
        self.expect_equal(DEMO_TOKENIZER)

    def test_stand_in(self):
        if not STAND_IN.exists():
            self.skipTest(f"no {STAND_IN}")
        self.expect_equal(STAND_IN)

    def test_every_code_point(self):
        """A vocabulary of all of Unicode, so that the fold itself is compared everywhere."""
        code_points = [c for c in range(0x110000) if not 0xD800 <= c <= 0xDFFF]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "tokenizer.json"
            # A leading letter and a trailing one, so that white space inside shows too.
            tokens = [chr(c) for c in code_points] + [f"x{chr(c)}Y" for c in code_points]
            vocab = {token: i for i, token in enumerate(tokens)}
            model = {"type": "WordLevel", "vocab": vocab, "unk_token": "x"}
            path.write_text(json.dumps({"version": "1.0", "model": model, "added_tokens": []}))
            self.expect_equal(path)


class Tokenization(unittest.TestCase):
    def expect_equal(self, tokenizer, data):
        theirs = tokenizers.Tokenizer.from_file(str(tokenizer))
        with tempfile.TemporaryDirectory() as folder:
            model = pathlib.Path(folder) / "m"
            model.mkdir()
            (model / "tokenizer.json").write_bytes(pathlib.Path(tokenizer).read_bytes())
            config = {
                "engram_layer_ids": [1], "engram_max_ngram_size": 2, "engram_n_heads": 1,
                "engram_head_dim": 32, "engram_vocab_size": 16_000_000, "engram_pad_id": 2,
                "engram_compressed_vocab_size": int(reference.token_map(tokenizer).max()) + 1,
                "vocab_size": theirs.get_vocab_size(), "dim": 32, "hc_mult": 1, "norm_eps": 1e-20,
            }
            (model / "config.json").write_text(json.dumps(config))
            step = 50_000  # below what the system takes as one argument
            for start in range(0, len(data), step):
                part = data[start : start + step].replace(b"\0", b"")
                done = subprocess.run(
                    [ENGRAM.encode(), b"hash", str(model).encode(), b"--json", b"--text", part],
                    capture_output=True,
                )
                self.assertEqual(done.returncode, 0, done.stderr)
                text = part.decode("utf-8", errors="replace")
                expected = theirs.encode(text, add_special_tokens=False).ids
                self.assertEqual(json.loads(done.stdout)["tokens"], expected)

    def test_demo(self):
        self.expect_equal(DEMO_TOKENIZER, mixed_text(200_000, 1).encode())

    def test_stand_in(self):
        if not STAND_IN.exists():
            self.skipTest(f"no {STAND_IN}")
        text = mixed_text(1_500_000, 2).encode()
        special = "<\uff5cbegin\u2581of\u2581sentence\uff5c>a<\uff5c".encode()
        broken = bytes(random.Random(3).randrange(1, 256) for _ in range(100_000))
        self.expect_equal(STAND_IN, text + special * 20 + broken)


class WholePath(unittest.TestCase):
    """hash, lookup and apply of a small model, for FP8 and BF16 and every option."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.folder.name)
        cls.models = {}
        for name, options in {"fp8": [], "bf16": ["--bf16"]}.items():
            directory = cls.path / name
            engram("make-model", directory, "--tokenizer", DEMO_TOKENIZER, "--engram-vocab", 500,
                   "--hidden", 64, "--copies", 3, "--seed", 7, "--layers", "1,14", *options)
            cls.models[name] = reference.Model(directory)
        source = random.Random(4)
        cls.tokens = [source.randrange(40) for _ in range(45)]
        cls.mask = [0 if 10 <= i < 14 or i == 30 else 1 for i in range(45)]

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def arguments(self, masked, chunk=0):
        result = ["--ids", ",".join(map(str, self.tokens))]
        if masked:
            result += ["--mask", ",".join(map(str, self.mask))]
        return result + (["--chunk", chunk] if chunk else [])

    def test_hash(self):
        model = self.models["fp8"]
        for masked in (False, True):
            ids, keys, rows = model.hash(self.tokens, self.mask if masked else None)
            for chunk in (0, 1, 2, 7):
                found = json.loads(
                    engram("hash", model.directory, "--json", *self.arguments(masked, chunk))
                )
                self.assertEqual(found["compressed"], ids)
                for layer in found["layers"]:
                    self.assertEqual([list(map(int, k)) for k in layer["keys"]], keys[layer["layer"]])
                    self.assertEqual(layer["rows"], rows[layer["layer"]])

    def test_lookup(self):
        for model in self.models.values():
            for layer in model.layers:
                _, _, rows = model.hash(self.tokens, self.mask)
                expected = model.lookup(layer, rows[layer])
                for tier in ("mmap", "ram"):
                    for kind in ("f32", "bf16", "raw"):
                        out = self.path / "o.npy"
                        engram("lookup", model.directory, *self.arguments(True, 8), "--layer", layer,
                               "--output", out, "--format", kind, "--tier", tier)
                        found = np.load(out)
                        if kind == "f32":
                            np.testing.assert_array_equal(found, expected)
                        elif kind == "bf16":
                            bits = expected.view(np.uint32) >> 16
                            np.testing.assert_array_equal(found, bits.astype(np.uint16))
                        else:
                            self.expect_raw(model, layer, rows[layer], found)

    def expect_raw(self, model, layer, rows, found):
        for token in (0, 17, 44):
            for column in (0, 9, 23):
                row = rows[token][column]
                stored = model.bytes_of(f"layers.{layer}.engram.embed.weight", row)[0]
                if found.shape[2] == 264:
                    scale = model.bytes_of(f"layers.{layer}.engram.embed.scale", row)[0]
                    stored = np.concatenate([stored, scale])
                np.testing.assert_array_equal(found[token, column], stored)

    def test_lookup_by_row(self):
        model = self.models["fp8"]
        rows = [0, 5, 5, 12_000, 3]
        out = self.path / "r.npy"
        engram("lookup", model.directory, "--layer", 14, "--rows", ",".join(map(str, rows)),
               "--output", out)
        np.testing.assert_array_equal(np.load(out), np.array([model.row(14, r) for r in rows]))

    def test_apply(self):
        generator = np.random.default_rng(5)
        for model in self.models.values():
            hidden = generator.normal(size=(45, 3, 64)).astype(np.float32)
            for layer in model.layers:
                _, _, rows = model.hash(self.tokens, self.mask)
                embedding = model.lookup(layer, rows[layer])
                for rounded in (True, False):
                    expected = model.apply(layer, embedding, hidden, self.mask, rounded)
                    found = self.run_apply(model, layer, hidden, rounded)
                    np.testing.assert_array_equal(found[10], hidden[10])  # masked: untouched
                    self.assertLess(np.abs(found - expected).max(), 2e-2 if rounded else 2e-4)
                    if rounded:
                        np.testing.assert_array_equal(found[0], reference.round_bfloat16(found[0]))
                        self.assertGreater((found == expected).mean(), 0.98)

    def run_apply(self, model, layer, hidden, rounded, chunk=0):
        source, out = self.path / "h.npy", self.path / "a.npy"
        np.save(source, hidden)
        engram("apply", model.directory, *self.arguments(True, chunk), "--layer", layer, "--hidden",
               source, "--output", out, *([] if rounded else ["--no-round"]))
        found = np.load(out)
        self.assertEqual(found.dtype, hidden.dtype)
        return found

    def test_apply_takes_bfloat16_bits_and_any_chunking(self):
        model = self.models["fp8"]
        hidden = np.random.default_rng(6).normal(size=(45, 3, 64)).astype(np.float32)
        bits = (reference.round_bfloat16(hidden).view(np.uint32) >> 16).astype(np.uint16)
        whole = self.run_apply(model, 1, bits, True)
        wide = self.run_apply(model, 1, (bits.astype(np.uint32) << 16).view(np.float32), True)
        np.testing.assert_array_equal(whole.astype(np.uint32) << 16, wide.view(np.uint32))
        np.testing.assert_array_equal(self.run_apply(model, 1, bits, True, chunk=1), whole)


class FullSize(unittest.TestCase):
    """The released geometry as a sparse file: real offsets, procedural rows."""

    def test_sparse_model(self):
        if not STAND_IN.exists():
            self.skipTest(f"no {STAND_IN}")
        golden = json.loads((pathlib.Path(__file__).parent.parent / "golden/golden.json").read_text())
        vector = next(v for v in golden["vectors"] if v["id"] == "run37-derived")
        ids, expect = vector["inputs"]["ids"], vector["expect"]
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "ids").write_text(" ".join(map(str, ids)))
            model = folder / "model"
            engram("make-model", model, "--tokenizer", STAND_IN, "--engram-vocab", 16_000_000,
                   "--hidden", 64, "--sparse", "--rows-for-ids-file", folder / "ids", "--seed", 11)
            found = json.loads(engram("hash", model, "--ids-file", folder / "ids", "--json"))
            rows = {layer["layer"]: layer["rows"] for layer in found["layers"]}
            digest = hashlib.sha256()
            for position in range(len(ids)):
                for layer in (1, 14):
                    digest.update(np.array(rows[layer][position], dtype="<i8").tobytes())
            self.assertEqual(digest.hexdigest(), expect["sha256_int64_le_[37,2,24]"])
            self.assertEqual(rows[1][0], expect["first_layer1"])
            self.assertEqual(rows[14][-1], expect["last_layer14"])
            self.assertGreater(max(map(max, rows[1])), 268_435_456)
            for layer in (1, 14):
                engram("lookup", model, "--ids-file", folder / "ids", "--layer", layer, "--output",
                       folder / "o.npy", "--format", "raw", "--nan", "reject")
                raw = np.load(folder / "o.npy")
                for position in range(0, len(ids), 6):
                    for column in range(24):
                        expected = procedural_row(11, layer, rows[layer][position][column])
                        self.assertEqual(raw[position, column].tobytes(), expected)


def procedural_row(seed, layer, row):
    """The documented rule of make-model."""
    wrap = (1 << 64) - 1

    def mix(z):
        z ^= z >> 30
        z = z * 0xBF58476D1CE4E5B9 & wrap
        z ^= z >> 27
        z = z * 0x94D049BB133111EB & wrap
        return z ^ z >> 31

    state = mix(seed + layer * 2**32 + row & wrap)
    words = []
    for _ in range(33):
        state = state + 0x9E3779B97F4A7C15 & wrap
        words.append(mix(state).to_bytes(8, "little"))
    codes = bytes(c ^ 1 if c & 0x7F == 0x7F else c for c in b"".join(words[:32]))
    return codes + bytes(0x76 + b % 3 for b in words[32])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
