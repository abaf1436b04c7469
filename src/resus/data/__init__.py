"""Files become an InteractionLog."""
