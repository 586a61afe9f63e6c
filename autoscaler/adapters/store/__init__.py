"""Where the record goes on this machine's disk."""
