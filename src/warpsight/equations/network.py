"""A closed queueing network of customers that go round: servers with queues, and a delay that all can spend at once.

Mean-value analysis of one class of customers after Schweitzer (1979) and Bard (1979): a customer that arrives at a server finds the
(C - 1) / C part of the mean queue. The fixed point X sum_k R_k + X Z = C with R_k = D_k / (1 - (C - 1) / C X D_k) is one increasing
function of the throughput X, so it is found by bisection, for all rows at once.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_HALVINGS = 52  # of an interval that begins at 0: all bits of a float64


def closed_network(demands: Floats, delay: Floats, customers: Floats) -> tuple[Floats, Floats]:
    """Throughput [R] (rounds of one customer per cycle) and residence [R, K] (cycles a round at each server, queueing included).

    `demands` [R, K] cycles of service a round at each of K servers, `delay` [R] cycles a round spent elsewhere, `customers` [R] of
    at least 1. The throughput never exceeds 1 / the largest demand (the bottleneck law). A row without any cycles is a ValueError.
    """
    largest = demands.max(axis=1)
    if not (largest + delay > 0).all():
        raise ValueError("a round takes no time at all")
    others = (customers - 1) / customers
    # alone nobody waits, so no throughput is above this; and no server does more than one thing at a time
    bottleneck = np.divide(1.0, largest, out=np.full(len(delay), np.inf), where=largest > 0)
    high = np.minimum(customers / (delay + demands.sum(axis=1)), bottleneck)
    low = np.zeros(len(delay))
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        needed = middle * (delay + _residence(demands, others * middle).sum(axis=1))
        fits = needed <= customers
        low, high = np.where(fits, middle, low), np.where(fits, high, middle)
    return high, _residence(demands, others * high)


def _residence(demands: Floats, seen: Floats) -> Floats:
    """Cycles at each server when arrivals see `seen` [R] rounds a cycle of others."""
    return np.asarray(demands / np.maximum(1.0 - seen[:, None] * demands, np.finfo(np.float64).tiny))
