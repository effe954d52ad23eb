"""How a model is opened, as a value: compare it, pickle it, send it to workers."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


def _bytes_of(size: int | str) -> int:
    """4096, "64M", "4G": powers of 1024."""
    text = str(size).strip().upper()
    digits = text.rstrip("KMGT")
    unit = text[len(digits) :]
    if not digits.isdigit() or unit not in _UNITS:
        raise ValueError(f"cache: expected bytes or a size like '4G', found {size!r}")
    return int(digits) * _UNITS[unit]


@dataclass(frozen=True)
class ModelOptions:
    """Options of `Model.open`. Every field has a default that suits one process on one machine."""

    tier: str = "mmap"
    """Where rows live: mmap, ram, direct, auto, or shared:NAME (see `engram load`)."""
    cache: int | str = 0
    """Memory for rows of n-grams met before, in bytes or as "4G"; for slow tiers."""
    load: str = "gates"
    """gates (all), rows (tables only) or addresses (config and tokenizer: enough to hash)."""
    threads: int | None = None
    """For loading and for the gate; None: as many as the machine has processors."""
    nan: str = "propagate"
    """Rows that are NaN or infinite: propagate, or reject."""
    tokenizer: str | os.PathLike[str] | None = None
    """tokenizer.json to use instead of the model's own."""
    token_map_sha256: str | None = None
    """Digest that the token map must have."""
    codec: str | None = None
    """Format of the tables where several fit and the model declares none."""
    allow_spare_rows: bool = False
    """Accept tables with more rows than the primes need."""
    shared_wait: float = 0.0
    """Tier shared: seconds to wait until it is filled."""
    resident: Mapping[int, Sequence[int]] | None = None
    """Tier ram: only these orders of these layers in memory: {1: (2, 3)}."""
    pages: str = "transparent"
    """Tier ram: transparent, or reserved huge pages of 2m or 1g."""
    numa: str = "local"
    """Tier ram: local, interleave, or copies (a whole table on each node)."""
    lock: bool = False
    """Tier ram: never swap."""
    serve_while_loading: bool = False
    """Tier ram: begin at once, with rows from the files until theirs are loaded."""
    read_method: str = "auto"
    """Tier direct: auto, uring, readahead or threads."""
    resident_scales: bool = True
    """Tier direct: keep scales that lie in tensors of their own in memory."""

    partition: str = "strided"
    """With comm: who holds which rows: rows, heads, strided or layer-order."""
    exchange: str = "packed"
    """With comm: packed (ids out, rows back) or reduced (one all-reduce of a common batch)."""
    rank_timeout: float = 30.0
    """With comm: seconds to wait for another rank."""

    @property
    def cache_bytes(self) -> int:
        return _bytes_of(self.cache)

    @property
    def resident_pairs(self) -> list[tuple[int, int]]:
        pairs = (self.resident or {}).items()
        return [(layer, order) for layer, orders in pairs for order in orders]


def merge(options: ModelOptions | None, changes: Mapping[str, object]) -> ModelOptions:
    """What `Model.open` was given: options, fields by keyword, or both."""
    if options is not None and not isinstance(options, ModelOptions):
        raise TypeError(f"options: expected ModelOptions, found {type(options).__name__!r}")
    return replace(options or ModelOptions(), **changes)
