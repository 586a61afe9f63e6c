"""The command line: `headroom` and `kubectl headroom`. Parses, calls a room, prints; it holds no logic of its own."""
