//! The settings file of a node: what is read is printed so that it is read again as the same.

#[path = "../../src/settings.rs"]
#[allow(dead_code, reason = "the command uses the rest")]
mod production;

use production::Settings;

/// `bytes`: the file.
pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    match Settings::parse(text) {
        Ok(read) => {
            for settings in [read.effective(), read] {
                let printed = settings.to_toml().expect("what was read can be printed");
                assert_eq!(Settings::parse(&printed).expect("our own"), settings);
            }
        }
        Err(error) => assert!(!error.is_empty()),
    }
}
