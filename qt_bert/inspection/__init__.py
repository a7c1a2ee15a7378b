"""What the inspection page shows, without Streamlit: models that visitors share, state, views."""
