//! Tests of the crate `tickets`.

mod checked;
mod drawn;
mod vectors;
