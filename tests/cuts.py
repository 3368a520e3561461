"""Coresets of rows that are cut into other blocks than usual, or passed over by another number of threads."""

from bayescore.coresets.build import build_dataset
from bayescore.coresets.methods import method_of
from bayescore.data.dataset import open_rows
from bayescore.families.family import check_family


class Recut:
    """A source that comes in pieces of `step` rows, whatever is asked for."""

    def __init__(self, source, step):
        self.source, self.step = source, step
        self.design, self.label, self.classes, self.n_rows = source.design, source.label, source.classes, source.n_rows

    def blocks(self):
        return self.source.blocks()

    def division(self, step):
        return self.source.division(self.step)


def build_in_blocks(data, y=None, *, label=None, weights=None, block_rows=None, cores=None, **asked):
    """Build a coreset as `build_coreset` does, with canonical blocks of `block_rows` and on `cores` threads."""
    dataset = open_rows(data, y, label=label, weights=weights, once=True, block_rows=block_rows, cores=cores)
    design = {name: asked.pop(name, False) for name in ("intercept", "standardize")}
    family = check_family(asked.pop("family", "logistic"))
    size, seed = asked.pop("size", "auto"), asked.pop("random_state", 7)
    method = method_of(asked.pop("method", "auto"), asked)
    return build_dataset(dataset, method, None if size == "auto" else size, seed, family, **design)
