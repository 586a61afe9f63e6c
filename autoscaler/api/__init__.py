"""What owners of workloads write: the one model of a policy, and the lines of readings that `decide` takes.

Enters: JSON values as a person or a program wrote them. Leaves: frozen models and the core's own values, or an
InputError naming field, value and legal range. It knows neither where the text came from nor what is done with it.
"""
