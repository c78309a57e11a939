"""What of the waiting work can be done in time, and what is let go when not all of it can."""
