"""Coresets: scores of rows, draws by score, and `build_coreset`, the one verb."""
