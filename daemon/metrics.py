"""What is counted, for Prometheus. Names end as is usual there: ``_total`` is added to counters."""

from prometheus_client import CollectorRegistry, Counter

REGISTRY = CollectorRegistry()

EVENTS = Counter("stenod_events", "Numbered events told", ["type"], registry=REGISTRY)
WARNINGS = Counter("stenod_warnings", "Warnings told", ["code"], registry=REGISTRY)
SESSIONS_ENDED = Counter("stenod_sessions_ended", "Sessions that ended", ["reason"], registry=REGISTRY)
SESSIONS_RESUMED = Counter("stenod_sessions_resumed", "Senders that came back", registry=REGISTRY)
SESSIONS_TAKEN_UP = Counter(
    "stenod_sessions_taken_up", "Sessions that outlived a killed daemon", registry=REGISTRY
)
REPETITIONS_GIVEN_UP = Counter(
    "stenod_repetitions_given_up",
    "Sessions taken up whose words did not come out as they were told",
    registry=REGISTRY,
)
READERS_DROPPED = Counter(
    "stenod_readers_dropped", "Readers that were dropped", ["reason"], registry=REGISTRY
)
"""Also senders that do not read their events."""
