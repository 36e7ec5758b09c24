//! What nodes share beside the ledger, on Redis: each module implements a port that `penstock-http` defines.
