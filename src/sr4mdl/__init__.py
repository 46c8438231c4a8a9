"""sr4mdl: find the shortest formula that explains a table of numbers."""

__version__ = "0.1.0"
