"""What the external scaler has done since it started, for the controller's own metrics."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Counts:
    """Figures of one server."""

    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Finished calls by method and status code, such as ("GetMetrics", "OK")."""
    held: int = 0
    """Values that were the last good word because signals could not be read."""
    pushed: int = 0
    """Messages pushed on streams."""
    streams: int = 0
    """Streams open now."""
    certificates: int = 0
    """Times that certificates were read: at the start, and whenever their files had changed."""
    certificates_refused: bool = False
    """Whether the files were of no use when somebody connected last, so that an older pair is shown."""
    certificate_ends_s: float | None = None
    """Until when the certificate that is shown is good, with all that lead from it to its authority, in Unix seconds;
    None without one, or where it cannot be told."""
