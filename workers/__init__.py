"""What runs on a node, the data plane; and the command line. Nothing here imports Django or the control plane."""
