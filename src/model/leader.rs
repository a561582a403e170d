//! The leader's side of the exchange: takes reports, plans ticks, writes pulses.
