"""vLLM, on a GPU or on the CPU."""
