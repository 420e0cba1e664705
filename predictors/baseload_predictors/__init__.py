"""KServe custom predictor: vLLM behind a batching layer."""
