//! Whole-engine tests.
