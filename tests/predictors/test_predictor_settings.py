"""Flags and environment of the predictor."""

from pathlib import Path

import pytest

from baseload_predictors.engine import engine_flags
from baseload_predictors.main import read_settings


def test_flags_and_environment_come_from_one_declaration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BASELOAD_PREDICTOR_MAX_QUEUE", "7")
    settings = read_settings(
        ["--model-name=small", "--served-model-name=auto", "--served-model-name=s", "--model-dir=m"]
    )
    assert settings.names == ("small", "auto", "s")
    assert (settings.max_queue, settings.model_dir) == (7, Path("m"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give --snapshot s3://bucket/name[:tag], or --model-dir"),
        (["--model-dir=m", "--max-wait=-1"], "--max-wait: Input should be greater than or equal to 0"),
        (["--model-dir=m", "--http-port=70000"], "--http-port: Input should be less than or equal to 65535"),
        (["--model-dir=m", "--max-wiat=1"], "unrecognized arguments: --max-wiat=1"),
    ],
)
def test_a_wrong_flag_is_named_and_exits_with_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        read_settings(arguments)
    assert left.value.code == 2
    assert message in capsys.readouterr().err


def test_the_engine_gets_what_the_settings_say() -> None:
    settings = read_settings(
        ["--model-dir=m", "--model-name=small", "--served-model-name=auto", "--max-model-len=512"]
    )
    flags = engine_flags(settings, Path("m"))
    assert {"--model=m", "--max-model-len=512", "--max-num-seqs=16"} <= set(flags)
    assert flags[-3:] == ["--served-model-name", "small", "auto"]
    assert "--enforce-eager" not in flags
    assert "--enforce-eager" in engine_flags(settings.model_copy(update={"enforce_eager": True}), Path("m"))


def test_one_worker_needs_no_process_of_its_own() -> None:
    settings = read_settings(["--model-dir=m"])
    backend = "--distributed-executor-backend="
    assert any(flag.startswith(backend) for flag in engine_flags(settings, Path("m")))
    two = settings.model_copy(update={"tensor_parallel_size": 2})
    assert not any(flag.startswith(backend) for flag in engine_flags(two, Path("m")))
