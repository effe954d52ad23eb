"""The whole path again, in NumPy and plain Python, from the published description.

Nothing here comes from the library under test: the token map is folded by the `tokenizers`
package, multipliers are drawn by NumPy itself, rows are decoded by the definition of their format,
and the gate is computed in binary64.
"""

import json
import pathlib
import struct

import numpy as np

DEAD = -1


def token_map(tokenizer_path):
    """Compressed id of every token id, through the tokenizers package's own normalizers."""
    from tokenizers import Regex, Tokenizer, normalizers

    tokenizer = Tokenizer.from_file(str(tokenizer_path))
    sentinel = "\ue000"
    fold = normalizers.Sequence(
        [
            normalizers.NFKC(),
            normalizers.NFD(),
            normalizers.StripAccents(),
            normalizers.Lowercase(),
            normalizers.Replace(Regex(r"[ \t\r\n]+"), " "),
            normalizers.Replace(Regex(r"^ $"), sentinel),
            normalizers.Strip(),
            normalizers.Replace(sentinel, " "),
        ]
    )
    seen = {}
    compressed = []
    for token_id in range(tokenizer.get_vocab_size(with_added_tokens=True)):
        text = tokenizer.decode([token_id], skip_special_tokens=False)
        if "\ufffd" in text:
            key = tokenizer.id_to_token(token_id)
        else:
            key = fold.normalize_str(text) or text
        compressed.append(seen.setdefault(key, len(seen)))
    return np.array(compressed, dtype=np.int32)


def is_prime(n):
    if n < 2:
        return False
    divisor = 2
    while divisor * divisor <= n:
        if n % divisor == 0:
            return False
        divisor += 1
    return True


class Files:
    """The tensors of a model directory, read with json and struct."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        index = json.loads((self.directory / "model.safetensors.index.json").read_text())
        self.weight_map = index["weight_map"]

    def tensor(self, name):
        """(dtype, shape, file path, offset) of a tensor."""
        path = self.directory / self.weight_map[name]
        with open(path, "rb") as file:
            (size,) = struct.unpack("<Q", file.read(8))
            info = json.loads(file.read(size))[name]
        return info["dtype"], info["shape"], path, 8 + size + info["data_offsets"][0]

    def bytes_of(self, name, row=None):
        dtype, shape, path, offset = self.tensor(name)
        row_bytes = shape[1] * (2 if dtype == "BF16" else 1)
        with open(path, "rb") as file:
            file.seek(offset + (row or 0) * row_bytes)
            data = file.read(row_bytes * (shape[0] if row is None else 1))
        return np.frombuffer(data, dtype=np.uint8), dtype, shape

    def row(self, layer, row):
        """One decoded row as float32."""
        codes, dtype, _ = self.bytes_of(f"layers.{layer}.engram.embed.weight", row)
        if dtype == "BF16":
            return bfloat16_values(codes)
        scales, _, _ = self.bytes_of(f"layers.{layer}.engram.embed.scale", row)
        return (e4m3(codes) * np.repeat(e8m0(scales), 32)).astype(np.float32)

    def lookup(self, layer, rows):
        return np.array([[self.row(layer, r) for r in token] for token in rows])


class Model(Files):
    """A model directory: its tensors, and what follows from its config and tokenizer."""

    def __init__(self, directory):
        super().__init__(directory)
        config = json.loads((self.directory / "config.json").read_text())
        config = config.get("text_config", config)
        self.layers = config["engram_layer_ids"]
        self.orders = config["engram_max_ngram_size"] - 1
        self.heads = config["engram_n_heads"]
        self.head_dim = config["engram_head_dim"]
        self.copies = config["hc_mult"]
        self.hidden = config["hidden_size"]
        self.eps = config["rms_norm_eps"]
        self.map = token_map(self.directory / "tokenizer.json")
        self.pad = int(self.map[config["engram_pad_token_id"]])
        self._constants(config["engram_vocab_size"], config["engram_compressed_vocab_size"])

    def _constants(self, first, compressed_size):
        bound = max(1, ((2**63 - 1) // compressed_size) // 2)
        self.primes, self.offsets, self.multipliers = {}, {}, {}
        candidate = first - 1
        for layer in self.layers:
            generator = np.random.default_rng(10007 * layer)
            draws = generator.integers(0, bound, size=self.orders + 1, dtype=np.int64)
            self.multipliers[layer] = [2 * int(draw) + 1 for draw in draws]
            primes = []
            for _ in range(self.orders * self.heads):
                candidate += 1
                while not is_prime(candidate):
                    candidate += 1
                primes.append(candidate)
            self.primes[layer] = primes
            self.offsets[layer] = [sum(primes[:i]) for i in range(len(primes))]

    def hash(self, tokens, mask=None):
        """compressed [tokens], keys and rows by layer, in Python integers."""
        alive = mask if mask is not None else [1] * len(tokens)
        ids = [int(self.map[t]) if m else DEAD for t, m in zip(tokens, alive)]
        keys, rows = {}, {}
        for layer in self.layers:
            keys[layer], rows[layer] = [], []
            for position in range(len(ids)):
                blocked = False
                rolling, key_row, row = 0, [], []
                for distance in range(self.orders + 1):
                    at = position - distance
                    blocked = blocked or at < 0 or ids[at] == DEAD
                    value = self.pad if blocked else ids[at]
                    rolling ^= value * self.multipliers[layer][distance]
                    if distance == 0:
                        continue
                    key_row.append(rolling)
                    for head in range(self.heads):
                        column = (distance - 1) * self.heads + head
                        row.append(
                            rolling % self.primes[layer][column] + self.offsets[layer][column]
                        )
                keys[layer].append(key_row)
                rows[layer].append(row)
        return ids, keys, rows

    def apply(self, layer, embedding, hidden, mask=None, rounded=True):
        """The gate in binary64; kv and the stream rounded to bfloat16 where `rounded`."""
        name = f"layers.{layer}.engram."
        codes, dtype, shape = self.bytes_of(name + "wkv.weight")
        if dtype == "BF16":
            weight = bfloat16_values(codes).reshape(shape).astype(np.float64)
        else:
            scales, _, _ = self.bytes_of(name + "wkv.scale")
            tiles = e8m0(scales).reshape(-1, shape[1] // 32)
            weight = e4m3(codes).reshape(shape)
            weight = weight * np.repeat(np.repeat(tiles, 32, axis=0)[: shape[0]], 32, axis=1)
        kv = embedding.reshape(len(hidden), -1).astype(np.float64) @ weight.T
        if rounded:
            kv = round_bfloat16(kv.astype(np.float32)).astype(np.float64)
        split = self.copies * self.hidden
        key = kv[:, :split].reshape(-1, self.copies, self.hidden)
        value = kv[:, None, split:]
        norms = [
            bfloat16_values(self.bytes_of(name + part)[0]).reshape(self.copies, self.hidden)
            for part in ("q_weight", "k_weight")
        ]
        stream = hidden.astype(np.float64)
        weight = norms[0].astype(np.float64) * norms[1]
        rstd = 1 / np.sqrt((stream**2).mean(-1) + self.eps)
        rstd = rstd / np.sqrt((key**2).mean(-1) + self.eps)
        dot = (stream * weight * key).sum(-1) * rstd * self.hidden**-0.5
        gate = 1 / (1 + np.exp(-np.copysign(np.sqrt(np.maximum(np.abs(dot), 1e-6)), dot)))
        out = (stream + gate[..., None] * value).astype(np.float32)
        out = round_bfloat16(out) if rounded else out
        if mask is not None:
            out = np.where(np.array(mask)[:, None, None] != 0, out, hidden)
        return out


def e4m3(codes):
    """Float64 values of E4M3FN codes."""
    codes = codes.astype(np.int64)
    exponent, mantissa = codes >> 3 & 15, codes & 7
    magnitude = np.where(
        exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * np.exp2(exponent - 10.0)
    )
    magnitude = np.where(codes & 127 == 127, np.nan, magnitude)
    return np.where(codes & 128, -magnitude, magnitude)


def e8m0(scales):
    values = np.exp2(scales.astype(np.float64) - 127)
    return np.where(scales == 255, np.nan, values)


def bfloat16_values(data):
    return (data.view("<u2").astype(np.uint32) << 16).view(np.float32)


def round_bfloat16(values):
    bits = values.view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))
    return (rounded & np.uint32(0xFFFF0000)).view(np.float32)
