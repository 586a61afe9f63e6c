"""Known events that come again: cron-like schedules with a time zone, unrolled into windows of time.

Enters: a schedule of five fields (minute, hour, day of month, month, day of week), a zone of the tz database, seconds.
Leaves: the windows that touch a span of time. As with cron, where both days are restricted either one matches. A local
time that the clocks skip begins when they have been set on; one that comes twice begins the first time.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

FIELDS: Final = (
    ("minute", 0, 59), ("hour", 0, 23), ("day of month", 1, 31), ("month", 1, 12), ("day of week", 0, 7),
)  # fmt: skip
_DAYS: Final = {name: at for at, name in enumerate(("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"))}
_MONTHS: Final = {
    name: at + 1
    for at, name in enumerate(
        ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
    )
}  # fmt: skip
MOST_PER_DAY: Final = 24


@dataclass(frozen=True, slots=True)
class Schedule:
    """When windows begin, in local time."""

    minutes: tuple[int, ...]
    hours: tuple[int, ...]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """0 is Sunday."""
    any_day: bool
    """The day of the month is a star."""
    any_weekday: bool

    def on(self, day: date) -> bool:
        """Whether windows begin on a day."""
        if day.month not in self.months:
            return False
        in_month, in_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        if self.any_day or self.any_weekday:
            return in_month and in_week
        return in_month or in_week


def read_schedule(text: str) -> Schedule:
    """The schedule in a text such as ``30 7 * * MON-FRI``. Raises ValueError with the field and its legal values."""
    words = text.upper().split()
    if len(words) != len(FIELDS):
        raise ValueError(f"{text!r} has {len(words)} fields; give minute, hour, day of month, month, day of week")
    minutes, hours, days, months, weekdays = (_values(word, *field) for word, field in zip(words, FIELDS, strict=True))
    if len(minutes) * len(hours) > MOST_PER_DAY:
        raise ValueError(f"{text!r} begins more than {MOST_PER_DAY} times a day; give minutes and hours")
    week = frozenset(day % 7 for day in weekdays)
    return Schedule(tuple(sorted(minutes)), tuple(sorted(hours)), days, months, week, words[2] == "*", words[4] == "*")


def read_zone(name: str) -> ZoneInfo:
    """The time zone of a name. Raises ValueError where it is none."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(
            f"{name!r} is no time zone that is known here; give one such as Europe/Berlin or UTC"
        ) from error


def windows(
    schedule: Schedule, zone: ZoneInfo, duration_s: float, from_s: float, to_s: float
) -> Iterator[tuple[float, float]]:
    """The windows (begin, end) in epoch seconds that touch [from_s, to_s), in order."""
    day = (datetime.fromtimestamp(from_s - duration_s, UTC) - timedelta(days=1)).date()
    last = (datetime.fromtimestamp(to_s, UTC) + timedelta(days=1)).date()
    while day <= last:
        if schedule.on(day):
            for hour in schedule.hours:
                for minute in schedule.minutes:
                    begin_s = datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone).timestamp()
                    if begin_s < to_s and begin_s + duration_s > from_s:
                        yield begin_s, begin_s + duration_s
        day += timedelta(days=1)


def _values(word: str, field: str, low: int, high: int) -> frozenset[int]:
    """The values of one field: stars, numbers, names, ranges, steps and lists of them."""
    found: set[int] = set()
    for part in word.split(","):
        span, _, step = part.partition("/")
        first, dash, last = span.partition("-")
        begin = low if span == "*" else _number(first, field, low, high)
        end = high if span == "*" or (step and not dash) else _number(last, field, low, high) if dash else begin
        every = 1 if not step else _number(step, field, 1, high)
        if begin > end:
            raise ValueError(f"{field} {part!r} goes backwards; give the smaller value first")
        found |= set(range(begin, end + 1, every))
    return frozenset(found)


def _number(word: str, field: str, low: int, high: int) -> int:
    names = _DAYS if field == "day of week" else _MONTHS if field == "month" else {}
    if word in names:
        return names[word]
    if not (word.isascii() and word.isdigit()) or not low <= int(word[:6]) <= high:
        raise ValueError(f"{field} {word!r} is out of range; give {low}..{high}, *, a range, a step or a list")
    return int(word)
