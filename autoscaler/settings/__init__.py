"""What the administrator of an installation sets, once, for all workloads.

Enters: a file of settings, ``HEADROOM_*`` variables, flags. Leaves: one frozen `Settings`, or an InputError naming the
file or variable, field, value and legal range. It is the one room that reads the environment; it knows no policy.
"""
