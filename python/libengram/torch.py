"""Engram for PyTorch: a drop-in for the table module, and the whole layer.

    embedding = libengram.torch.EngramEmbedding(model, layer=1)
    engram.embed = embedding                  # in place of the module that held 98 GB
    rows = embedding(row_ids)                 # int64 [..., 24] -> bfloat16 [..., 24, 256]

Inference only: tables are read-only, and nothing here has a gradient.
"""

from __future__ import annotations

import torch
from torch import nn

from libengram import Gate, InvalidArgumentError, Model


def _on_cpu(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to("cpu").contiguous()


class EngramEmbedding(nn.Module):
    """Rows of one layer's table by id, through whatever tier the model was opened with.

    Has no parameters: where a state dict brings the table's own (``weight``, ``scale``), their row
    count must be the table's, and the bytes are left alone.
    """

    def __init__(self, model: Model, layer: int) -> None:
        super().__init__()
        self.model = model
        self.layer = layer
        self.num_embeddings = model.row_count(layer)
        self.embedding_dim = model.head_dim

    def forward(self, row_ids: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        """row_ids int64 or int32 [...], ids in the whole table -> bfloat16 [..., head_dim].

        ``out``: memory of the CPU to fill and return, pinned where it goes on to a GPU (then copy
        it with ``non_blocking=True``; it stays the same buffer, as CUDA graphs want). Without it
        the rows come back on the device of ``row_ids``.
        """
        rows = out
        if rows is None:
            shape = (*row_ids.shape, self.embedding_dim)
            rows = torch.empty(shape, dtype=torch.bfloat16)
        self.model.lookup(self.layer, rows=_on_cpu(row_ids), out=rows)
        return rows if out is not None else rows.to(row_ids.device)

    def _load_from_state_dict(self, state_dict, prefix, *arguments) -> None:
        for name in ("weight", "scale"):
            table = state_dict.pop(prefix + name, None)
            if table is not None and table.shape[0] != self.num_embeddings:
                raise InvalidArgumentError(
                    f"{prefix}{name}: expected {self.num_embeddings} rows, as the opened model's "
                    f"layer {self.layer} has, found {table.shape[0]}"
                )
        super()._load_from_state_dict(state_dict, prefix, *arguments)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}, layer={self.layer}"


class _ScaledLinear(nn.Module):
    """``wkv``: weight, and scale where the weight is FP8, under the reference's names."""

    def __init__(self, rows: int, columns: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(rows, columns, dtype=dtype), requires_grad=False)
        if dtype == torch.float8_e4m3fn:
            # E8M0 bytes: torch's own type for them would not take uint8 state dicts.
            scale = torch.full((-(-rows // 32), columns // 32), 127, dtype=torch.uint8)
            self.scale = nn.Parameter(scale, requires_grad=False)

    def _load_from_state_dict(self, state_dict, prefix, *arguments) -> None:
        scale = state_dict.get(prefix + "scale")
        if scale is not None and scale.dtype.itemsize == 1:
            state_dict[prefix + "scale"] = scale.view(torch.uint8)
        weight = state_dict.get(prefix + "weight")
        if weight is not None and weight.dtype != self.weight.dtype:
            raise InvalidArgumentError(
                f"{prefix}weight: expected {self.weight.dtype}, found {weight.dtype}"
            )
        super()._load_from_state_dict(state_dict, prefix, *arguments)


class EngramLayer(nn.Module):
    """Rows, wkv and gate: what one Engram layer adds to the residual stream.

    Parameters have the reference's names (``wkv.weight``, ``wkv.scale``, ``q_weight``,
    ``k_weight``), so that a layer's state dict loads; ``embed.*`` in it is checked and left alone.
    Computes on the CPU.
    """

    def __init__(
        self, model: Model, layer: int, wkv_dtype: torch.dtype = torch.float8_e4m3fn
    ) -> None:
        super().__init__()
        self.embed = EngramEmbedding(model, layer)
        copies, dim = model.copies, model.hidden_dim
        self.wkv = _ScaledLinear((copies + 1) * dim, model.columns * model.head_dim, wkv_dtype)
        norm_dtype = torch.float32 if wkv_dtype == torch.float32 else torch.bfloat16
        self.q_weight = nn.Parameter(torch.ones(copies, dim, dtype=norm_dtype), requires_grad=False)
        self.k_weight = nn.Parameter(torch.ones(copies, dim, dtype=norm_dtype), requires_grad=False)
        self.norm_eps = model.norm_eps
        self._gate: Gate | None = None
        self._gate_of: tuple = ()

    def gate(self) -> Gate:
        """The gate over the present parameters: checked once, and again after they have changed."""
        present = tuple((p.data_ptr(), p._version) for p in self.parameters())
        if self._gate is None or self._gate_of != present:
            weight = self.wkv.weight.detach()
            scale = getattr(self.wkv, "scale", None)
            self._gate = Gate(
                weight if scale is None else weight.view(torch.uint8),
                self.q_weight.detach(),
                self.k_weight.detach(),
                norm_eps=self.norm_eps,
                wkv_scale=None if scale is None else scale.detach(),
                threads=torch.get_num_threads(),
            )
            self._gate_of = present
        return self._gate

    def forward(
        self, hidden: torch.Tensor, row_ids: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """hidden bfloat16 or float32 [tokens, copies, dim], row_ids [tokens, columns], mask [tokens]
        (0 leaves a token alone) -> the updated stream, a new tensor."""
        rows = self.embed(row_ids)
        out = torch.empty_like(hidden, memory_format=torch.contiguous_format)
        stream = hidden.detach().contiguous()
        return self.gate().apply(rows, stream, mask=mask, out=out)
