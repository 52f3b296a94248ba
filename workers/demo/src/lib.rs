//! The built-in demo agent: a small terminal program that behaves as a harness.
