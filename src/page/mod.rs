//! The waiting page and its assets.
