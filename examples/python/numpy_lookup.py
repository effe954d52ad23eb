"""Rows of a sentence with NumPy: numpy_lookup.py [MODEL]

Without a model it makes a procedural one. Shows the three ways in (text, keys, row ids), and that a
stored row's bytes decode to what the library gives.
"""

import pathlib
import sys
import tempfile

import numpy as np

import libengram

TEXT = "The quick brown fox jumps over the lazy dog."
TOKENIZER = pathlib.Path(__file__).resolve().parents[2] / "data" / "demo-tokenizer.json"


def decode_fp8(raw: np.ndarray) -> np.ndarray:
    """256 E4M3 codes, then 8 power-of-two scales for 32 columns each."""
    codes, scales = raw[..., :256].astype(np.int32), raw[..., 256:]
    exponent, mantissa = codes >> 3 & 15, codes & 7
    magnitude = np.where(exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * 2.0 ** (exponent - 10))
    sign = np.where(codes & 128, -1.0, 1.0)
    return sign * magnitude * np.repeat(2.0 ** (scales.astype(np.int32) - 127), 32, axis=-1)


def show(path: pathlib.Path, tokenizer: pathlib.Path) -> None:
    tokens = libengram.Tokenizer.from_file(tokenizer).encode(TEXT)
    with libengram.Model.open(path, load="rows") as model:
        layer = model.layer_ids[0]
        keys = model.hasher.hash(tokens)  # [layers, tokens, orders]
        rows = model.hasher.rows(layer, keys[0])  # [tokens, columns]
        values = model.lookup(layer, keys=keys[0], dtype="f32")  # [tokens, columns, head_dim]
        assert np.array_equal(values, model.lookup(layer, rows=rows, dtype="f32"))
        print(f"{len(tokens)} tokens, layer {layer}: keys {keys[0].shape}, rows {values.shape}")
        print(f"token 3: rows {rows[3, :4]} ..., values {values[3, 0, :4]} ...")

        staging = np.empty((len(tokens), model.columns, model.head_dim), np.uint16)  # bfloat16 bits
        model.lookup(layer, rows=rows, out=staging)  # no allocation from the second call on

        raw = model.lookup(layer, rows=rows, dtype="raw")
        if raw.shape[-1] == 264:
            assert np.array_equal(decode_fp8(raw), values)
            print("stored bytes decode to the same values")


def main() -> None:
    if len(sys.argv) > 1:
        path = pathlib.Path(sys.argv[1])
        return show(path, path / "tokenizer.json")
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "model"
        libengram.make_model(path, tokenizer=TOKENIZER)
        show(path, TOKENIZER)


if __name__ == "__main__":
    main()
