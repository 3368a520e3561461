"""The certificate: can a coreset's draws be used for the full data's posterior? `report.certify` is the door."""
