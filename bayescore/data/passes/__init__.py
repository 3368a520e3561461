"""How passes over rows are run: cut, sent to workers, summed exactly."""
