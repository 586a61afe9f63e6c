"""The waits of an informer, each with the reason for its length."""

from dataclasses import dataclass, field

from autoscaler.adapters.kube.retry import BackoffBounds


@dataclass(frozen=True, slots=True)
class InformerTimes:
    """How long an informer waits for what; seconds."""

    page_s: float = 30.0
    """For one page of a list; the API server itself gives up after 60 s."""
    idle_s: float = 75.0
    """Without a line, a watch is taken for dead. Kubernetes 1.36 sends bookmarks 59.4 to 60.4 s apart (measured), which
    is a constant of its cacher and nobody's to ask for. A shorter wait would end every quiet watch before its bookmark:
    a dozen dials a minute, from versions that are never renewed and so end in lists (410). A server that is cut off is
    known sooner (`connection.GONE_AFTER_S`), and one that hangs as a whole by the lease."""
    watch_s: tuple[float, float] = (240.0, 480.0)
    """A watch is asked to end after a time drawn from here, so that watches spread over servers and over time."""
    lasting_s: float = 5.0
    """A watch that ends sooner has failed, whatever it said: the next one waits."""
    caught_up_s: float = 0.5
    """After watches that showed nothing: an open one has shown by then what they missed."""
    absent_s: float = 30.0
    """Between two looks for a resource that is not served, and how long one that was served must be missed."""
    backoff: BackoffBounds = field(default_factory=BackoffBounds)
