"""What goes on in a server, as numbers that Prometheus reads; they are of one application, not of the process."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from ragsmith.models.usage import Usage
from ragsmith.serving.workers import Workers

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Metrics:
    """Counts requests by route and status, how long they take, and what is paid; the rest is read when it is asked for.

    Every label has few values: routes that there are, and statuses.
    """

    def __init__(self, workers: Workers) -> None:
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "ragsmith_requests", "Requests that were answered.", ["route", "status"], registry=self._registry
        )
        self._seconds = Histogram(
            "ragsmith_request_seconds",
            "Seconds from a request's head to the end of its reply.",
            ["route"],
            buckets=SECONDS,
            registry=self._registry,
        )
        self._calls = Counter("ragsmith_model_calls", "Calls of language models.", registry=self._registry)
        self._tokens = Counter("ragsmith_model_tokens", "Tokens of these.", ["kind"], registry=self._registry)
        self._declined = Counter("ragsmith_declined", "Answers that are none.", registry=self._registry)
        self._feedback = Counter("ragsmith_feedback", "Feedback that was kept.", ["thumb"], registry=self._registry)
        for name, said, read in (
            ("ragsmith_answering", "Questions that are being answered.", lambda: workers.busy),
            ("ragsmith_waiting", "Questions that wait for their turn.", lambda: workers.waiting),
            ("ragsmith_given_up", "Questions that nobody waited for to the end, so far.", lambda: workers.given_up),
        ):
            Gauge(name, said, registry=self._registry).set_function(read)

    def request(self, route: str, status: int, seconds: float) -> None:
        """A request was answered."""
        self._requests.labels(route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def answer(self, usage: Usage, *, declined: bool) -> None:
        """An answer was made."""
        self._calls.inc(usage.calls)
        self._tokens.labels("input").inc(usage.input_tokens)
        self._tokens.labels("output").inc(usage.output_tokens)
        self._declined.inc(declined)

    def feedback(self, thumb: str) -> None:
        """Feedback was kept."""
        self._feedback.labels(thumb).inc()

    def text(self) -> bytes:
        """All of it, in Prometheus' text format."""
        return generate_latest(self._registry)
