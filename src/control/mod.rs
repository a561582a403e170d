//! The control log: openraft over redb, the proposer, the leader's loop.
