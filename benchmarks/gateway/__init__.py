"""What a gateway costs in front of an engine, side by side with others. docs/performance.md has the figures."""
