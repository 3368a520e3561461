"""Where rows come from: arrays, tables and files become a `Source`; generators and published data sets."""
