"""The real store, for the tests that restore from one."""

from support.seaweed import object_store

__all__ = ["object_store"]
