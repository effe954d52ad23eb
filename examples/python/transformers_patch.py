"""Replaces the table of a DeepSeek-V4.1-shaped module: transformers_patch.py

Builds a small module as modelling code has it, with its table in memory (in the release, 98 GB a
layer), runs it, puts `EngramEmbedding` in the table's place, and runs it again: equal outputs, bit
for bit, from a table that stays on disk. Needs torch.
"""

import json
import pathlib
import tempfile

import torch
from torch import nn

import libengram
import libengram.torch

TOKENIZER = pathlib.Path(__file__).resolve().parents[2] / "data" / "demo-tokenizer.json"
TOKENS = [5, 6, 7, 8, 300, 301, 5, 6, 7]
LAYER = 1


class Engram(nn.Module):
    """The layer as modelling code writes it: table, projection, gate, in bfloat16."""

    def __init__(self, rows: int, head_dim: int, columns: int, copies: int, dim: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(rows, head_dim, dtype=torch.bfloat16)
        self.wkv = nn.Linear(columns * head_dim, (copies + 1) * dim, bias=False, dtype=torch.bfloat16)
        self.q_weight = nn.Parameter(torch.rand(copies, dim))
        self.k_weight = nn.Parameter(torch.rand(copies, dim))
        self.copies, self.dim = copies, dim

    def forward(self, hidden: torch.Tensor, row_ids: torch.Tensor) -> torch.Tensor:
        kv = self.wkv(self.embed(row_ids).flatten(1)).float()
        key = kv[:, : self.copies * self.dim].view(-1, self.copies, self.dim)
        value = kv[:, None, self.copies * self.dim :]
        rstd = ((hidden**2).mean(-1) + 1e-6).rsqrt() * ((key**2).mean(-1) + 1e-6).rsqrt()
        dot = (hidden * self.q_weight * self.k_weight * key).sum(-1) * rstd * self.dim**-0.5
        gate = torch.sigmoid(torch.copysign(dot.abs().clamp_min(1e-6).sqrt(), dot))
        return hidden + gate[..., None] * value


def table_in_memory(path: pathlib.Path) -> torch.Tensor:
    """The whole table as bfloat16, from the official file's bytes."""
    index = json.loads((path / "model.safetensors.index.json").read_text())["weight_map"]

    def tensor(name: str) -> torch.Tensor:
        data = (path / index[name]).read_bytes()
        size = int.from_bytes(data[:8], "little")
        info = json.loads(data[8 : 8 + size])[name]
        begin, end = (8 + size + at for at in info["data_offsets"])
        return torch.frombuffer(bytearray(data[begin:end]), dtype=torch.uint8).view(info["shape"])

    prefix = f"layers.{LAYER}.engram.embed."
    codes = tensor(prefix + "weight").view(torch.float8_e4m3fn).float()
    scales = torch.exp2(tensor(prefix + "scale").float() - 127)
    return (codes * scales.repeat_interleave(32, dim=1)).to(torch.bfloat16)


def main() -> None:
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as directory, torch.inference_mode():
        path = pathlib.Path(directory) / "model"
        libengram.make_model(path, tokenizer=TOKENIZER)
        with libengram.Model.open(path, tier="direct", load="rows") as model:
            table = table_in_memory(path)
            engram = Engram(*table.shape, model.columns, model.copies, model.hidden_dim)
            engram.embed.weight.data = table
            rows = torch.from_numpy(model.hasher.rows(LAYER, model.hasher.hash(TOKENS)[0]))
            hidden = torch.randn(len(TOKENS), model.copies, model.hidden_dim)
            before = engram(hidden, rows)

            engram.embed = libengram.torch.EngramEmbedding(model, LAYER)  # the patch
            after = engram(hidden, rows)

            assert torch.equal(before, after)
            reads = model.stats()[LAYER]["reads"]
            print(f"equal outputs {tuple(after.shape)}; {reads} reads instead of {table.nbytes} bytes")


if __name__ == "__main__":
    main()
