"""Numbers of answers as a person reads them: values with units, intervals, windows, shares.

Enters: measurements. Leaves: short texts without a verb, which sentences, tables and comments are made of.
"""

from autoscaler.preflight.answers import Answer, CannotTell, Measured, Window
from autoscaler.record.explain import duration, number


def behind(found: Measured) -> str:
    """What stands behind a number: interval, count, window, holes."""
    parts = []
    between = interval(found)
    if between:
        parts.append(f"bounds: {between}" if found.sure >= 1 else f"{100 * found.sure:.0f} % sure: {between}")
    elif found.low is None and found.counted == "windows":
        parts.append("no interval")
    if found.count:
        parts.append(f"{found.count:,} {found.counted}")
    parts.append(window_text(found.window))
    return "; ".join(parts)


def window_text(window: Window) -> str:
    """Length of the record, and how much of it is unknown."""
    text = f"{lasting(window.until_s - window.from_s)} of record"
    share = window.unknown_s / max(window.until_s - window.from_s, 1e-9)
    return text if share < 0.0005 else f"{text}, {100 * share:.2g} % of it unknown"


def lasting(seconds: float) -> str:
    """A duration; from two days on in days."""
    return f"{number(seconds / 86_400.0)} days" if seconds >= 2 * 86_400.0 else duration(seconds)


def value_text(value: float, unit: str) -> str:
    """A value with its unit: 12.3 requests in flight, 45 s, 87 %."""
    if unit == "s":
        return lasting(value)
    if value == 1 and unit == "replicas":
        return "1 replica"
    return f"{100 * value:.3g} %" if unit == "ratio" else f"{number(value)} {unit}"


def interval(found: Measured) -> str:
    """The interval as text; empty where there is none, or none that its rounding would show."""
    if found.low is None or found.high is None:
        return ""
    same = value_text(found.low, found.unit) == value_text(found.high, found.unit)
    return "" if same else span(found.low, found.high, found.unit)


def span(low: float, high: float, unit: str) -> str:
    """Two values of one unit, the unit said once."""
    if unit == "s":
        return f"{lasting(low)} to {lasting(high)}"
    if unit == "ratio":
        return f"{100 * low:.3g} to {100 * high:.3g} %"
    return f"{number(low)} to {number(high)}"


def shown_ratio(share: float) -> str:
    """A share as a percentage that is neither 0 nor 100 by rounding alone."""
    percent = 100 * share
    if 0 < percent < 0.1 or 99.9 < percent < 100:
        return "less than 0.1 %" if percent < 50 else "more than 99.9 %"
    return f"{percent:.1f} %" if 99 < percent < 100 else f"{percent:.3g} %"


def said(found: Answer) -> str:
    """An answer as a cell of a table: the number with its interval, or that it cannot be told."""
    if isinstance(found, CannotTell):
        return "cannot tell"
    text, between = value_text(found.value, found.unit), interval(found)
    return f"{text} ({between})" if between else text
