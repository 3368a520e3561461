"""The certificate: can a coreset's draws be used for the full data's posterior? `certify` is the door."""

from bayescore.diagnostics.certificate.certify import Certificate, certify

__all__ = ["Certificate", "certify"]
