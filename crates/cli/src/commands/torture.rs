//! `logberg torture`: a local cluster under faults, and proof that nothing was lost.

use anyhow::Result;

use crate::arguments::Global;
pub use crate::torture::Arguments;

impl Arguments {
    pub fn run(self, global: &Global) -> Result<()> {
        self.torture_and_report(global.json)
    }
}
