"""The closed set of reasons a pool's step can carry. `record` holds the sentence of each."""

from enum import Enum


class PoolReason(Enum):
    """Why a number of slots is what it is, or why a slot is made, marked or deleted."""

    # what asks for slots
    GROWTH = "growth of demand over the refill lead"
    RHYTHM = "growth of demand at this minute of the hour"
    FORECAST = "the forecast exceeds the usual growth"
    EVENT = "a known event"
    MINIMUM = "the pool's minimum"
    ZONE_MINIMUM = "a zone's minimum"
    # what keeps slots from being asked for
    NOISE = "bursts like this one end before a refill is warm"
    EVENT_CEILING = "a known event allows no more"
    MAXIMUM = "the pool's maximum"
    BUDGET = "the pool's GPU budget"
    UNUSED = "nothing needs the pool"
    # what keeps slots that are not asked for
    STALE = "demand is not known: nothing shrinks"
    YOUNG = "too little was seen yet to size by: nothing shrinks"
    IDLE_HOT = "a slot stays warm for a while after it was needed"
    # what keeps orders from being given
    STARTS_LIMITED = "enough slots are under way"
    NO_ROOM = "no tier has room left"
    SPOT_SHARE = "the share of spot is used up"
    NO_CAPACITY = "capacity is missing in every tier"
    PRIORITY = "the slots' PriorityClass cannot be used"
    CONTENT_FAILING = "image or weights keep failing"
    ZONE_OUT = "no tier has capacity in the zone"
    GANGS_HOLD = "what is held for gangs leaves the pool's GPU budget no more"
    LOANS_UNKNOWN = "what gangs have on loan is not known yet"
    # what is lent to batch work
    LENDS = "idle slots beyond what demand may soon need"
    LENDS_NOT = "nothing is lent while it is not known what demand may soon need"
    RECALLS = "serving may soon need what it has lent"
    RECALLS_ALL = "the pool lends no more"
    # nodes for gangs of batch work
    GANG = "nodes for a gang that lacks nothing else"
    GANG_OVER = "its gang has started, or wants no nodes any more"
    GANG_LATE = "the gang could not start on nodes made for it in time"
    GANG_UNSURE = "whether the gang still wants nodes has not been known for a minute"
    GANG_LIMIT = "the pool's GPUs for gangs are in use"
    # why a slot is made
    REFILL = "refill"
    PROBE = "one slot, or one pod for a gang, asks whether capacity is back"
    ROTATED = "replaces a slot on the same node"
    # why a slot goes
    SURPLUS = "more than needed"
    MOVED = "capacity is missing where it waits: the deficit moves on"
    LATE_LAUNCH = "no node was launched in time"
    LATE_REGISTRATION = "the node did not join in time"
    LATE_GPU = "the node's GPUs did not become usable in time"
    LATE_IMAGE = "the images were not there in time"
    LATE_WEIGHTS = "the weights were not there in time"
    FAILED = "the slot failed"
    EXPIRED = "the slot's deadline passed"
    OUTDATED = "made for other images or weights"
    RETIRED = "the node has reached its age or its end"
    INTERRUPTED = "the provider takes the node"
    NODE_LOST = "the node is gone"
    NODE_UNUSABLE = "the node cannot be used any more"
    DISK_FULL = "the node is short of disk, and images that nobody runs are deleted there"
    UNKNOWN_TIER = "made for a tier that is no more"
    HANDED_OVER = "gives way to a replica"
    LEASED = "marked for a replica that waits"
    LEASE_ENDED = "the replica does not wait any more"
    # NodePools
    NODE_POOL_MISSING = "the tier's NodePool is not there"
    LIMITS = "the NodePool's limits differ from the tier's"
    DRIFT = "drift is held back"
    # states
    STEADY = "slots and need agree"
    UNREAD = "the cluster was not read: nothing is changed"
