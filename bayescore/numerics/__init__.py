"""Methods that know no model: random rows, errors of moments, importance weights, chains, elementary functions."""
