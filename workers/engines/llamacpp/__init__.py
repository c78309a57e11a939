"""llama.cpp by its prebuilt wheel: the light engine of a machine without a GPU."""
