"""The devices of shared shapes that carry shares: how many thousandths of each are held.

Enters: shares that begin or end on a device. Leaves: what is left of each. A device stands here by a number within its
node, which means a device only while a share is on it; whole units lie on the node's other devices, whichever they are.
So a node's devices are those that carry shares, those that whole units hold, and those that are free.
"""

import numpy as np

from autoscaler.core.batch.params import PER_DEVICE
from autoscaler.core.columns import I64, Bools


class Devices:
    """The devices of all nodes."""

    def __init__(self, nodes: int, most: int) -> None:
        self.held: I64 = np.zeros((nodes, most), dtype=np.int64)
        """Thousandths that shares hold, by node and device; 0 where a device carries none."""
        self.barred: Bools = np.zeros(nodes, dtype=np.bool_)
        """Nodes on which no more shares join others: somebody waits there for whole devices, and would for them."""

    def opened(self, node: int) -> int:
        """Devices of a node that carry shares."""
        return int(np.count_nonzero(self.held[node]))

    def all_opened(self) -> I64:
        """The same of all nodes; shape (nodes,)."""
        return np.asarray((self.held > 0).sum(axis=1), dtype=np.int64)

    def rests(self) -> I64:
        """Thousandths that are left of devices that carry shares, 0 of others; shape (nodes, most)."""
        return np.where(self.held > 0, PER_DEVICE - self.held, 0)

    def unused(self, node: int) -> int:
        """The first number of a node that means no device now."""
        return int(np.argmin(self.held[node] > 0))

    def take(self, node: int, device: int, share: int) -> bool:
        """Put a share onto a device; whether it is the first there. Raises ValueError where it has too little left."""
        held = int(self.held[node, device])
        if share < 1 or held + share > PER_DEVICE:
            raise ValueError(f"devices: {share} thousandths beside {held} on device {device} of node {node}")
        self.held[node, device] = held + share
        return held == 0

    def give(self, node: int, device: int, share: int) -> bool:
        """Take a share off a device; whether it was the last there. Raises ValueError where less is held."""
        held = int(self.held[node, device])
        if not 1 <= share <= held:
            raise ValueError(f"devices: {share} thousandths of {held} on device {device} of node {node}")
        self.held[node, device] = held - share
        return held == share
