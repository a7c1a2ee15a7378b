"""Result files as dataclasses, to and from JSON, and what their names mean in words."""
