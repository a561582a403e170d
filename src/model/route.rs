//! From host and path to event, on paths as the origin reads them.
