"""What would have been: recorded inputs under other settings, and observed arrivals served by other replicas.

Nothing here acts. Records of what happened enter, comparisons with their stated error leave.
"""
