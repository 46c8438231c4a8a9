"""The exception tree.

::

    Sr4mdlError
    |-- ParseError (also ValueError)        text that is not a formula
    |-- DataError (also ValueError)         a table that cannot be used as it is
    |-- CheckpointError                     damaged, truncated or foreign weights
    |-- VocabularyMismatchError             weights made for another move or token table
    `-- BudgetExceededError                 a limit of memory or size would be passed

Wrong arguments are plain ``ValueError`` or ``TypeError`` that name the parameter,
the value got and what is allowed.
"""


class Sr4mdlError(Exception):
    """Base class of every error that is specific to this package."""


class ParseError(Sr4mdlError, ValueError):
    """A text is not a formula.

    Parameters
    ----------
    message : str
        What is wrong, without the position.
    text : str
        The whole text that was parsed.
    position : int
        Index of the offending character, counted from 0.
    """

    def __init__(self, message: str, text: str, position: int) -> None:
        self.text = text
        self.position = position
        shown = text if len(text) <= 80 else text[:77] + "..."
        super().__init__(f"{message} at position {position} of {shown!r}")


class DataError(Sr4mdlError, ValueError):
    """A table cannot be used as it is; the message says why and what to do."""


class CheckpointError(Sr4mdlError):
    """A weights file is damaged, truncated or not one of ours."""


class VocabularyMismatchError(Sr4mdlError):
    """Weights were made for another table of moves or tokens."""


class BudgetExceededError(Sr4mdlError):
    """A stated limit of memory or size would be passed."""
