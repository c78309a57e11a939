"""Public traces made into workloads: the five of the score table, each a function from a load to jobs."""
