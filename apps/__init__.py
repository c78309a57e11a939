"""The domain of the control plane, one Django app per area; layers are in docs/architecture.md."""
