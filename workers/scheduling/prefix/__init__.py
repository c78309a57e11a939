"""What each endpoint is believed to have cached."""
