"""Pages and pictures of what comparisons and certificates found; reads their data, knows nothing of their making."""

from bayescore.diagnostics.report.certificate import write_certificate
from bayescore.diagnostics.report.comparison import as_fragment, as_text, write_report

__all__ = ["as_fragment", "as_text", "write_certificate", "write_report"]
