"""The closed set of reasons for what a cycle does and does not do."""

from dataclasses import dataclass
from enum import Enum


class BatchReason(Enum):
    """Why a gang is refused, waits, is admitted or gives way."""

    # refused at the door
    UNKNOWN_QUEUE = "no such queue takes gangs"
    UNKNOWN_SHAPE = "no such shape"
    UNKNOWN_LEVEL = "no such topology level"
    PRIORITY = "its priority is not below serving's"
    ABSURD = "a number that cannot be meant"
    # waits
    LIMIT = "a queue's limit"
    QUOTA = "others use what could be borrowed"
    UNLENT = "more than others ever lend"
    ROOM = "not enough free units"
    FRAGMENTED = "enough free units, in pieces too small"
    CORES = "enough free units, and too few cores or too little memory beside them"
    TOPOLOGY = "no domain of the required level has the room"
    TOO_LARGE = "more than usable nodes hold beside serving and others, were no gang there"
    BEHIND = "waits behind the first of its queue"
    LEAVING = "waits for others to leave"
    NODES = "waits for nodes that were asked for"
    UNTAKEN = "not looked at: more gangs are there than limits.batch_work takes in"
    # admitted
    FITS = "fits within quota and room"
    BACKFILL = "ends before a reservation begins"
    RESERVED = "its reservation is whole"
    LOAN = "on GPUs that serving lends"
    # gives way
    RECLAIMED = "a queue wants back what it is guaranteed"
    FAIR_SHARE = "its queue holds more than a fair share"
    OUTRANKED = "a gang of higher priority in its queue"
    RECALLED = "serving takes its GPUs back"
    LOST = "it lost GPUs that it held"
    OVERDUE = "it was told to leave and does not go"


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that would let a gang start."""

    reason: BatchReason
    where: str
    """A queue, a shape or a topology level."""
    units: int
    """How many more units it takes there."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a gang waits."""

    reason: BatchReason
    changes: tuple[Change, ...] = ()
