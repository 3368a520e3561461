"""Pages and pictures of what comparisons and certificates found; reads their data, knows nothing of their making."""
