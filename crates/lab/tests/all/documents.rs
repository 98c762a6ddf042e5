//! The documents are held to this program.

#[test]
fn every_command_that_somebody_is_told_to_type_is_one() {
    let some = ["sim", "torture", "zcp", "bench instructions"];
    crate::documented::check(crate::PROGRAM, &some);
}
