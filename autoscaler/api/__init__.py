"""What owners of workloads write: the one model of a policy, as a custom resource, as annotations and in JSON lines.

Enters: values as a person or a program wrote them, the readings of `decide` among them. Leaves: frozen models and the
core's own values, or an InputError naming field, value and legal range. It knows neither where the text came from nor
what is done with it.
"""
