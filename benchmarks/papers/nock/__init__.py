"""Nock, Canyasse, Boreli and Nielsen (2016), k-variates++: its tables, figures and theorems."""
