"""Repositories of the Hugging Face hub, pinned to a commit."""

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from baseload_storage.errors import HubError, ReferenceInvalidError

_URI = re.compile(r"hf://(?P<repo>[A-Za-z0-9._-]+/[A-Za-z0-9._-]+)(?:@(?P<revision>[A-Za-z0-9._/-]+))?")


def download(
    uri: str,
    folder: Path,
    allow_patterns: Sequence[str] | None = None,
    ignore_patterns: Sequence[str] | None = None,
) -> str:
    """Fetch ``hf://org/name[@revision]`` into ``folder``. Returns its origin, ``hf://org/name@COMMIT``.

    The hub's address and token come from HF_ENDPOINT and HF_TOKEN, as everywhere. Raises
    ReferenceInvalidError or HubError.
    """
    match = _URI.fullmatch(uri)
    if match is None:
        raise ReferenceInvalidError(
            f"{uri!r} is no hub repository; write hf://org/name or hf://org/name@revision"
        )
    return _download(match["repo"], match["revision"], folder, allow_patterns, ignore_patterns)


def _download(
    repo: str,
    revision: str | None,
    folder: Path,
    allow_patterns: Sequence[str] | None,
    ignore_patterns: Sequence[str] | None,
) -> str:
    from huggingface_hub import HfApi  # noqa: PLC0415 - a second, which a restore does not need
    from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled  # noqa: PLC0415

    api = HfApi()
    try:
        commit = api.model_info(repo, revision=revision).sha
        api.snapshot_download(
            repo,
            revision=commit,
            local_dir=folder,
            allow_patterns=list(allow_patterns) if allow_patterns else None,
            ignore_patterns=[*(ignore_patterns or ()), ".cache/*"],
        )
    except HfHubHTTPError as error:
        raise HubError(_explained(error, repo, revision, api.endpoint)) from error
    except (OfflineModeIsEnabled, OSError) as error:
        raise HubError(f"the hub {api.endpoint} cannot be reached: {error}") from error
    _drop_bookkeeping(folder)
    return f"hf://{repo}@{commit}"


def _explained(error: Exception, repo: str, revision: str | None, endpoint: str) -> str:
    from huggingface_hub import errors  # noqa: PLC0415

    if isinstance(error, errors.GatedRepoError):
        return (
            f"{repo} is gated: accept its terms on {endpoint}/{repo}, then set HF_TOKEN to a token of yours"
        )
    if isinstance(error, errors.RevisionNotFoundError):
        return f"{repo} has no revision {revision}; leave it out for the newest, or name a branch or commit"
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"{endpoint} has no repository {repo}, or it is private: check the name, or set HF_TOKEN"
    return f"the hub {endpoint} refused {repo}: {error}"


def _drop_bookkeeping(folder: Path) -> None:
    """huggingface_hub keeps notes about its downloads beside the files."""
    shutil.rmtree(folder / ".cache", ignore_errors=True)
