"""A module of the room that is no probe."""
