"""The table of answers: an example of each public name gives, in a fresh process, the type and columns it states."""

import json
import re
import subprocess
import sys

from tests.docs.generated import ROOT, generator

ANSWERS = generator("answers")

SETUP = """
import json, os, tempfile, warnings
warnings.simplefilter("ignore")
import matplotlib
matplotlib.use("Agg")
import numpy as np, pandas as pd, pymc as pm
import bayescore as bc
rng = np.random.default_rng(3)
rows = pd.DataFrame({"x": rng.normal(size=400).round(3), "g": rng.integers(0, 8, 400)})
rows["f"] = rng.choice(["a", "b"], 400)
rows["y"] = (rows["x"] + rng.normal(0, 0.7, 8)[rows["g"]] + rng.logistic(size=400) > 0).astype(int)
given = {"random_state": 1, "progressbar": False}
short = {"draws": 100, "tune": 200}
fit = bc.fit("y ~ x + f + (1 | g)", rows, **short, **given)
flat = bc.fit("y ~ x + f", rows, **short, **given)
core, idata, certificate = flat.coreset, flat.idata, flat.certificate
stream = bc.stream("merge_reduce", size=50, intercept=True, classes=(0, 1), random_state=1)
os.chdir(tempfile.mkdtemp())
"""
CALLS = {
    "all_rows": 'bc.all_rows(rows, formula="y ~ x", progressbar=False)',
    "build_coreset": 'bc.build_coreset(rows, formula="y ~ x", **given)',
    "certify": "bc.certify(idata, core, rows, progressbar=False)",
    "compare_posteriors": "bc.compare_posteriors(flat, flat.all_rows_posterior(progressbar=False))",
    "find_map": "bc.find_map(core)",
    "find_mle": "bc.find_mle(core)",
    "fit": "fit",
    "last_fit": "last_fit()",
    "log_evidence": "bc.log_evidence(core, prior=bc.priors.Normal(0, 2.5), **given)",
    "loo_compare": 'bc.loo_compare({"a": fit, "b": flat}, progressbar=False)',
    "model": "bc.model(core)",
    "read_coreset": 'core.save("core.parquet") or bc.read_coreset("core.parquet")',
    "read_fit": 'flat.save("flat") or bc.read_fit("flat")',
    "read_stream": 'stream.partial_fit(rows[["x"]], rows["y"]).save("stream") or bc.read_stream("stream")',
    "sample": "bc.sample(core, **short, **given)",
    "stream": "stream",
    "weighted_potential": "potential()",
    "Fit.all_rows_posterior": "flat.all_rows_posterior(progressbar=False)",
    "Fit.average_predictions": 'fit.average_predictions(by="f")',
    "Fit.check": "fit.check()",
    "Fit.cluster_robust": 'flat.cluster_robust("g")',
    "Fit.comparisons": 'fit.comparisons("f")',
    "Fit.effects": 'fit.effects("g")',
    "Fit.from_draws": "bc.Fit.from_draws(idata, core, rows, progressbar=False)",
    "Fit.icc": "fit.icc()",
    "Fit.inference_data": "fit.inference_data()",
    "Fit.loo": "flat.loo()",
    "Fit.plot": "fit.plot()",
    "Fit.plot_effects": 'fit.plot_effects("g")',
    "Fit.plot_check": "fit.plot_check()",
    "Fit.plot_shrinkage": 'fit.plot_shrinkage("g")',
    "Fit.poststratify": 'fit.poststratify(pd.DataFrame({"x": 0.0, "f": ["a", "b"], "g": 1, "n": 5}), weights="n")',
    "Fit.predict": "fit.predict(rows.head(3))",
    "Fit.prior_predictive": "fit.prior_predictive(50)",
    "Fit.prior_sensitivity": "flat.prior_sensitivity([0.5, 1])",
    "Fit.prior_summary": "fit.prior_summary()",
    "Fit.report": 'fit.report("page.html")',
    "Fit.save": 'fit.save("model")',
    "Fit.slopes": 'fit.slopes("x")',
    "Fit.summary": "fit.summary()",
    "Fit.table": "fit.table()",
    "Fit.update": "flat.update(rows.head(100), progressbar=False)",
    "Fit.with_prior": "flat.with_prior(bc.priors.Normal(0, 1))",
    "Coreset.as_source": "core.as_source()",
    "Coreset.concat": "bc.Coreset.concat([core, core])",
    "Coreset.mirrored": "core.mirrored(-1)",
    "Coreset.save": 'core.save("other.parquet")',
    "Coreset.summary": "core.summary()",
    "Coreset.take": "core.take([0, 1])",
    "Coreset.to_counts": "core.to_counts()",
    "Coreset.to_frame": "core.to_frame()",
    "Coreset.with_offset": "core.with_offset(np.zeros(len(core)))",
    "Coreset.with_weights": "core.with_weights(np.ones(len(core)))",
    "Certificate.to_html": 'certificate.to_html("certificate.html", idata, core)',
    "StreamingCoreset.coreset": "stream.coreset()",
    "StreamingCoreset.partial_fit": 'stream.partial_fit(rows[["x"]], rows["y"])',
    "StreamingCoreset.save": 'stream.save("again")',
}
RUN = """
def last_fit():
    from bayescore.fitting import route
    certify, route.Given.certify = route.Given.certify, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt)
    try:
        bc.fit("y ~ x", rows, **short, **given)
    except KeyboardInterrupt:
        route.Given.certify = certify
    return bc.last_fit()
def potential():
    with pm.Model():
        return bc.weighted_potential("loglik", core, pm.Normal("beta", 0, 2.5, shape=core.n_features))
found = {}
for name, call in CALLS.items():
    value = eval(call)
    columns = [str(each) for each in getattr(value, "columns", [])]
    found[name] = [kind.__name__ for kind in type(value).__mro__], columns
print(json.dumps(found))
"""
# as a library calls what the table names in the field's words
CLASSES = {"InferenceData": ("InferenceData", "DataTree"), "tensor": ("TensorVariable",), "pm.Model": ("Model",)}
CLASSES |= {"None": ("NoneType",), "array": ("ndarray",), "array of two Axes": ("ndarray",)}


def pattern(columns):
    """Return what the columns must be, each with a comma after it; one in brackets stands for any number."""
    names = columns.split(", ")
    return "".join(r"(?:[^,]+, )*" if name.startswith("(") else rf"{re.escape(name)}, " for name in names)


def test_examples_give_what_the_table_states():
    code = f"{SETUP}\nCALLS = {CALLS!r}\n{RUN}"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    wrong = []
    for each in ANSWERS.answers():
        kinds, columns = found[each.name]
        words = each.returns.split(" or ")
        names = {name for word in words for name in CLASSES.get(word, (word,))}
        stated = not each.columns or re.fullmatch(pattern(each.columns), "".join(f"{name}, " for name in columns))
        if not names & set(kinds) or not stated:
            wrong.append((each.name, each.returns, kinds[0], each.columns, ", ".join(columns)))
    assert not wrong, "\n".join(map(str, wrong))


def test_every_name_of_the_table_has_an_example():
    assert {each.name for each in ANSWERS.answers()} == set(CALLS)


def test_every_table_of_data_states_its_columns():
    """A function that returns a data frame says which columns."""
    assert not [each.name for each in ANSWERS.answers() if "DataFrame" in each.returns and not each.columns]
