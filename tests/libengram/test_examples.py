"""The examples run, and say what they claim."""

import pathlib
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python"


def run(name, *arguments):
    command = [sys.executable, str(EXAMPLES / name), *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_numpy_lookup(directory):
    assert "stored bytes decode to the same values" in run("numpy_lookup.py")
    assert "layer 1: keys" in run("numpy_lookup.py", directory)


def test_trace():
    lines = run("trace.py").splitlines()
    assert len(lines) > 20  # a token each
    for line in lines:
        assert all(0 < float(gate) < 1 for gate in line.split()[-8:])


def test_trace_draws(directory, tmp_path):
    pytest.importorskip("matplotlib", reason="needs matplotlib")
    run("trace.py", directory, "--png", tmp_path / "trace.png")
    assert (tmp_path / "trace.png").read_bytes().startswith(b"\x89PNG")


def test_transformers_patch():
    pytest.importorskip("torch", reason="needs torch")
    assert run("transformers_patch.py").startswith("equal outputs (9, 4, 256)")
