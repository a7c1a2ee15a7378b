"""The inspection page: models that visitors share, state, widgets. `apps/screens/` draws with them."""
