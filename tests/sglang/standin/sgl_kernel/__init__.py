"""A stand-in for SGLang's compiled kernels: the few CPU ops that a tiny model needs, in pure torch.

For SGLang 0.5.23 with ``torch_native`` attention; slow (Python loops), greedy, draft chains only (top-k 1).
Any other op raises when it is called. Names and parameters are those of the compiled package.
"""

from __future__ import annotations

import ctypes
import sys
import types

# --- slots of the KV pool


def assign_req_to_token_pool_cpu(req_pool_indices, req_to_token, start, end, locs, pool_len):
    at = 0
    for i in range(req_pool_indices.shape[0]):
        first, last = int(start[i]), int(end[i])
        slots = locs[at : at + last - first]
        req_to_token[int(req_pool_indices[i]), first:last] = slots.to(req_to_token.dtype)
        at += last - first


def assign_extend_cache_locs_cpu(req_pool_indices, req_to_token, start, end, out, pool_len):
    at = 0
    for i in range(req_pool_indices.shape[0]):
        first, last = int(start[i]), int(end[i])
        out[at : at + last - first] = req_to_token[int(req_pool_indices[i]), first:last].to(out.dtype)
        at += last - first


def assign_draft_cache_locs_contiguous_cpu(
    req_pool_indices, req_to_token, seq_lens, out, pool_len, topk, cols
):
    n = topk * cols
    for i in range(req_pool_indices.shape[0]):
        length = int(seq_lens[i])
        slots = req_to_token[int(req_pool_indices[i]), length : length + n]
        out[i * n : (i + 1) * n] = slots.to(out.dtype)


def copy_all_layer_kv_cache_cpu(data_ptrs, strides, tgt, src):
    targets, sources = [int(x) for x in tgt], [int(x) for x in src]
    for pointer, stride in zip(data_ptrs.tolist(), strides.tolist(), strict=True):
        rows = [ctypes.string_at(pointer + stride * i, stride) for i in sources]
        for i, row in zip(targets, rows, strict=True):
            ctypes.memmove(pointer + stride * i, row, stride)


# --- draft tree and verification


def build_tree_kernel_efficient_cpu(
    parent_list,
    selected_index,
    seq_lens,
    tree_mask,
    positions,
    retrieve_index,
    next_token,
    next_sibling,
    topk,
    depth,
    n,
    mode,
):
    if topk != 1:
        raise NotImplementedError("stand-in kernels: only chains, topk = 1")
    batch = seq_lens.shape[0]
    for b in range(batch):
        for i in range(n):
            positions.view(batch, n)[b, i] = int(seq_lens[b]) + i
            retrieve_index.view(batch, n)[b, i] = b * n + i
            next_token.view(batch, n)[b, i] = i + 1 if i + 1 < n else -1
            next_sibling.view(batch, n)[b, i] = -1
    if tree_mask is not None and tree_mask.numel() == batch * n * n:
        mask = tree_mask.view(batch, n, n)
        for i in range(n):
            mask[:, i, : i + 1] = 1
            mask[:, i, i + 1 :] = 0


def verify_tree_greedy_cpu(
    predicts,
    accept_index,
    accept_token_num,
    candidates,
    retrive_index,
    retrive_next_token,
    retrive_next_sibling,
    target_predict,
):
    predicted = target_predict.reshape(-1)
    for b in range(candidates.shape[0]):
        last = int(retrive_index[b, 0])
        accept_index[b, 0] = last
        accepted = node = 0
        for _ in range(1, accept_index.shape[1]):
            node = int(retrive_next_token[b, node])
            while node != -1:
                if int(candidates[b, node]) == int(predicted[last]):
                    predicts[last] = int(predicted[last])
                    accepted += 1
                    last = int(retrive_index[b, node])
                    accept_index[b, accepted] = last
                    break
                node = int(retrive_next_sibling[b, node])
            if node == -1:
                break
        accept_token_num[b] = accepted
        predicts[last] = int(predicted[last])


def fill_bonus_tokens_cpu(tokens, lens, out, stride):
    for i in range(lens.shape[0]):
        out[i] = tokens.reshape(-1)[stride * i + int(lens[i]) - 1]


def fill_accept_out_cache_loc_cpu(accept_index, locs, out):
    slots = [locs[x] for x in accept_index.reshape(-1).tolist() if x > -1]
    for i, slot in enumerate(slots):
        out[i] = slot


# --- what else SGLang imports from here


def missing(module):
    """A module's ``__getattr__`` whose every op raises when it is called."""

    def attribute(name):
        if name.startswith("__"):
            raise AttributeError(name)

        def op(*args, **kwargs):
            raise NotImplementedError(f"stand-in kernels: {module}.{name}")

        return op

    return attribute


for _name in ("flash_attn", "kvcacheio", "mamba", "quantization", "utils"):
    _module = types.ModuleType(f"{__name__}.{_name}")
    _module.__getattr__ = missing(_name)
    sys.modules[_module.__name__] = _module

__getattr__ = missing(__name__)
