"""Rows with numbers and factors for formulas, made by arithmetic alone, so that R can be given the same.

``python -m tests.published.formula_rows rows.csv`` writes them for `glm.R`.
"""

import sys

import numpy as np
import pandas as pd

N = 600


def formula_rows(n: int = N) -> pd.DataFrame:
    """Return n rows with the labels "no" and "yes" in `clicked`."""
    i = np.arange(1.0, n + 1.0)

    def spread(step: float) -> np.ndarray:
        return np.round((i * step) % 1.0, 6)  # as R reads it from a file

    age, price = 20.0 + 60.0 * spread(0.61803398875), np.round(0.5 + 20.0 * spread(0.41421356237) ** 3, 6)
    device = np.array(["phone", "desktop", "tablet"])[(3 * spread(0.73205080757) ** 1.5).astype(int)]
    region = np.array(["south", "north"])[(spread(0.23606797750) > 0.4).astype(int)]
    visits = (5 * spread(0.64575131106)).astype(int)
    eta = 0.03 * (age - 45) - 0.4 * np.log(price) + 0.8 * (device == "phone") - 0.5 * (region == "north") + 0.1 * visits
    clicked = np.where(spread(0.31662479036) < 1.0 / (1.0 + np.exp(-eta)), "yes", "no")
    return pd.DataFrame(
        {"clicked": clicked, "age": age, "price": price, "device": device, "region": region, "visits": visits}
    )


if __name__ == "__main__":
    formula_rows().to_csv(sys.argv[1], index=False)
