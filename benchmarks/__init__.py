"""Measurements that are run by hand. docs/performance.md has the figures and the commands."""
