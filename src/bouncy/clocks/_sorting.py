"""Sorting numbers that are spread roughly evenly over a known interval, in linear time."""

from __future__ import annotations

import numpy as np

from bouncy._compile import helper


@helper
def sort_order(keys, order, buckets):
    """Write into `order` the indices that sort `keys`, all in [-1, 1].

    A counting sort into as many buckets as keys, then one insertion pass: O(n) for keys that are not bunched.
    `buckets` is scratch of at least n + 1 entries. Unsigned indices skip the wraparound check.
    """
    n = keys.size
    half = 0.5 * n
    for b in range(n + 1):
        buckets[b] = 0
    for i in range(n):
        buckets[np.uint32(min(int((keys[i] + 1.0) * half), n - 1) + 1)] += 1
    for b in range(n):
        buckets[b + 1] += buckets[b]
    for i in range(n):
        bucket = np.uint32(min(int((keys[i] + 1.0) * half), n - 1))
        rank = np.uint32(buckets[bucket])
        order[rank] = i
        buckets[bucket] = rank + 1
    for k in range(1, n):
        i = order[k]
        key = keys[i]
        j = k
        while j > 0 and keys[order[j - 1]] > key:
            order[j] = order[j - 1]
            j -= 1
        order[j] = i


@helper
def sort_pairs(keys, labels, most, sorted_keys, sorted_labels, buckets):
    """Write `keys`, all in [0, most], in their order into `sorted_keys`, and their labels into `sorted_labels`.

    As `sort_order`, with two buckets for each key. The bucket of each is computed once, in vector code, and most keys
    stay where they are in the last pass, which a processor foresees. `buckets` is scratch of at least 3 n + 1 entries.
    """
    n = keys.size
    last = 2 * n - 1
    scale = 2 * n / most
    bucket = buckets[2 * n + 1 : 3 * n + 1]
    for k in range(n):
        bucket[k] = max(np.int32(min(keys[k] * scale, last)), 0)
    for b in range(last + 2):
        buckets[b] = 0
    for k in range(n):
        buckets[np.uint32(bucket[k]) + np.uint32(1)] += 1
    for b in range(last + 1):
        buckets[b + 1] += buckets[b]
    for k in range(n):
        own = np.uint32(bucket[k])
        rank = np.uint32(buckets[own])
        sorted_keys[rank] = keys[k]
        sorted_labels[rank] = labels[k]
        buckets[own] = rank + 1
    for k in range(1, n):
        key, label = sorted_keys[k], sorted_labels[k]
        j = k
        while j > 0 and sorted_keys[j - 1] > key:
            sorted_keys[j] = sorted_keys[j - 1]
            sorted_labels[j] = sorted_labels[j - 1]
            j -= 1
        if j < k:
            sorted_keys[j] = key
            sorted_labels[j] = label
