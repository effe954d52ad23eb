"""What a call from Python costs above the library's own work: python_bench.py [MODEL]

The overhead of a call is that of the same call with nothing to do (no rows, no tokens): argument
checks, array imports, the interpreter lock. Printed beside the whole call; rows are compared with
another way to get them. Best of many repeats, since the machine may be shared.
"""

import pathlib
import sys
import tempfile
import time

import numpy as np

import libengram

TOKENIZER = pathlib.Path(__file__).resolve().parents[1] / "data" / "demo-tokenizer.json"


def best(call, repeats: int) -> float:
    """Seconds of the fastest of `repeats` calls."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return min(times)


def report(name: str, whole: float, overhead: float) -> None:
    print(f"{name:<44} {whole * 1e6:10.2f} us, of it {overhead * 1e6:6.2f} us ({overhead / whole:6.2%}) Python's")


def lookups(model: libengram.Model, tokens: int, repeats: int) -> None:
    layer = model.layer_ids[0]
    ids = np.random.default_rng(0).integers(0, len(model.token_map), size=tokens, dtype=np.int32)
    rows = model.hasher.rows(layer, model.hasher.hash(ids)[0])
    out = np.empty((*rows.shape, model.head_dim), np.uint16)
    whole = best(lambda: model.lookup(layer, rows=rows, out=out), repeats)
    nothing, nowhere = rows[:0], out[:0]
    overhead = best(lambda: model.lookup(layer, rows=nothing, out=nowhere), repeats)
    assert np.array_equal(out, model.lookup(layer, keys=model.hasher.hash(ids)[0]))
    report(f"lookup of {rows.size} rows into given memory", whole, overhead)


def steps(model: libengram.Model, tokens: int, repeats: int) -> None:
    layer = model.layer_ids[0]
    ids = np.random.default_rng(1).integers(0, len(model.token_map), size=tokens, dtype=np.int32)
    start, window = np.array([0, tokens]), np.full((1, 3), libengram.BEFORE_START, np.int32)
    out = np.empty((tokens, model.columns, model.head_dim), np.uint16)
    none, nowhere = ids[:0], out[:0]
    no_start = np.array([0, 0])

    def step(ids, start, out):
        model.lookup(layer, keys=model.hasher.hash_batch(ids, start, window)[0], out=out)

    hasher = model.hasher
    whole = best(lambda: step(ids, start, out), repeats)
    overhead = best(lambda: step(none, no_start, nowhere), repeats)
    assert np.array_equal(out, model.lookup(layer, rows=hasher.rows(layer, hasher.hash(ids)[0])))
    report(f"hash and lookup of {tokens} tokens", whole, overhead)


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(directory) / "model"
        if len(sys.argv) == 1:
            libengram.make_model(path, tokenizer=TOKENIZER, engram_vocab_size=100_000)
        with libengram.Model.open(path, tier="ram", load="rows") as model:
            lookups(model, 1, 20_000)
            lookups(model, 2, 20_000)
            steps(model, 1, 10_000)
            steps(model, 8192, 15)


if __name__ == "__main__":
    main()
