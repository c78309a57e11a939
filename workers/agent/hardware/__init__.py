"""What this node is made of: its GPUs, by NVML or by a description, or CPU and memory where there are none."""
