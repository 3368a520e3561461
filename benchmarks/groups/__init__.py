"""Groups: whether models of groups are right, and how they scale with groups and terms."""
