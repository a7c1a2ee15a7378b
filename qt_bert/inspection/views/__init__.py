"""What each page shows, as numbers and figures, without a page."""
