"""MRP of real votes by a multilevel coreset: build, sample, certify, poststratify, plot."""

from copy import deepcopy
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import bayescore as bc
from bayescore.diagnostics.results import Level
from tests.hand_made import fit_of, poststratify

mpl.use("Agg")
QUIET = {"progressbar": False}


@pytest.mark.slow
def test_votes_by_state_end_to_end(shared_data):
    """148,494 votes in 10,390 counts of cells become 51 states' pseudo-rows, 18 columns beside them.

    Shares by state lie within 4 sds of the raw ones, which are independent binomials, and what pooling moves them by:
    false alarms of one in 300 for 51 states. The control: effects of other states.
    """
    cells = pd.read_parquet(shared_data("ghitza_gelman_cells.parquet"))
    cells["votes"] = cells.success + cells.failure
    formula = "success ~ C(eth) + C(inc) + C(age) + C(year) + z_incstt + z_trnprv + (1 | stt)"
    core = bc.build_coreset(cells, formula=formula, trials="votes", method="multilevel", random_state=0, **QUIET)
    assert (core.n_total, core.weight_total) == (10_390, 148_494)
    assert core.params["pseudo_rows"] <= 2 * 51 + core.n_features
    idata = bc.sample(core, random_seed=1, **QUIET)
    certificate = bc.certify(idata, core, cells, trials="votes", **QUIET)
    assert certificate.level is Level.CERTIFIED
    assert certificate.effects["mean_error_sd"].abs().max() < 0.05

    raw = cells.groupby("stt")[["success", "votes"]].sum()
    share = raw.success / raw.votes
    np.testing.assert_array_equal(certificate.effects["weight"], raw.votes)
    np.testing.assert_allclose(certificate.effects["share"], share)
    sd = np.sqrt(share * (1 - share) / raw.votes)

    def off(draws):
        return (poststratify(draws, core, cells, by="stt", weights="votes")["mean"] - share).abs() / sd

    assert off(idata).max() < 4
    turned = deepcopy(idata)
    turned.posterior["u_stt"].values[:] = turned.posterior["u_stt"].values[..., ::-1].copy()
    assert off(turned).max() > 7
    fit = fit_of(idata, core)
    assert len(fit.plot_effects().get_yticklabels()) == 51
    assert "stt" in replace(fit, certificate=certificate).plot_shrinkage().get_xlabel()
    mpl.pyplot.close("all")
