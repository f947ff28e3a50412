"""lagwatch's advice, and what KEDA's Kafka scaler with a HorizontalPodAutoscaler does."""

import math
from collections import deque

from lagwatch.core.scale import Goal, Scaler, Seen
from tests.bench.scaling.world import PARTITIONS, Policy, View

_STABLE_S = 300
"""`scaleDown.stabilizationWindowSeconds` of the HorizontalPodAutoscaler."""
_TOLERANCE = 0.1
_PLACE = (("orders", 0),)


def advised(target_s: float) -> Policy:
    """The number that `…/scale` answers."""
    scaler = Scaler(Goal(time_lag_s=target_s))

    def policy(view: View) -> int:
        seen = Seen(
            at_ms=view.at_s * 1000,
            places=_PLACE,
            committed=(view.committed,),
            log_end=(view.log_end,),
            consumers=view.consumers,
            partitions=PARTITIONS,
        )
        return scaler.observe(seen).desired or view.consumers

    return policy


def by_lag_threshold(threshold: float) -> Policy:
    """`ceil(lag / lagThreshold)`, at most the partitions, at least one.

    Source: KEDA, pkg/scalers/kafka_scaler.go, `getTotalLag` and the metric of type AverageValue;
    Kubernetes, pkg/controller/podautoscaler/replica_calculator.go, `GetObjectMetricReplicas`
    (tolerance) and horizontal.go, `stabilizeRecommendation`.
    """
    recommended: deque[tuple[int, int]] = deque()

    def policy(view: View) -> int:
        lag = min(view.log_end - view.committed, PARTITIONS * threshold)
        ratio = lag / (threshold * max(view.consumers, 1))
        wanted = view.consumers if abs(ratio - 1) <= _TOLERANCE else math.ceil(lag / threshold)
        recommended.append((view.at_s, wanted))
        while recommended[0][0] <= view.at_s - _STABLE_S:
            recommended.popleft()
        highest = max(number for _, number in recommended)
        return max(1, min(PARTITIONS, highest))

    return policy
