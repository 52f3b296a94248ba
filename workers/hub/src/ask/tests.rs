//! Asks as their callers see them.
