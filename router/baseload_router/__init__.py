"""The InferenceGraph router: KServe's graphs, made for LLM traffic."""
