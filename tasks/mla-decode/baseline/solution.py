"""The baseline by the name that a solution has."""
from baseline import marathon_run  # noqa: F401
