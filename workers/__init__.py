"""What runs on a node: the data plane. Nothing here imports Django or the control plane."""
