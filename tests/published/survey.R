# Coefficients and standard errors of R's survey::svyglm (4.1-1) for tests/fitting/test_cluster_robust.py, by
# survey.lonely.psu where strata have one cluster:
#   python -m tests.published.survey_rows FOLDER && Rscript tests/published/survey.R FOLDER > tests/published/survey.json
suppressPackageStartupMessages(library(survey))
folder <- commandArgs(TRUE)[1]
cases <- list(
  list("contraception", use ~ age + urban + livch, ~district, NULL, ~1, quasibinomial()),
  list("contraception, strata", use ~ age + urban + livch, ~part, ~urban, ~1, quasibinomial()),
  list("contraception, probit", use ~ age + urban + livch, ~district, NULL, ~1, quasibinomial("probit")),
  list("insteval", good ~ service + studage + lectage, ~d, NULL, ~w, quasibinomial()),
  list("nmes1988", visits ~ health + chronic + age + gender + insurance, ~row, ~region, ~1, quasipoisson()),
  list("ausprivauto0405", ClaimNb ~ Gender + VehValue + offset(log(Exposure)), ~VehBody, NULL, ~1, quasipoisson()),
  list("contraception, adjust", use ~ age + urban + livch, ~part, ~area, ~1, quasibinomial()),
  list("contraception, adjust, domain", use ~ age + urban + livch, ~part, ~area, ~1, quasibinomial()),
  list("contraception, average", use ~ age + urban + livch, ~part, ~area, ~1, quasibinomial()),
  list("contraception, average, domain", use ~ age + urban + livch, ~part, ~area, ~1, quasibinomial())
)
one <- function(case) {
  rows <- read.csv(file.path(folder, paste0(case[[1]], ".csv")), stringsAsFactors = TRUE)
  design <- svydesign(ids = case[[3]], strata = case[[4]], weights = case[[5]], data = rows)
  lonely <- c("adjust", "average")[sapply(c("adjust", "average"), grepl, case[[1]])]
  options(survey.lonely.psu = if (length(lonely)) lonely else "fail")
  if (grepl("domain", case[[1]])) design <- subset(design, odd == 1)
  fit <- svyglm(case[[2]], design, family = case[[6]], control = glm.control(1e-12, 100))
  numbers <- function(values) paste(sprintf("%.9g", values), collapse = ", ")
  sprintf(' "%s": {"names": [%s], "mean": [%s], "sd": [%s]}', case[[1]],
          paste0('"', names(coef(fit)), '"', collapse = ", "), numbers(coef(fit)), numbers(SE(fit)))
}
cat("{\n", paste(sapply(cases, one), collapse = ",\n"), "\n}\n", sep = "")
