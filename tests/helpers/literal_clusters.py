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
    left: list[tuple[int, bool]] = field(default_factory=list)

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

    def need(self, n: int, alike: Fraction | None) -> None:
        """Fill the buffer anew where it has fewer than n numbers; those that are left are lost.

        Where all bonds have the same probability they are decided at once.
        """
        if len(self.left) < n:
            drawn = [self.word() for _ in range(self.words)]
            bits = [(word >> shift) % 2**16 for word in drawn for shift in (0, 16, 32, 48)]
            self.left = [(x, alike is not None and self.decide(x, alike)) for x in bits]

    def decide(self, bits: int, p: Fraction) -> bool:
        """Return whether an event of probability p happens: by 16 bits, and where they do not decide by 64 more."""
        first, rest = divmod(p * 2**16, 1)
        return bits < first if bits != first else Fraction(self.word(), WORD) < rest

    def happens(self, p: Fraction) -> bool:
        """Draw an event of probability p."""
        return self.decide(self.left.pop(0)[0], p)

    def next(self) -> bool:
        """Return whether the next bond is drawn, where all are alike."""
        return self.left.pop(0)[1]


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

    @property
    def alike(self) -> Fraction | None:
        """Probability of all bonds, if it is the same."""
        strengths = {abs(J) for row in self.couplings.values() for J in row.values()}
        return self.probability(strengths.pop()) if len(strengths) == 1 else None

    def satisfied(self, i: int, j: int) -> bool:
        return self.couplings[i][j] * self.s[i] * self.s[j] > 0

    def neighbours(self, i: int, taken: set[int]) -> list[int]:
        """Return the neighbours of a site that are bound to it and are in no cluster yet."""
        self.bits.need(len(self.couplings[i]), self.alike)
        joined = []
        for j, J in self.couplings[i].items():
            bound = self.bits.next() if self.alike is not None else self.bits.happens(self.probability(J))
            if bound and self.satisfied(i, j) and j not in taken:
                joined.append(j)
        return joined

    def held(self, i: int) -> bool:
        """Draw whether the field of a site holds it."""
        self.bits.need(1, self.alike)
        bound = self.bits.happens(self.probability(self.fields[i]))
        return bound and self.fields[i] * self.s[i] > 0

    def swendsen_wang(self) -> list[list[int]]:
        """Make a sweep, and return the clusters, that of the fields first."""
        self.bits.left, taken, coins = [], set(), []
        held = [i for i in range(len(self.s)) if any(self.fields) and self.held(i)]
        clusters, turned = [], []
        for seed in [None, *range(len(self.s))]:
            if seed in taken:
                continue
            if seed is not None:
                if not coins:
                    word = self.bits.word()
                    coins = [word >> k & 1 for k in range(63)]
                turned.append(coins.pop(0))
            clusters.append(self.grown(held if seed is None else [seed], taken))
        for cluster, turns in zip(clusters[1:], turned, strict=True):
            for i in cluster:
                self.s[i] *= 1 - 2 * turns
        return clusters

    def grown(self, queue: list[int], taken: set[int]) -> list[int]:
        """Return the cluster of all sites in a queue and those that are bound to them."""
        cluster = []
        for i in queue:
            if i not in taken:
                taken.add(i)
                cluster.append(i)
                queue.extend(self.neighbours(i, taken))
        return cluster

    def wolff(self, clusters: int) -> None:
        """Make a sweep of so many clusters."""
        self.bits.left = []
        for _ in range(clusters):
            uniform = Fraction((self.bits.word() >> 11) + 1, 2**53)
            seed = min(int(float(uniform) * len(self.s)), len(self.s) - 1)
            taken: set[int] = set()
            queue = [seed]
            for i in queue:
                if i in taken:
                    continue
                taken.add(i)
                if any(self.fields) and self.held(i):
                    break
                queue.extend(self.neighbours(i, taken))
            else:
                for i in taken:
                    self.s[i] *= -1
