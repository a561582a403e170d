//! An edge's slots: what it may mint from, and what it owes the ledger.
