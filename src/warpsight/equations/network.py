"""A closed queueing network of customers that go round: servers with queues, and a delay that all can spend at once.

Mean-value analysis of one class of customers after Schweitzer (1979) and Bard (1979): a customer that arrives at a server finds the
(C - 1) / C part of the mean queue. The fixed point X sum_k R_k + X Z = C with R_k = D_k / (1 - (C - 1) / C X D_k) is one convex
increasing function of the throughput X, so that Newton's method from above gets to it without a step too far, for all rows at once.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from warpsight.equations.pieces import pieces

Floats = npt.NDArray[np.float64]

# From above the distance at least halves with each step, and near the solution its digits double.
_MOST_STEPS = 64
_CLOSE = 1e-15


def closed_network(demands: Floats, delay: Floats, customers: Floats) -> tuple[Floats, Floats]:
    """Throughput [R] (rounds of one customer per cycle) and residence [R, K] (cycles a round at each server, queueing included).

    `demands` [R, K] cycles of service a round at each of K servers, `delay` [R] cycles a round spent elsewhere, `customers` [R] of
    at least 1. A delay is negative where a customer is at several servers at once: by what a round takes less. The
    throughput never exceeds 1 / the largest demand (the bottleneck law). A row without any cycles is a ValueError.
    """
    largest = demands.max(axis=1)
    if not (demands.sum(axis=1) + delay > 0).all():
        raise ValueError("a round takes no time at all")
    others = (customers - 1) / customers
    # alone nobody waits, so no throughput is above this; and no server does more than one thing at a time
    bottleneck = np.divide(1.0, largest, out=np.full(len(delay), np.inf), where=largest > 0)
    rate = np.minimum(customers / (delay + demands.sum(axis=1)), bottleneck)
    residence = np.empty_like(demands)
    for rows in pieces(len(delay), demands.shape[1]):
        rate[rows] = _solve(demands[rows], delay[rows], customers[rows], others[rows], rate[rows])
        residence[rows] = demands[rows] / _left(demands[rows], others[rows] * rate[rows])
    return rate, residence


def _solve(demands: Floats, delay: Floats, customers: Floats, others: Floats, above: Floats) -> Floats:
    """The throughput, from a bound `above` it; the bound where it holds the throughput back."""
    rate = above
    going = np.ones(len(rate), dtype=np.bool_)
    for _ in range(_MOST_STEPS):
        left = _left(demands, others * rate)
        residence = demands / left
        excess = rate * (delay + residence.sum(axis=1)) - customers
        slope = delay + (residence / left).sum(axis=1)
        step = np.maximum(excess, 0.0) / slope
        # a row that has arrived stays: its last digits must not depend on its neighbours
        rate = np.where(going, rate - step, rate)
        going &= step > _CLOSE * rate
        if not going.any():
            break
    return rate


def _left(demands: Floats, seen: Floats) -> Floats:
    """The part of each server's time that `seen` [R] rounds a cycle of the others leave."""
    return np.asarray(1.0 - seen[:, None] * demands)
