"""The header of a packed run: everything that is not an array, checked entry by entry."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Hashable, Mapping
from typing import Any

from bouncy._labels import check_labels
from bouncy.results import run_type
from bouncy.results.data import Setup
from bouncy.results.describe import as_sampler, as_seed, described_sampler
from bouncy.run.goal import Goal
from bouncy.storage.stored_target import StoredTarget

FORMAT, VERSION = "bouncy run", 3
# Characters of a text in a header.
_LONGEST_TEXT = 4096
# Entries that are whole numbers, and those that are times.
COUNTS = ("stage", "warmup_sweeps", "recordings", "sweeps", "begun")
NUMBERS = ("cpu_seconds", "warmup_seconds", "sweep_time")
# Entry `se_of` of a goal that is a function, which no file holds.
FUNCTION = "a function of states"
_REASONS = ("nothing", "draws", "seconds", "until_se", "disagreement", "interrupt")
# Words in the pool of a seed sequence, of which numpy has four by default, and the largest seed.
_MOST_POOL, _LARGEST_SEED = 64, 1 << 4096


class WrongRunError(ValueError):
    """A run of another target or sampler than the one that was passed."""


class Header:
    """Entries of a header. Those that cannot be right raise `ValueError`, those that are missing `KeyError`."""

    def __init__(self, entries: Mapping[str, Any]) -> None:
        self._entries = entries
        if entries.get("format") != FORMAT:
            raise ValueError("it is not a saved run")
        if entries.get("version") != VERSION:
            raise ValueError(
                f"it was written by version {_written_by(entries)} of bouncy in format "
                f"{entries.get('version')!r:.20}; this version reads format {VERSION}"
            )

    def whole(self, name: str, least: int = 0, most: int = 2**62) -> int:
        return whole(name, self._entries[name], least, most)

    def number(self, name: str) -> float:
        return number(name, self._entries[name])

    def _word(self, name: str, choices: tuple[Any, ...]) -> Any:
        value = self._entries[name]
        if type(value) is not type(choices[0]) or value not in choices:
            raise ValueError(f"{name} is {value!r:.60}; expected one of {', '.join(map(str, choices))}")
        return value

    def _table(self, name: str) -> dict[str, Any]:
        return _table(name, self._entries[name])

    def stopped_by(self) -> str:
        word: str = self._word("stopped_by", _REASONS)
        return word

    def chains(self) -> tuple[int, ...]:
        value = self._entries["chains"]
        if not isinstance(value, list) or not value:
            raise ValueError(f"chains is {value!r:.60}; expected a list of indices")
        found = tuple(whole("chains", index) for index in value)
        if len(set(found)) < len(found):
            raise ValueError("chains has an index twice")
        return found

    def tracked(self) -> int | None:
        """Return the number of draws of which a function was followed, if one was."""
        return None if self._entries["tracked"] is None else self.whole("tracked")

    def rows(self) -> list[dict[str, Any]]:
        entries = self._entries["rows"]
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise ValueError("rows is not a list of tables")
        return entries

    def setup(self, labels: bytes, target: Any, sampler: Any) -> Setup:
        """Return what the run was asked, given its packed labels and the target and the sampler that were passed."""
        stored = self._stored_target(labels)
        if target is not None and target.fingerprint != stored.fingerprint:
            raise WrongRunError(
                f"the run is of another model, {stored!r:.80} with fingerprint {stored.fingerprint:.16}, but "
                f"{target!r:.80} with fingerprint {target.fingerprint:.16} was passed: their log p, sizes or labels "
                "differ"
            )
        if target is not None and (target.kind, target.d) != (stored.kind, stored.d):
            raise ValueError(f"its target has {stored.d} {stored.kind}, unlike the one of this fingerprint")
        spins = stored.kind == "spins"
        setup = Setup(
            target=stored if target is None else target,
            sampler=_sampler_of(stored.kind, self._table("sampler"), sampler),
            seed=self._seed(),
            thin=self.whole("thin", 1),
            keep=self._word("keep", ("draws", "means", "path") if spins else ("draws", "means")),
            pairs=self._word("pairs", ("all", "edges", "none") if spins else ("all", "none")),
            slots=self.whole("slots", 2, 2**20),
            chooses_warmup=self._word("chooses_warmup", (False, True)),
            lanes=whole("lanes", self._entries.get("lanes", 1), 1, 2**20),  # version 0.2 had none, nor the next
            choice=_text("choice", self._entries.get("choice", "")),
        )
        if setup.is_tempered and not all((setup.rungs, setup.sampler.ladders, setup.sampler.sweeps_per_swap)):
            raise ValueError("its ladder is not known")
        if setup.is_clustered and (not spins or getattr(setup.sampler, "clusters", 1) is None):
            raise ValueError("the number of clusters in its sweeps is not known")
        if setup.slots % 2:
            raise ValueError(f"slots is {setup.slots}; expected an even number")
        if target is not None and setup.lanes > 1 and (refusal := setup.refusal_of_lanes()) is not None:
            raise ValueError(f"lanes is {setup.lanes}, but {refusal}")
        return setup

    def _stored_target(self, labels: bytes) -> StoredTarget:
        known = self._table("target")
        d, shape = whole("d", known["d"], 1), known["shape"]
        if known["kind"] not in ("spins", "paths"):
            raise ValueError(f"the kind of its target is {known['kind']!r:.60}")
        if shape is not None:
            if not isinstance(shape, list):
                raise ValueError(f"the shape of its lattice is {shape!r:.60}")
            shape = tuple(whole("a side of its lattice", side) for side in shape)
            if math.prod(shape) != d:
                raise ValueError(f"the shape of its lattice is {shape}; expected {d} sites")
        selects = known["selects_variables"]
        if type(selects) is not bool:
            raise ValueError(f"selects_variables of its target is {selects!r:.60}")
        names, text, fingerprint = unpacked_labels(labels, d), str(known["text"]), str(known["fingerprint"])
        log_size = number("log_size", known.get("log_size", d * math.log(2.0)))  # which runs without constraints lack
        return StoredTarget(known["kind"], d, names, text, shape, fingerprint, selects, log_size)

    def _seed(self) -> Any:
        described = self._entries["seed"]
        if not isinstance(described, dict):
            return whole("seed", described, 0, _LARGEST_SEED)
        if set(described) != {"entropy", "spawn_key", "pool_size", "n_children_spawned"}:
            raise ValueError(f"its seed is {described!r:.120}")
        entropy, key = described["entropy"], described["spawn_key"]
        words = entropy if isinstance(entropy, list) else [entropy]
        if not isinstance(key, list) or not words:
            raise ValueError(f"its seed is {described!r:.120}")
        for word in (*words, *key):
            whole("seed", word, 0, _LARGEST_SEED)
        whole("pool_size", described["pool_size"], 4, _MOST_POOL)
        whole("n_children_spawned", described["n_children_spawned"], 0, 2**32 - 1)
        return as_seed(described)

    def goal(self, setup: Setup) -> Goal:
        described = self._table("goal")
        if described.keys() != {field.name for field in dataclasses.fields(Goal)}:
            raise ValueError(f"its goal is {described!r:.120}")
        goal = Goal(**described)
        if goal.draws is not None:
            whole("draws", goal.draws, 1)
        for name in ("seconds", "until_se"):
            if described[name] is not None and not number(name, described[name]):
                raise ValueError(f"{name} is 0; expected a positive number")
        if goal.draws is goal.seconds is goal.until_se is None:
            raise ValueError("its goal has no bound")
        whole("next_look", goal.next_look)
        whole("disagree_since", goal.disagree_since)
        estimates = run_type(setup)._estimates
        if goal.se_of not in (*estimates, FUNCTION) or ("pair" in str(goal.se_of) and setup.pairs == "none"):
            raise ValueError(f"its goal is {described!r:.120}")
        if goal.se_of == FUNCTION and self.tracked() is None:
            raise ValueError("its goal is a function that was not followed")
        return goal

    def rates(self) -> tuple[float | None, float | None]:
        rates = self._entries["rates"]
        if not isinstance(rates, list) or len(rates) != 2:
            raise ValueError(f"rates is {rates!r:.60}")
        hits, bounces = (None if rate is None else number("rates", rate) for rate in rates)
        return hits, bounces

    def origin(self) -> dict[str, Any]:
        origin = self._table("origin")
        versions = _table("versions", origin["versions"])
        return {"created_at": str(origin["created_at"]), "versions": {str(k): str(v) for k, v in versions.items()}}


def _written_by(entries: Mapping[str, Any]) -> str:
    origin = entries.get("origin")
    versions = origin.get("versions") if isinstance(origin, dict) else None
    return str(versions.get("bouncy", "unknown"))[:20] if isinstance(versions, dict) else "0.1"


def _text(name: str, value: Any) -> str:
    """Return a text, or raise."""
    if not isinstance(value, str) or len(value) > _LONGEST_TEXT:
        raise ValueError(f"{name} is {value!r:.60}; expected a text")
    return value


def whole(name: str, value: Any, least: int = 0, most: int = 2**62) -> int:
    """Return a whole number of a header."""
    if type(value) is not int or not least <= value <= most:
        raise ValueError(f"{name} is {value!r:.60}; expected a whole number from {least} to {most}")
    return value


def number(name: str, value: Any) -> float:
    """Return a finite number >= 0 of a header."""
    if type(value) not in (int, float) or not 0 <= value < 1e300:
        raise ValueError(f"{name} is {value!r:.60}; expected a finite number >= 0")
    return float(value)


def _table(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{name} is {value!r:.60}; expected a table")
    return value


def _sampler_of(kind: str, described: dict[str, Any], given: Any) -> Any:
    """Return the sampler that was described, or the one that is given if it is the same."""
    if given is not None:
        if described_sampler(given) != described:
            raise WrongRunError(f"the run is of the sampler {described}, but {given!r} was passed")
        return given
    if described.keys() != {"name", "class", "settings"} or type(described["class"]) is not str:
        raise ValueError(f"its sampler is {described!r:.120}")
    settings = _table("settings", described["settings"])
    try:
        return as_sampler(kind, {**described, "settings": settings})
    except LookupError as error:
        raise WrongRunError(f"the run is of the sampler {error}, which is none of ours; pass it as sampler=") from None
    except (TypeError, OverflowError) as error:  # settings that the sampler does not have, or refuses
        raise ValueError(f"its sampler is {described!r:.120}: {error}") from None


def unpacked_labels(packed: bytes, d: int) -> tuple[Hashable, ...] | None:
    """Return d labels from their JSON; None where there is none, and sites are merely numbered."""
    if not packed:
        return None
    try:
        listed = json.loads(packed)
        if not isinstance(listed, list):
            raise ValueError("its labels are not a list")
        return check_labels([_label(label) for label in listed], d)
    except (TypeError, RecursionError) as error:  # labels that cannot be hashed, or are nested too deeply
        raise ValueError(f"its labels cannot be read: {error}") from None


def _label(label: Any) -> Hashable:
    found: Hashable = tuple(_label(part) for part in label) if isinstance(label, list) else label
    return found
