"""Classifiers of hidden states; `qualm.runners.contracts.probes` has the contract."""
