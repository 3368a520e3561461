r"""Made visits to a shop: who clicked, with ages, incomes, devices and counties.

.. math:: P(\text{clicked}) = \mathrm{logit}^{-1}(-3.9 + 0.03 (\text{age} - 40) - 0.35 (\log \text{income} - 3.4)
          + 0.12\, \text{visits} + d_\text{device} + u_\text{county}), \qquad u \sim N(0, 0.4^2)

Use it where rows should look like people's: continuous and skewed columns, a factor, groups of unlike sizes, 3% of
events. The truth is known, so that what a fit says can be checked.
"""

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import expit

from bayescore.validation import RandomState, check_generator, check_integer

if TYPE_CHECKING:
    import pandas as pd

DEVICES = {"desktop": 0.0, "phone": -0.45, "tablet": -0.25}
_DEVICE_SHARES = (0.35, 0.55, 0.1)
# fmt: off
_COUNTIES = (
    "Avon", "Beds", "Berks", "Bucks", "Cambs", "Cheshire", "Cornwall", "Cumbria", "Derby", "Devon", "Dorset",
    "Durham", "Essex", "Glos", "Hants", "Hereford", "Herts", "Hunts", "Kent", "Lancs", "Leics", "Lincs", "London",
    "Middx", "Norfolk", "Northants", "Notts", "Oxon", "Rutland", "Salop", "Somerset", "Staffs", "Suffolk",
    "Surrey", "Sussex", "Warks", "Wilts", "Worcs", "Yorks",
)
# fmt: on
TRUTH = {
    "age": 0.03,
    "log(income)": -0.35,
    "visits": 0.12,
    **{f"device[{name}]": DEVICES[name] for name in ("phone", "tablet")},
    "sigma_county": 0.4,
}


def clicks(n_rows: int = 1_000_000, *, random_state: RandomState = None) -> "pd.DataFrame":
    """Return visits to a shop, made by a model whose coefficients are known.

    Parameters
    ----------
    n_rows : int
        Number of visits.
    random_state : int, Generator, SeedSequence or None
        Seed; it draws the counties' effects too.

    Returns
    -------
    DataFrame
        Columns age (years), income (thousands a year), visits (before this one), device, county, clicked (0 or 1).

    Raises
    ------
    ValueError
        If `n_rows` is not positive.

    Examples
    --------
    >>> import bayescore as bc
    >>> rows = bc.datasets.clicks(1000, random_state=0)
    >>> list(rows.columns)
    ['age', 'income', 'visits', 'device', 'county', 'clicked']
    >>> bool(rows["age"].between(18, 80).all())
    True
    """
    import pandas as pd

    check_integer(n_rows, "n_rows", low=1)
    rng = check_generator(random_state)
    effect = rng.normal(0.0, TRUTH["sigma_county"], len(_COUNTIES))
    county = rng.choice(len(_COUNTIES), n_rows, p=rng.dirichlet(np.full(len(_COUNTIES), 2.0)))
    age = (18.0 + 62.0 * rng.beta(1.6, 2.6, n_rows)).round(1)
    income = np.exp(rng.normal(3.4, 0.6, n_rows)).round(2)
    visits = rng.negative_binomial(1, 0.25, n_rows)
    device = rng.choice(len(DEVICES), n_rows, p=_DEVICE_SHARES)
    eta = -3.9 + TRUTH["age"] * (age - 40.0) + TRUTH["log(income)"] * (np.log(income) - 3.4) + TRUTH["visits"] * visits
    eta += np.array(list(DEVICES.values()))[device] + effect[county]
    return pd.DataFrame(
        {
            "age": age,
            "income": income,
            "visits": visits,
            "device": pd.Categorical.from_codes(device, pd.Index(list(DEVICES))),
            "county": pd.Categorical.from_codes(county, pd.Index(_COUNTIES)),
            "clicked": (rng.random(n_rows) < expit(eta)).astype(np.int64),
        }
    )
