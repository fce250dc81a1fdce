"""The n-gram tree, from its mask."""

from __future__ import annotations

from . import missing


def reconstruct_indices_from_tree_mask(
    tree_mask, seq_lens, positions, index, next_token, next_sibling, batch, n
):
    mask = tree_mask.reshape(batch, n, n).bool()
    for b in range(batch):
        above = [[j for j in range(i) if bool(mask[b, i, j])] for i in range(n)]
        parent = [max(nodes) if nodes else -1 for nodes in above]
        for i in range(n):
            children = [k for k in range(i + 1, n) if i in above[k]]
            siblings = [k for k in range(i + 1, n) if parent[i] >= 0 and parent[k] == parent[i]]
            positions.view(batch, n)[b, i] = len(above[i]) + int(seq_lens[b])
            index[b, i] = b * n + i
            next_token[b, i] = min(children, default=-1)
            next_sibling[b, i] = min(siblings, default=-1)


__getattr__ = missing("speculative")
