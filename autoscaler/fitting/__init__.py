"""Fitting: the only importer of scikit-learn. Arrays in, a frozen model of arrays out; no state, no clock."""
