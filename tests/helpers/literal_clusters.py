"""Swendsen-Wang and Wolff in plain Python, with the random numbers of the compiled loops.

Spins, couplings and bonds are those of the textbook: dictionaries, sets and fractions. What is shared with the compiled
loops is the order in which sites are met, and with it that of the random numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

import bouncy

WORD = 2**64


@dataclass
class Bits:
    """xoshiro256++ and a buffer of 16-bit numbers, which a sweep begins with an empty one."""

    state: list[int]
    words: int
    left: list[int] = field(default_factory=list)

    def word(self) -> int:
        a, b, c, d = self.state
        total = (a + d) % WORD
        result = (((total << 23) | (total >> 41)) + a) % WORD
        c, d = c ^ a, d ^ b
        b, a = b ^ c, a ^ d
        c ^= (self.state[1] << 17) % WORD
        d = ((d << 45) | (d >> 19)) % WORD
        self.state = [a, b, c, d]
        return result

    def need(self, n: int) -> None:
        """Fill the buffer anew where it has fewer than n numbers; those that are left are lost."""
        if len(self.left) < n:
            drawn = [self.word() for _ in range(self.words)]
            self.left = [(word >> shift) % 2**16 for word in drawn for shift in (0, 16, 32, 48)]

    def happens(self, p: Fraction) -> bool:
        """Draw an event of probability p: 16 bits, and where they do not decide 64 more."""
        first, rest = divmod(p * 2**16, 1)
        bits = self.left.pop(0)
        return bits < first if bits != first else Fraction(self.word(), WORD) < rest


@dataclass
class Chain:
    """A chain on a Markov random field."""

    couplings: dict[int, dict[int, float]]  # J_ij = -M_ij
    fields: list[float]  # -r_i
    s: list[int]
    bits: Bits

    @classmethod
    def of(cls, target: bouncy.MRF, s: np.ndarray, state: np.ndarray, words: int) -> Chain:
        M = target.M if isinstance(target.M, np.ndarray) else target.M.toarray()
        couplings = {i: {j: -float(M[i, j]) for j in np.flatnonzero(M[i]).tolist()} for i in range(target.d)}
        return cls(couplings, (-target.r).tolist(), s.tolist(), Bits([int(x) for x in state], words))

    def probability(self, energy: float) -> Fraction:
        """Return the probability that something which saves an energy is bound: 1 - exp(-2 |energy|)."""
        return Fraction(-math.expm1(-2.0 * abs(energy)))

    def satisfied(self, i: int, j: int) -> bool:
        return self.couplings[i][j] * self.s[i] * self.s[j] > 0

    def neighbours(self, i: int, taken: set[int]) -> list[int]:
        """Return the neighbours of a site that are bound to it and are in no cluster yet."""
        joined = []
        self.bits.need(len(self.couplings[i]))
        for j, J in self.couplings[i].items():
            bound = self.bits.happens(self.probability(J))
            if bound and self.satisfied(i, j) and j not in taken:
                taken.add(j)
                joined.append(j)
        return joined

    def held(self, i: int) -> bool:
        """Draw whether the field of a site holds it."""
        self.bits.need(1)
        bound = self.bits.happens(self.probability(self.fields[i]))
        return bound and self.fields[i] * self.s[i] > 0

    def swendsen_wang(self) -> list[list[int]]:
        """Make a sweep, and return the clusters, that of the fields first."""
        self.bits.left, taken, coins = [], set(), []
        held = [i for i in range(len(self.s)) if any(self.fields) and self.held(i)]
        taken.update(held)
        clusters, turned = [], []
        for seed in [None, *range(len(self.s))]:
            if seed in taken:
                continue
            cluster = held if seed is None else [seed]
            if seed is not None:
                if not coins:
                    word = self.bits.word()
                    coins = [word >> k & 1 for k in range(63)]
                turned.append(coins.pop(0))
                taken.add(seed)
            for i in cluster:
                cluster.extend(self.neighbours(i, taken))
            clusters.append(cluster)
        for cluster, turns in zip(clusters[1:], turned, strict=True):
            for i in cluster:
                self.s[i] *= 1 - 2 * turns
        return clusters

    def wolff(self, clusters: int) -> None:
        """Make a sweep of so many clusters."""
        self.bits.left = []
        for _ in range(clusters):
            uniform = Fraction((self.bits.word() >> 11) + 1, 2**53)
            seed = min(int(float(uniform) * len(self.s)), len(self.s) - 1)
            taken, cluster = {seed}, [seed]
            for i in cluster:
                if any(self.fields) and self.held(i):
                    break
                cluster.extend(self.neighbours(i, taken))
            else:
                for i in cluster:
                    self.s[i] *= -1
