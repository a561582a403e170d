//! An edge's side of the exchange: takes pulses, spends slots, writes reports.
