//! What Prometheus scrapes.
