"""Pure model of an engine: times are passed in, nothing waits."""
