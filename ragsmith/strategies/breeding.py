"""Breeding where not everything is feasible: a gene that was just changed goes back; nothing else is ever changed."""

from __future__ import annotations

from random import Random

from ragsmith.strategies.strategy import Feasible, Genome


def towards(parent: Genome, child: Genome, feasible: Feasible, rng: Random) -> Genome:
    """``child`` if it is feasible; or else ``parent``, which is, with all genes of the child's that it can take.

    They are taken in random order, and what cannot be taken yet is tried again after the others. If other genes were
    changed to fit, the options that they were changed to would be had more often than the rest.
    """
    if feasible(child):
        return child
    waiting = [i for i, (old, new) in enumerate(zip(parent, child, strict=True)) if old != new]
    rng.shuffle(waiting)
    genome, tried = parent, 0
    while tried < len(waiting):
        i = waiting.pop(0)
        changed = (*genome[:i], child[i], *genome[i + 1 :])
        if feasible(changed):
            genome, tried = changed, 0
        else:
            waiting.append(i)
            tried += 1
    return genome
