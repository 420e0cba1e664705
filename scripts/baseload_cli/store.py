"""Which object store a command talks to."""

import os
from pathlib import Path

from baseload_local.errors import NotRunningError
from baseload_local.stack import store_settings
from baseload_local.state import StateFolder
from baseload_storage.settings import S3Settings

STATE_HELP = "State folder of `baseload up`, whose object store is used when no AWS_ variable names another."
OWN_VARIABLES = ("AWS_ENDPOINT_URL", "AWS_ACCESS_KEY_ID", "AWS_PROFILE")


def settings_for(state_path: Path) -> S3Settings:
    """The environment's store where it names one, else the local stack's, else what boto3 finds."""
    if any(name in os.environ for name in OWN_VARIABLES):
        return S3Settings()
    state = StateFolder.at(state_path)
    stack = state.read_stack()
    if stack is None:
        return S3Settings()
    urls = [part["url"] for part in stack["processes"] if part["name"] == "object-store"]
    if not urls:
        raise NotRunningError(f"the stack of {state_path} has no object store yet; try again in a moment")
    return store_settings(urls[0], state.credentials())
