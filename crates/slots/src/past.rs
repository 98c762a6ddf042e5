//! What was wanted in earlier versions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::part::Part;

const VERSIONS_MAX: usize = 1_000;
const PARTS_MAX: usize = 65_536;

/// By version. The first one stays; of the others the oldest go when there are too many, or when all of them together have too many parts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Past(BTreeMap<u32, Vec<Part>>);

impl Past {
    pub fn add(&mut self, version: u32, parts: Vec<Part>) {
        self.0.insert(version, parts);
        let count = |past: &Past| past.0.values().map(Vec::len).sum::<usize>();
        while self.0.len() > 2 && (self.0.len() > VERSIONS_MAX || count(self) > PARTS_MAX) {
            let second = self.0.keys().nth(1).copied();
            second.and_then(|version| self.0.remove(&version));
        }
    }

    pub fn at(&self, version: u32) -> Option<&[Part]> {
        self.0.get(&version).map(Vec::as_slice)
    }

    pub fn versions(&self) -> impl Iterator<Item = u32> {
        self.0.keys().copied()
    }
}
