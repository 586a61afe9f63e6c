"""The error that ended a group of tasks, for whoever has one line to tell it in."""


def first_of(error: BaseException) -> BaseException:
    """The first error that is no group, however deep the groups lie."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
