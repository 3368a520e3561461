# Coefficients of R's glm for the formulas of tests/data/test_formulas.py:
#   python -m tests.published.formula_rows rows.csv && Rscript tests/published/glm.R rows.csv > tests/published/glm.json
library(splines)
rows <- read.csv(commandArgs(TRUE)[1], stringsAsFactors = TRUE)
rows$y <- as.integer(rows$clicked == "yes")
formulas <- list(  # as formulaic reads them, as R does
  c("age + price", "age + price"),
  c("device + age", "device + age"),
  c("age * device", "age * device"),
  c("device * region + log(price)", "device * region + log(price)"),
  c("log(price) + I(age**2)", "log(price) + I(age^2)"),
  c("C(visits) + scale(age)", "factor(visits) + scale(age)"),
  c("scale(age) + center(price) + region", "scale(age) + scale(price, scale = FALSE) + region"),
  c("poly(age, 3) + device", "poly(age, 3) + device"),
  c("bs(age, df=5) + region", "bs(age, df = 5) + region"),
  c("bs(age, knots=[35, 60], degree=2) + region", "bs(age, knots = c(35, 60), degree = 2) + region"),
  c("0 + device + age", "0 + device + age"),
  c("C(device, Sum) + log(price):age", "C(device, contr.sum) + log(price):age"),
  c("C(device, Treatment('phone')) + age", "relevel(device, 'phone') + age"),
  c("device / age", "device / age"),
  c("(age + price + region)**2 - price:region", "(age + price + region)^2 - price:region")
)
one <- function(pair) {
  fit <- glm(as.formula(paste("y ~", pair[2])), binomial, rows, control = glm.control(1e-14, 100))
  sprintf('  {"formula": "%s", "r": "%s", "coefficients": [%s]}', pair[1], pair[2],
          paste(sprintf("%.17g", coef(fit)), collapse = ", "))
}
cat("[\n", paste(sapply(formulas, one), collapse = ",\n"), "\n]\n", sep = "")
