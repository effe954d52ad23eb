"""Engram inside mlx-vlm: its DeepSeek-V4.1 model with the tables of libengram.

    import mlx_vlm
    import libengram.mlx

    model, processor, memory = libengram.mlx.load("DeepSeek-V4.1-Flash", tier="direct", cache="4G")
    mlx_vlm.generate(model, processor, "Where does the Rhine begin?")
    memory.counters()

`load` keeps the host from reading the tables (189 GiB) at all; `attach` replaces them in a model that
is loaded. Either replaces two things of the host: each Engram layer's ``embed`` (row ids to rows) and
the language model's ``engram_hash`` (token ids to row ids). The hash begins the reads of every
layer as soon as ids are known, which is before the first block runs; a layer's ``embed`` then takes
what has come. What the host computes with the rows is the host's own, bit for bit.

Written for mlx-vlm 0.7 and tested on 0.7.10; any other version is refused, and the model left alone.
Generations may run at once, one to a thread.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import inspect
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import mlx.core as mx
import mlx_vlm
import numpy as np
from mlx import nn
from mlx_vlm.models.deepseek_v41 import deepseek_v41 as host
from mlx_vlm.models.deepseek_v41 import engram as host_engram

from libengram import (
    BEFORE_START,
    MASKED,
    Hasher,
    InvalidArgumentError,
    Model,
    ModelOptions,
    TokenMap,
    UnsupportedError,
)

_VERSIONS = "0.7."
_DEAD = host_engram.NgramHashState.DEAD


class Memory:
    """libengram in one mlx-vlm model: made by `attach` and `load`."""

    def __init__(self, language_model: nn.Module, model: Model) -> None:
        self._model = model
        self._language_model = language_model
        self._hash = language_model.engram_hash
        self._tables: dict[int, nn.Module] = {}  # the host's own, by layer
        self._begun = threading.local()
        self._lock = threading.Lock()
        self._tokens = {"hashed": 0, "prefetched": 0, "looked_up": 0}
        # The host's history holds compressed ids, and a Hasher takes token ids: over the identity
        # they are the same.
        identity = TokenMap.from_ids(np.arange(model.token_map.compressed_size))
        self._hasher = Hasher(model.hasher.spec, identity)

    @property
    def model(self) -> Model:
        """The opened tables."""
        return self._model

    @property
    def attached(self) -> bool:
        return not self._model.closed

    def counters(self) -> dict[str, Any]:
        """``hashed``: tokens; ``prefetched``: rows' tokens that a read begun early served, over all
        layers; ``looked_up``: those that came with ids nobody had announced; ``tables``: what
        `Model.stats` says of each layer."""
        with self._lock:
            return {**self._tokens, "tables": self._model.stats()}

    def detach(self) -> None:
        """Gives the model its own tables and hash back, and closes libengram's.

        InvalidArgumentError after `load`: the host has no tables to go back to.
        """
        if not self.attached:
            return
        if None in self._tables.values():
            raise InvalidArgumentError(
                "detach: the host's own tables were never loaded; load the model again without"
            )
        for layer, table in self._tables.items():
            self._language_model.layers[layer].engram.embed = table
        self._language_model.engram_hash = self._hash
        self._give_up(self._waiting())
        self._model.close()

    # What replaced modules call.

    def _install(self, own_tables: bool) -> None:
        for layer in self._model.layer_ids:
            engram = self._language_model.layers[layer].engram
            self._tables[layer] = engram.embed if own_tables else None
            engram.embed = _Rows(self, layer)
        self._language_model.engram_hash = _Hash(self)

    def _waiting(self) -> list[_Step]:
        """The steps of this thread whose reads have begun."""
        if not hasattr(self._begun, "steps"):
            self._begun.steps = []
        return self._begun.steps

    @staticmethod
    def _give_up(steps: list[_Step]) -> None:
        for step in steps:
            for ticket in step.tickets.values():
                ticket.cancel()
        steps.clear()

    def _count(self, name: str, tokens: int) -> None:
        with self._lock:
            self._tokens[name] += tokens

    def row_ids(self, ids: np.ndarray, lookback: np.ndarray, state: object) -> np.ndarray:
        """Hashes one step of a generation and begins its reads.

        ids [batch, length] and lookback [batch, orders], newest first: compressed ids, `_DEAD`
        where a position takes no part and BEFORE_START before the sequence. ``state`` is whose step
        it is: hashing again for the same one gives up what it did not take. -> int64 [batch,
        length, layers, columns].
        """
        batch, length = ids.shape
        dead = ids == _DEAD
        keys = self._hasher.hash_batch(
            np.where(dead, 0, ids).reshape(-1),
            np.arange(batch + 1) * length,
            lookback,
            mask=~dead.reshape(-1),
        )
        hasher, layers = self._model.hasher, self._model.layer_ids
        rows = {layer: hasher.rows(layer, keys[i]) for i, layer in enumerate(layers)}
        tickets = {layer: self._model.prefetch(layer, keys[i]) for i, layer in enumerate(layers)}
        steps = self._waiting()
        self._give_up_stale(steps, state)
        steps.append(_Step(weakref.ref(state), rows, tickets))
        self._count("hashed", batch * length)
        whole = np.stack([rows[layer] for layer in layers], axis=1)
        return whole.reshape(batch, length, len(layers), -1)

    def _give_up_stale(self, steps: list[_Step], state: object) -> None:
        stale = [step for step in steps if step.state() in (None, state) or not step.tickets]
        steps[:] = [step for step in steps if step not in stale]
        self._give_up(stale)

    def rows(self, layer: int, ids: np.ndarray) -> np.ndarray:
        """int64 [..., columns] -> bfloat16 bits, uint16 [..., columns, head_dim]."""
        columns = ids.reshape(-1, ids.shape[-1])
        # Where a batch is padded, the host has ids of 0 in all columns; a token never has, since
        # every column after the first begins at a higher row.
        real = columns.any(axis=-1)
        steps = [step for step in self._waiting() if layer in step.tickets]
        tickets = [step.tickets.pop(layer) for step in steps]
        begun = [step.rows[layer] for step in steps]
        out = np.empty((*columns.shape, self._model.head_dim), np.uint16)
        if begun and np.array_equal(np.concatenate(begun), columns[real]):
            taken = [ticket.wait() for ticket in tickets]
            out[real] = np.concatenate(taken)
            self._count("prefetched", int(real.sum()))
            if not real.all():
                out[~real] = self._model.lookup(layer, rows=columns[~real])
        else:
            for ticket in tickets:
                ticket.cancel()
            self._model.lookup(layer, rows=columns, out=out)
            self._count("looked_up", len(columns))
        return out.reshape(*ids.shape, -1)


class _Step:
    """What one generation asked for in one step: row ids [tokens, columns] and a read per layer."""

    def __init__(self, state: weakref.ref, rows: dict, tickets: dict) -> None:
        self.state, self.rows, self.tickets = state, rows, tickets


class _Rows(nn.Module):
    """In place of a layer's table: row ids [..., columns] -> bfloat16 [..., columns, head_dim]."""

    def __init__(self, memory: Memory, layer: int) -> None:
        super().__init__()
        self._memory, self._layer = memory, layer

    def __call__(self, indices: mx.array) -> mx.array:
        rows = self._memory.rows(self._layer, np.array(indices, dtype=np.int64))
        return mx.array(rows).view(mx.bfloat16)


class _Hash(nn.Module):
    """In place of the host's NgramHashState, over the same history in the same cache."""

    def __init__(self, memory: Memory) -> None:
        super().__init__()
        self._memory = memory

    def __call__(self, input_ids, start_pos: int, state, token_mask=None) -> mx.array:
        tokens = np.array(input_ids, dtype=np.int64)
        mask = None if token_mask is None else np.array(token_mask, dtype=bool)
        ids = self._memory.model.token_map.compress(tokens, mask=mask).astype(np.int64)
        lookback = _lookback(state.engram, start_pos, len(ids), self._memory.model.orders)
        rows = self._memory.row_ids(ids, lookback, state)
        state.engram = _history(state.engram, start_pos, mx.array(ids))
        return mx.array(rows)


def _lookback(history: mx.array | None, start: int, batch: int, orders: int) -> np.ndarray:
    """[batch, orders] ids before position ``start``, newest first."""
    window = np.full((batch, orders), BEFORE_START, np.int64)
    known = min(start, orders)
    if known == 0:
        return window
    if history is None or history.shape[0] < batch or history.shape[1] < start:
        # Going on without it would read rows of n-grams that the text does not have.
        raise InvalidArgumentError(
            f"engram: position {start} of a sequence whose history the cache does not hold"
        )
    ids = np.array(history[:batch, start - known : start])[:, ::-1]
    window[:, :known] = np.where(ids == _DEAD, MASKED, ids)
    return window


def _history(history: mx.array | None, start: int, ids: mx.array) -> mx.array:
    """The host's record of compressed ids [batch, positions] with ``ids`` at ``start``. What it had
    behind them, and rows beyond the batch, stay, as the host's own hash leaves them."""
    batch, end = ids.shape[0], start + ids.shape[1]
    if history is None or history.shape[0] < batch:
        return ids
    head = mx.concatenate([history[:batch, :start], ids, history[:batch, end:]], axis=1)
    if history.shape[0] == batch:
        return head
    spare = mx.pad(history[batch:], [(0, 0), (0, head.shape[1] - history.shape[1])])
    return mx.concatenate([head, spare])


def attach(model: nn.Module, directory, options: ModelOptions | None = None, **changes) -> Memory:
    """Replaces tables and hash of a loaded mlx-vlm ``deepseek_v41`` model.

    model: the model, or its ``language_model``.
    directory, options, changes: as in `Model.open`; ``load`` is "rows" unless given, since the
    host has the gate weights.
    InvalidArgumentError where the directory is of another model than the host's config;
    UnsupportedError for another mlx-vlm. Either leaves the host as it was.
    """
    return _attach(getattr(model, "language_model", model), directory, options, changes, True)


def load(
    directory,
    options: ModelOptions | None = None,
    *,
    tables=None,
    host_options: dict[str, Any] | None = None,
    **changes,
) -> tuple[nn.Module, Any, Memory]:
    """`mlx_vlm.load`, without the tables: (model, processor, memory).

    directory: what mlx-vlm loads; tables: where libengram finds the tables, if not there too.
    options, changes: as in `attach`; host_options: keywords for `mlx_vlm.load`.
    """
    with without_tables(directory if tables is None else tables, options, **changes) as memories:
        model, processor = mlx_vlm.load(str(directory), **(host_options or {}))
    if not memories:
        raise UnsupportedError(f"{directory}: not a deepseek_v41 model with Engram layers")
    return model, processor, memories[0]


@contextlib.contextmanager
def without_tables(
    directory, options: ModelOptions | None = None, **changes
) -> Iterator[list[Memory]]:
    """Within it, whatever loads a ``deepseek_v41`` model through mlx-vlm gets libengram in place of
    its tables, whose bytes are never read. Yields a list that each such model's Memory is added
    to. For servers and tools that call the loader themselves; one thread at a time.
    """
    _check_host()
    memories: list[Memory] = []
    install = host.Model._install_engram_embeddings

    def install_ours(self: nn.Module, weights: dict) -> None:
        # The loader's arrays are lazy: dropping them here is before the first byte is read.
        for name in [name for name in weights if ".engram.embed." in name]:
            del weights[name]
        if self.language_model.layout is not None:
            memories.append(_attach(self.language_model, directory, options, changes, False))

    host.Model._install_engram_embeddings = install_ours
    try:
        yield memories
    finally:
        host.Model._install_engram_embeddings = install


def _attach(language_model, directory, options, changes, own_tables: bool) -> Memory:
    _check_host()
    if getattr(language_model, "layout", None) is None:
        raise InvalidArgumentError("attach: the model has no Engram layers")
    if isinstance(language_model.engram_hash, _Hash):
        raise InvalidArgumentError("attach: libengram is attached to this model; detach it first")
    if options is None:
        changes = {"load": "rows", "tier": "direct", **changes}
    opened = Model.open(directory, options, **changes)
    try:
        _check_model(language_model, opened, directory)
        memory = Memory(language_model, opened)
        memory._install(own_tables)
    except BaseException:
        opened.close()
        raise
    return memory


def _check_host() -> None:
    """The seam as this file knows it, or UnsupportedError."""
    version = importlib.metadata.version("mlx-vlm")
    if not version.startswith(_VERSIONS):
        raise UnsupportedError(f"mlx-vlm: expected version {_VERSIONS}*, found {version}")
    expected = {
        host_engram.NgramHashState.__call__: "self input_ids start_pos state token_mask",
        host_engram.Engram.__call__: "self x hash_ids token_mask",
        host_engram.OffloadedEngramEmbedding.__call__: "self indices",
        host.Model._install_engram_embeddings: "self weights",
    }
    for function, names in expected.items():
        found = " ".join(inspect.signature(function).parameters)
        if found != names:
            raise UnsupportedError(
                f"mlx-vlm {version}: {function.__qualname__}: expected ({names}), found ({found})"
            )


def _check_model(language_model, model: Model, directory) -> None:
    """Everything that decides which row a token reads, and how wide it is."""
    layout, config, spec = language_model.layout, language_model.config, model.hasher.spec
    pairs = {
        "engram_layer_ids": (list(layout.layer_ids), list(model.layer_ids)),
        "engram_max_ngram_size": (layout.max_ngram_size, model.orders + 1),
        "engram_n_heads": (layout.n_heads, model.heads),
        "engram_head_dim": (layout.head_dim, model.head_dim),
        "engram_compressed_vocab_size": (
            config.engram_compressed_vocab_size,
            model.token_map.compressed_size,
        ),
        "hidden_size": (config.hidden_size, model.hidden_dim),
        "hc_mult": (config.hc_mult, model.copies),
    }
    pad = int(model.token_map.ids[config.engram_pad_token_id])
    pairs["engram_pad_token_id, compressed"] = (pad, spec.pad)
    for i, layer in enumerate(layout.layer_ids):
        if layer in model.layer_ids:
            primes = np.array(layout.primes[i]).reshape(-1).tolist()
            pairs[f"primes of layer {layer}"] = (primes, spec.primes(layer).tolist())
    own = language_model.engram_hash
    if own is not None:
        pairs["token map"] = (np.array(own._token_map).tolist(), model.token_map.ids.tolist())
    for what, (expected, found) in pairs.items():
        if expected != found:
            shown = (expected, found) if len(str((expected, found))) < 200 else ("its own", "another")
            raise InvalidArgumentError(
                f"{directory}: another model than the host's: {what}: expected {shown[0]}, "
                f"found {shown[1]}"
            )
