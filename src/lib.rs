//! Anteroom: a self-hosted virtual waiting room.
//!
//! Five layers; imports go down only, and modules of one layer do not import each other (`tests/layering.rs`):
//!
//! | layer | modules | rule |
//! |---|---|---|
//! | 0 | [`model`] | pure: no I/O, clock, lock, task |
//! | 1 | [`clock`], [`config`], [`lifecycle`], [`metrics`], [`page`], [`peer`], [`simulation`] | leaves over the model |
//! | 2 | [`desk`] | what an edge knows; the one place where adapters meet |
//! | 3 | [`proxy`], [`control`], [`gossip`], [`admin`] | adapters: Pingora, the control log, chitchat, the operator's API |
//! | 4 | [`app`], [`cli`] | assembly |

pub mod admin;
pub mod app;
pub mod cli;
pub mod clock;
pub mod config;
pub mod control;
pub mod desk;
pub mod gossip;
pub mod lifecycle;
pub mod metrics;
pub mod model;
pub mod page;
pub mod peer;
pub mod proxy;
pub mod simulation;
pub mod whole_file;
