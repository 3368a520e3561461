"""Pages and pictures of what comparisons and certificates found; reads their data, knows nothing of their making."""

from bayescore.report.pages import EffectFacts, FitFacts, as_fragment, as_text, write_certificate, write_report

__all__ = ["EffectFacts", "FitFacts", "as_fragment", "as_text", "write_certificate", "write_report"]
