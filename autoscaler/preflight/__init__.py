"""What a workload's recorded past says about the capacity it needs, before anything is switched on.

Recorded series enter, answers with their measurement, window and uncertainty leave. Where the record does not carry an
answer, the answer says so. This room reads no network and no clock: its sources hand it `WorkloadHistory` values.
"""
