"""How to reach the object store. Each setting once; the environment names are boto3's and KServe's."""

from typing import Any

from pydantic import (
    AliasChoices,
    Field,
    FilePath,
    ModelWrapValidatorHandler,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_settings import BaseSettings, SettingsConfigDict

from baseload_storage.errors import SettingsInvalidError


def _env(field: str, *names: str) -> AliasChoices:
    return AliasChoices(field, *names)


class S3Settings(BaseSettings):
    """What KServe makes of an S3 Secret's annotations arrives as these variables. Keys not given are looked
    for where boto3 looks: profile, web identity, instance role. Raises SettingsInvalidError."""

    model_config = SettingsConfigDict(extra="forbid", populate_by_name=True, env_ignore_empty=True)

    endpoint_url: str | None = Field(
        default=None,
        pattern="^https?://",
        validation_alias=_env("endpoint_url", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    )
    region: str | None = Field(
        default=None, validation_alias=_env("region", "AWS_DEFAULT_REGION", "AWS_REGION")
    )
    access_key: SecretStr | None = Field(
        default=None, validation_alias=_env("access_key", "AWS_ACCESS_KEY_ID")
    )
    secret_key: SecretStr | None = Field(
        default=None, validation_alias=_env("secret_key", "AWS_SECRET_ACCESS_KEY")
    )
    session_token: SecretStr | None = Field(
        default=None, validation_alias=_env("session_token", "AWS_SESSION_TOKEN")
    )
    ca_bundle: FilePath | None = Field(default=None, validation_alias=_env("ca_bundle", "AWS_CA_BUNDLE"))
    verify_ssl: bool = Field(default=True, validation_alias=_env("verify_ssl", "S3_VERIFY_SSL"))
    virtual_bucket: bool = Field(
        default=False, validation_alias=_env("virtual_bucket", "S3_USER_VIRTUAL_BUCKET")
    )
    connect_timeout: float = Field(default=5.0, gt=0, description="seconds")
    read_timeout: float = Field(default=60.0, gt=0, description="seconds")

    @model_validator(mode="wrap")
    @classmethod
    def _explained(cls, values: Any, handler: ModelWrapValidatorHandler["S3Settings"]) -> "S3Settings":
        try:
            return handler(values)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            field = str(first["loc"][0]) if first["loc"] else ""
            names = ", ".join(_variables(field)) or "unknown"
            raise SettingsInvalidError(
                f"the object store's setting {field} ({names}): {first['msg']}"
            ) from error


def _variables(field: str) -> list[str]:
    """The environment variables that give a field."""
    known = S3Settings.model_fields.get(field)
    alias = known.validation_alias if known else None
    choices = alias.choices if isinstance(alias, AliasChoices) else []
    return [str(name) for name in choices if name != field]
