//! The documents are held to this program.

#[test]
fn every_command_that_somebody_is_told_to_type_is_one() {
    let some = [
        "demo",
        "append",
        "bench append",
        "members replace",
        "recover",
    ];
    crate::documented::check(crate::harness::BINARY, &some);
}
