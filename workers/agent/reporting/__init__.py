"""What the control plane hears of this node: telemetry, usage records, kept prompts; and the nudges that come back."""
