import numpy as np
import pytest

from bayescore.diagnostics import mmd
from bayescore.report.compare import measure, mmd_row, moment_errors, moment_row, noise_floor
from bayescore.samplers.posterior import read_posterior

NAMES = ("mmd_whitened", "mmd", "mean_error_sd", "sd_error", "correlation_error", "tail_error_sd")


def read(idata):
    return read_posterior(idata, "idata")


def test_both_distances_are_those_of_mmd(posterior):
    one, reference = posterior(1, mean=0.3, draws=100), posterior(0, draws=100)
    row = mmd_row(read(one), measure(read(reference), 400), 400)
    assert row["mmd"][0] == pytest.approx(mmd(one, reference))
    assert row["mmd_whitened"][0] == pytest.approx(mmd(one, reference, whiten=reference))
    assert 0.0 < row["mmd"][1] < row["mmd"][0]


def test_the_largest_error_comes_with_the_standard_error_at_its_place(posterior):
    candidate = posterior(1, mean=[0.0, -2.0, 0.0], sd=[1.0, 1.0, 0.5])
    difference, mcse, _ = moment_errors(read(candidate), measure(read(posterior(0)), 400))
    row = moment_row(difference, mcse)
    assert row["mean_error_sd"] == (-difference.mean[1], mcse.mean[1])
    assert row["sd_error"] == (-difference.sd[2], mcse.sd[2])
    assert row["mean_error_sd"][0] == pytest.approx(2.0, abs=0.3)
    assert row["sd_error"][0] == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("sticky", ["candidate", "reference"])
def test_the_noisier_side_is_named(posterior, sticky):
    good, slow = read(posterior(0)), read(posterior(1, rho=0.9))
    candidate, reference = (slow, good) if sticky == "candidate" else (good, slow)
    assert moment_errors(candidate, measure(reference, 400))[2] == sticky


def test_a_single_split_has_no_spread(posterior):
    assert np.isnan([error for _, error in noise_floor(measure(read(posterior(0, chains=1)), 400)).values()]).all()
    assert np.isfinite([error for _, error in noise_floor(measure(read(posterior(0)), 400)).values()]).all()


@pytest.mark.slow
@pytest.mark.statistical(rate=1e-6)
@pytest.mark.parametrize(("chains", "unscaled"), [(1, np.sqrt(2.0)), (3, 1.5)])
def test_noise_floor_is_what_two_runs_differ_by(posterior, chains, unscaled):
    """Averages over 300 floors and 300 pairs of runs. Their ratio has an sd of 0.026 for distances, 0.031 for tails,
    0.044 for means and sds and 0.064 for correlations. By 3000 of either it is 0.98 to 1.01 for distances, 0.97 for
    tails, 0.98 to 1.02 for means and sds and 1.03 for correlations: 5.4 sds beyond are allowed, left by the six ratios
    in 5e-7. Negative control: halves left unscaled; both distances show it, by 6 sds more.
    """
    shape = {"chains": chains, "draws": 240 // chains, "features": ("a", "b")}
    between, floor = [], []
    for seed in range(300):
        reference = measure(read(posterior(2 * seed, **shape)), 240)
        candidate = read(posterior(2 * seed + 1, **shape))
        difference, mcse, _ = moment_errors(candidate, reference)
        row, low = mmd_row(candidate, reference, 240) | moment_row(difference, mcse), noise_floor(reference)
        between.append([row[name][0] for name in NAMES])
        floor.append([low[name][0] for name in NAMES])
    ratio = np.mean(floor, axis=0) / np.mean(between, axis=0)
    allowed = [0.16, 0.16, 0.26, 0.26, 0.39, 0.21]
    assert (np.abs(ratio - 1.0) < allowed).all()
    assert (np.abs(unscaled * ratio - 1.0) > allowed)[:2].all()
