"""Errors of the engine. Each has a message of one line: the fault, where it is, what is possible."""


class Error(Exception):
    """Something failed: a file could not be written, memory could not be had."""


class InvalidInput(Error, ValueError):
    """A setting, a network, a file or an array is not as it must be."""


class OverBudget(Error, MemoryError):
    """A run would need more memory than its budget."""
