"""Gate values over a sentence: trace.py [MODEL] [--png FILE]

How far each residual copy opens to the memory at every token, in every Engram layer: printed, and
drawn with matplotlib where --png is given. The stream around it is random, as no backbone is here.
"""

import argparse
import pathlib
import tempfile

import numpy as np

import libengram

TEXT = "Ada Lovelace wrote the first program for Charles Babbage's Analytical Engine."
TOKENIZER = pathlib.Path(__file__).resolve().parents[2] / "data" / "demo-tokenizer.json"


def trace(path: pathlib.Path, tokenizer_path: pathlib.Path):
    """(texts of tokens, {layer: gates [tokens, copies]})."""
    tokenizer = libengram.Tokenizer.from_file(tokenizer_path)
    tokens = tokenizer.encode(TEXT)
    texts = [tokenizer.decode(int(token)).decode(errors="replace") for token in tokens]
    with libengram.Model.open(path) as model:
        session = model.session()
        session.advance(tokens)
        session.prefetch()
        shape = (len(tokens), model.copies, model.hidden_dim)
        hidden = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        gates = {}
        for layer in model.layer_ids:
            gates[layer] = np.empty(shape[:2], np.float32)
            session.apply(layer, hidden, gates=gates[layer])
        return texts, gates


def draw(texts, gates, png: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(len(gates), 1, figsize=(12, 2 + 1.5 * len(gates)), sharex=True)
    for axis, (layer, values) in zip(np.atleast_1d(axes), gates.items()):
        image = axis.imshow(values.T, aspect="auto", vmin=0, vmax=1, cmap="viridis")
        axis.set_ylabel(f"layer {layer}\ncopy")
        figure.colorbar(image, ax=axis, label="gate")
    axis.set_xticks(range(len(texts)), texts, rotation=90)
    figure.tight_layout()
    figure.savefig(png, dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", nargs="?", type=pathlib.Path)
    parser.add_argument("--png")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        path, tokenizer = options.model, None
        if path is None:
            path, tokenizer = pathlib.Path(directory) / "model", TOKENIZER
            libengram.make_model(path, tokenizer=TOKENIZER)
        texts, gates = trace(path, tokenizer or path / "tokenizer.json")
    for i, text in enumerate(texts):
        values = "   ".join(" ".join(f"{gate:.3f}" for gate in gates[layer][i]) for layer in gates)
        print(f"{text!r:>20}  {values}")
    if options.png:
        draw(texts, gates, options.png)


if __name__ == "__main__":
    main()
