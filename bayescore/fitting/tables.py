"""Tables of a fit: parameters, priors, effects of groups, checks."""

import numpy as np
import pandas as pd

from bayescore.fitting.parts import FitParts
from bayescore.fitting.units import PROB, parameters, table
from bayescore.samplers.prior_summary import prior_summary
from bayescore.validation import DataError, check_choice


class FitTables(FitParts):
    """What a fit says in tables; see `Fit`."""

    def summary(self, *, scale: str = "coef", prob: float = PROB) -> pd.DataFrame:
        """Return mean, sd, interval, effective sample sizes and R-hat of each parameter, in units of the data.

        Parameters
        ----------
        scale : {"coef", "odds"}
            Coefficients, with the sds and correlations of groups' effects; or odds ratios for one unit more, or of a
            level against the first, of a logistic regression.
        prob : float
            Probability of the equal-tailed interval, whose ends have their percentages for names.

        Returns
        -------
        DataFrame
            A row for each parameter. The level stands above the columns and in ``attrs["level"]``.

        Raises
        ------
        ValueError, DataError
            If `scale` is unknown, or is "odds" of a family whose coefficients are no log odds ratios.

        Examples
        --------
        >>> import numpy as np, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(5000, 1))
        >>> fit = bc.fit(X, X[:, 0] + rng.logistic(size=5000) > 0, random_state=1, progressbar=False)
        >>> fit.summary(scale="odds")["mean"].round(1).to_dict()
        {'x0': 2.7}
        """
        check_choice(scale, "scale", ("coef", "odds"))
        posterior = self.posterior()
        names, draws = parameters(posterior)
        if scale == "odds":
            if posterior.family.ratio != "odds ratio":
                raise DataError(
                    f"scale='odds', but the family is {posterior.family.name!r}, whose coefficients are no log odds "
                    "ratios; see comparisons"
                )
            kept = [d for d in range(len(posterior.features)) if d != self.coreset.design.constant]
            names, draws = [names[d] for d in kept], np.exp(draws[..., kept])
        return self._labelled(table(names, draws, prob))

    def prior_summary(self) -> pd.DataFrame:
        """Return the prior of each coefficient, as the design's columns and as the data's own have it.

        Examples
        --------
        >>> import numpy as np, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> X = 10.0 * rng.normal(size=(2000, 1))
        >>> fit = bc.fit(X, X[:, 0] + rng.logistic(size=2000) > 0, random_state=1, progressbar=False)
        >>> fit.prior_summary()["in_data_units"]["Intercept"]
        "Normal(mu=0, sigma=2.5), at the columns' means"
        """
        return prior_summary(self.drawn)
