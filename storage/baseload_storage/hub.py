"""Repositories of the Hugging Face hub, pinned to a commit."""

import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from baseload_storage.errors import HubError, ReferenceInvalidError, SourceInvalidError
from baseload_storage.source import PICKLES, is_pickle

_URI = re.compile(r"hf://(?P<repo>[A-Za-z0-9._-]+/[A-Za-z0-9._-]+)(?:@(?P<revision>[A-Za-z0-9._/-]+))?")
_EVERY_PICKLE = [f"*{suffix}" for suffix in sorted(PICKLES)]
_BOOKKEEPING = ".cache"
"""huggingface_hub keeps notes about its downloads beside the files."""


@dataclass(frozen=True, slots=True)
class _Selection:
    """Glob patterns of the files to fetch; None allows all."""

    allow: list[str] | None
    ignore: list[str]


def download(
    uri: str,
    folder: Path,
    allow_patterns: Sequence[str] | None = None,
    ignore_patterns: Sequence[str] | None = None,
    *,
    allow_pickle: bool = False,
) -> str:
    """Fetch ``hf://org/name[@revision]`` into ``folder``. Returns its origin, ``hf://org/name@COMMIT``.

    The hub's address and token come from HF_ENDPOINT and HF_TOKEN, as everywhere. Raises
    ReferenceInvalidError, SourceInvalidError (nothing but pickles) or HubError.
    """
    match = _URI.fullmatch(uri)
    if match is None:
        raise ReferenceInvalidError(
            f"{uri!r} is no hub repository; write hf://org/name or hf://org/name@revision"
        )
    selection = _Selection(
        list(allow_patterns) if allow_patterns else None, [*(ignore_patterns or ()), f"{_BOOKKEEPING}/*"]
    )
    return _download(match["repo"], match["revision"], folder, selection, allow_pickle)


def _download(
    repo: str, revision: str | None, folder: Path, selection: _Selection, allow_pickle: bool
) -> str:
    from huggingface_hub import HfApi  # noqa: PLC0415 - a second, which a restore does not need

    api = HfApi()
    with _explained(repo, revision, api.endpoint):
        info = api.model_info(repo, revision=revision)
        names = [sibling.rfilename for sibling in info.siblings or ()]
        if not allow_pickle:
            selection = _without_pickles(repo, names, selection)
        api.snapshot_download(
            repo,
            revision=info.sha,
            local_dir=folder,
            allow_patterns=selection.allow,
            ignore_patterns=selection.ignore,
        )
    shutil.rmtree(folder / _BOOKKEEPING, ignore_errors=True)
    return f"hf://{repo}@{info.sha}"


def _without_pickles(repo: str, names: list[str], selection: _Selection) -> _Selection:
    from huggingface_hub.utils import (  # type: ignore[attr-defined]  # noqa: PLC0415 - documented there,
        filter_repo_objects,  # but not marked as exported; lazy as above
    )

    wanted = list(
        filter_repo_objects(names, allow_patterns=selection.allow, ignore_patterns=selection.ignore)
    )
    pickles = [name for name in wanted if is_pickle(name)]
    if pickles and not any(name.endswith(".safetensors") for name in wanted):
        raise SourceInvalidError(
            f"{repo} has its weights only as pickles ({pickles[0]}), which can run code when loaded; "
            "name a revision with safetensors, or allow pickles"
        )
    return replace(selection, ignore=[*selection.ignore, *_EVERY_PICKLE])


@contextmanager
def _explained(repo: str, revision: str | None, endpoint: str) -> Iterator[None]:
    """Raises HubError for what the hub's client raises inside."""
    from httpx2 import HTTPError  # noqa: PLC0415 - see above
    from huggingface_hub import errors  # noqa: PLC0415

    try:
        yield
    except errors.GatedRepoError as error:
        raise HubError(
            f"{repo} is gated: accept its terms on {endpoint}/{repo}, then set HF_TOKEN to a token of yours"
        ) from error
    except errors.RevisionNotFoundError as error:
        raise HubError(
            f"{repo} has no revision {revision}; leave it out for the newest, or name a branch or commit"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise HubError(
            f"{endpoint} has no repository {repo}, or it is private: check the name, or set HF_TOKEN"
        ) from error
    except errors.HfHubHTTPError as error:
        raise HubError(f"the hub {endpoint} refused {repo}: {error}") from error
    except errors.HFValidationError as error:
        raise ReferenceInvalidError(f"hf://{repo}: {error}") from error
    except errors.OfflineModeIsEnabled as error:
        raise HubError("the hub is not asked while HF_HUB_OFFLINE is set; unset it") from error
    except (HTTPError, OSError) as error:
        raise HubError(f"{repo} cannot be fetched from the hub {endpoint}: {error}") from error
