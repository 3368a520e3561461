"""Averages of a fit's predictions over its rows, or others: comparisons and slopes."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from bayescore.diagnostics.averages import AveragedRows, averaged_rows
from bayescore.fitting.contrasts import Contrasts, Options, comparisons_of, effect_of, predictions_of, slopes_of
from bayescore.fitting.predictions import FitPredictions
from bayescore.fitting.rows import rows_of_fit
from bayescore.fitting.units import interval_names
from bayescore.limits import PROB
from bayescore.validation import check_choice, check_integer, check_positive


class FitAverages(FitPredictions):
    """What a fit says about averages over rows; see `Fit`."""

    def average_predictions(
        self,
        *,
        by: str | None = None,
        variables: str | None = None,
        data: Any = None,
        prob: float = PROB,
        max_draws: int = 1000,
    ) -> pd.DataFrame:
        """Return average probabilities of the rows, of parts of them, or of all as if they had each level of a factor.

        Parameters
        ----------
        by : str, optional
            Raw column or grouping factor that parts the rows; an average for each of its values.
        variables : str, optional
            Raw column that is set to each of its levels in turn, in all rows.
        data : rows, optional
            Rows to average over, as `bayescore.average_predictions` takes them; raw ones count once each. By default
            all rows of the fit, with their weights.
        prob : float
            Probability of the equal-tailed interval.
        max_draws : int
            Draws used, evenly spaced.

        Returns
        -------
        DataFrame
            A row for each average; mean, sd and interval over the posterior, and `sampling_se`, the standard error
            because some of many rows stand for all; 0 where each row was evaluated.

        Raises
        ------
        DataError, ValueError
            If there is no such column, or it has too many values, or the rows are not there.

        Examples
        --------
        >>> import numpy as np, pandas as pd, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> rows = pd.DataFrame({"age": rng.normal(size=5000), "device": rng.choice(["phone", "tablet"], 5000)})
        >>> rows["clicked"] = rows["age"] - (rows["device"] == "phone") + rng.logistic(size=5000) > 0
        >>> fit = bc.fit("clicked ~ age + device", rows, random_state=1, progressbar=False)
        >>> fit.average_predictions(by="device")[["device", "mean"]].round(1).values.tolist()
        [['phone', 0.3], ['tablet', 0.5]]
        """
        return self._averages(partial(predictions_of, variable=variables), by, data, _options(prob, max_draws))

    def summary(self, *, scale: str = "coef", prob: float = PROB) -> pd.DataFrame:
        """Return mean, sd and interval of each parameter, in units of the data.

        Parameters
        ----------
        scale : {"coef", "odds", "ratio", "response"}
            Coefficients, with the sds and correlations of groups' effects; odds ratios for one unit more, or of a level
            against the first, of a logistic regression. "ratio" is the same of any family whose coefficients are logs:
            rate ratios of counts, hazard ratios, odds ratios. Or for each column of the data what it does to the
            probability, averaged over all rows: `comparisons` of factors and 0/1 columns, `slopes` of others, by a
            pass for each.
        prob : float
            Probability of the equal-tailed interval, whose ends have their percentages for names.

        Returns
        -------
        DataFrame
            A row for each parameter, also with effective sample sizes and R-hat; or for each column and contrast. The
            level stands above the columns and in ``attrs["level"]``.

        Raises
        ------
        ValueError, DataError
            If `scale` is unknown, or is "odds" or "ratio" of a family whose coefficients are no such logs, or
            "response" and the rows are not there.

        Examples
        --------
        >>> import numpy as np, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(5000, 1))
        >>> fit = bc.fit(X, X[:, 0] + rng.logistic(size=5000) > 0, random_state=1, progressbar=False)
        >>> fit.summary(scale="odds")["mean"].round(1).to_dict()
        {'x0': 2.7}
        >>> fit.summary(scale="response")[["contrast", "mean"]].round(2).values.tolist()
        [['dp/dx', 0.21]]
        """
        check_choice(scale, "scale", ("coef", "odds", "ratio", "response"))
        if scale != "response":
            return self._parameters(scale, prob)
        names = self.coreset.design.raw_names
        self._check_beside_intercept(scale, names)
        rows, options = rows_of_fit(self), _options(prob, 1000)
        each = [effect_of(rows, name).table(rows, None, options, self.coreset) for name in names]
        index = pd.Index(np.repeat(names, [len(table) for table in each]), name="column")
        return self._labelled(pd.concat(each).set_index(index))

    def comparisons(
        self,
        variable: str,
        *,
        by: str | None = None,
        data: Any = None,
        step: float = 1.0,
        comparison: str = "difference",
        prob: float = PROB,
        max_draws: int = 1000,
    ) -> pd.DataFrame:
        """Return how much the average probability changes with a column, all else as it is in the rows.

        Parameters
        ----------
        variable : str
            Raw column: each level of a factor against the first, 1 against 0, or `step` more of a column of numbers.
        by : str, optional
            Raw column or grouping factor that parts the rows; an average for each of its values.
        data : rows, optional
            Rows to average over, as `average_predictions` takes them; raw ones count once each. By default all rows of
            the fit, with their weights.
        step : float
            Change of a column of numbers, in its own units.
        comparison : {"difference", "ratio"}
            Of the two average probabilities.
        prob : float
            Probability of the equal-tailed interval.
        max_draws : int
            Draws used, evenly spaced.

        Returns
        -------
        DataFrame
            A row for each contrast and part; mean, sd and interval over the posterior, and `sampling_se`, the standard
            error because some of many rows stand for all; 0 where each row was evaluated.

        Raises
        ------
        DataError, ValueError
            If there is no such column, or `by` has too many values, or the rows are not there.

        Examples
        --------
        >>> import numpy as np, pandas as pd, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> rows = pd.DataFrame({"age": rng.normal(size=5000), "device": rng.choice(["phone", "tablet"], 5000)})
        >>> rows["clicked"] = rows["age"] - (rows["device"] == "phone") + rng.logistic(size=5000) > 0
        >>> fit = bc.fit("clicked ~ age + device", rows, random_state=1, progressbar=False)
        >>> fit.comparisons("device")[["contrast", "mean"]].round(2).values.tolist()
        [['tablet - phone', 0.2]]
        """
        check_choice(comparison, "comparison", ("difference", "ratio"))
        check_positive(step, "step")
        options = _options(prob, max_draws)
        asked = partial(comparisons_of, variable=variable, step=step, ratio=comparison == "ratio")
        return self._averages(asked, by, data, options)

    def slopes(
        self, variable: str, *, by: str | None = None, data: Any = None, prob: float = PROB, max_draws: int = 1000
    ) -> pd.DataFrame:
        """Return the average derivative of the probability by a column of numbers.

        Parameters
        ----------
        variable : str
            Raw column of numbers.
        by, data, prob, max_draws
            As in `comparisons`.

        Returns
        -------
        DataFrame
            As of `comparisons`.

        Raises
        ------
        DataError, ValueError
            As `comparisons` does; or if the column is a factor.

        Examples
        --------
        >>> import numpy as np, bayescore as bc
        >>> rng = np.random.default_rng(0)
        >>> X = rng.normal(size=(5000, 1))
        >>> fit = bc.fit(X, X[:, 0] + rng.logistic(size=5000) > 0, random_state=1, progressbar=False)
        >>> fit.slopes("x0")["mean"].round(2).tolist()
        [0.21]
        """
        return self._averages(partial(slopes_of, variable=variable), by, data, _options(prob, max_draws))

    def _averages(
        self, asked: Callable[[AveragedRows], Contrasts], by: str | None, data: Any, options: Options
    ) -> pd.DataFrame:
        every = data is None
        rows = rows_of_fit(self) if every else averaged_rows(self.posterior(), None, data, {}, progressbar=False)
        return self._labelled(asked(rows).table(rows, by, options, self.coreset if every else None))


def _options(prob: float, max_draws: int) -> Options:
    """Return both; raise unless they are in range, before any pass over the rows."""
    interval_names(prob)
    return Options(prob, check_integer(max_draws, "max_draws", low=1))
