#!/usr/bin/env python3
"""The command line and the C interface under mpirun: the bytes of one process, written once.

command_line.py PROGRAM C_PROGRAM TOKENIZER MPIRUN...
"""

import pathlib
import subprocess
import sys
import tempfile

PROGRAM, C_PROGRAM, TOKENIZER, *MPIRUN = sys.argv[1:]


def engram(*arguments, ranks=0, status=0):
    launch = [*MPIRUN, "-n", str(ranks)] if ranks else []
    done = subprocess.run([*launch, PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=120)
    assert done.returncode == status, f"{arguments}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        model = folder / "model"
        engram("make-model", model, "--tokenizer", TOKENIZER)
        lookup = ["lookup", "--layer", 1, "--ids", "5,6,7,8,9,5,6", "--format", "raw"]
        engram(*lookup, model, "--output", folder / "alone.npy")
        expected = (folder / "alone.npy").read_bytes()
        for ranks in (1, 2, 3):
            for partition in ("rows", "heads", "strided", "layer-order"):
                options = ["--partition", partition, "--exchange", "reduced" if ranks == 3 else "packed"]
                output = folder / f"{ranks}-{partition}.npy"
                engram(*lookup, model, "--tier", "sharded:ram", *options, "--output", output, ranks=ranks)
                assert output.read_bytes() == expected, (ranks, partition)
        engram("shard", model, folder / "shards", "--model-parallel", 2, "--by", "heads")
        lookup += [folder / "shards", "--tier", "sharded", "--partition"]
        engram(*lookup, "heads", "--output", folder / "shards.npy", ranks=2)
        assert (folder / "shards.npy").read_bytes() == expected
        wrong = engram(*lookup, "rows", "--output", folder / "wrong.npy", ranks=2, status=1)
        assert "expected the shard of rank" in wrong and not (folder / "wrong.npy").exists(), wrong
        report = engram("bench", "store", model, "--tier", "sharded:ram", "--tokens", 64, "--rounds", 3, ranks=2)
        assert report.count("uniform") == 1 and "sharded" in report, report
        subprocess.run([*MPIRUN, "-n", "3", C_PROGRAM, str(model)], check=True, timeout=120)


main()
