//! The model under a seeded fault schedule.
