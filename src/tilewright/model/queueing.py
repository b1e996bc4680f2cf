"""How long equal customers take who share servers: mean value analysis of a closed network.

Blocks on an SM are customers; the pipes of the SM are stations where they queue; a latency is a
delay that all can sit out at the same time. One customer takes the sum of its demands; with many
the busiest station is always busy and sets the pace. In between lies what a kernel with two
resident blocks does: one block's latency is hidden by the other's work, but only partly.
Source: M. Reiser and S. S. Lavenberg, "Mean-Value Analysis of Closed Multichain Queuing
Networks", J. ACM 27 (1980): exact for exponential service, a good estimate here.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.errors import InputError


def round_time(demands: Sequence[float], delay: float, customers: int) -> float:
    """The time in which each of `customers` gets all its demands served and sits out the delay.

    Times in one unit. Raises: InputError for fewer than one customer and for negative times.
    """
    if customers < 1:
        raise InputError(f"customers={customers} must be 1 or more.")
    if delay < 0 or any(demand < 0 for demand in demands):
        raise InputError("demands and delay are times; they cannot be negative.")
    waiting = [0.0] * len(demands)  # customers at each station, on average
    total = 0.0
    for number in range(1, customers + 1):
        stays = [demand * (1 + queue) for demand, queue in zip(demands, waiting, strict=True)]
        total = delay + sum(stays)
        if not total:
            return 0.0
        waiting = [number * stay / total for stay in stays]
    return total
