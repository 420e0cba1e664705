"""The ``baseload`` command: a thin shell over the packages."""
