//! Signed tokens: tickets, passes and ids of tickets to be.
