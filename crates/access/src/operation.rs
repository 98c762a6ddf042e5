//! The operations that somebody may be allowed, one by one and several at once.

use std::fmt;

macro_rules! operations {
    ($($(#[$doc:meta])* $variant:ident = $word:literal),* $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Operation {
            $($(#[$doc])* $variant,)*
        }

        impl Operation {
            pub const ALL: &[Operation] = &[$(Operation::$variant),*];

            pub fn as_str(self) -> &'static str {
                match self { $(Operation::$variant => $word,)* }
            }
        }
    };
}

operations! {
    Read = "read",
    Append = "append",
    Create = "create",
    Delete = "delete",
    /// To forget what lies before a place, and to say how much is kept.
    Trim = "trim",
    /// To move a leader, and to have a log read and compared.
    Lead = "lead",
    /// To see how the cluster is.
    Status = "status",
    /// To change who is a member, and the settings of all.
    Members = "members",
    /// To make, change and revoke tokens.
    Tokens = "tokens",
    /// To become a node of the cluster.
    Join = "join",
}

impl Operation {
    /// Whoever has this can take everything: a new member is sent all bytes, and a node believes another.
    pub fn counts_as_all(self) -> bool {
        matches!(self, Operation::Members | Operation::Join)
    }

    /// In a sentence: somebody may … , where its object is the cluster or all there is.
    pub(crate) fn phrase_of_all(self, is_everything: bool) -> Option<&'static str> {
        match self {
            Operation::Members if is_everything => Some("do all there is"),
            Operation::Members => Some("change members and settings"),
            Operation::Tokens => Some("see and change tokens"),
            Operation::Join => Some("join the cluster"),
            Operation::Status => Some("ask for the status of the cluster"),
            Operation::Lead => Some("move the leader of log 0"),
            _ => None,
        }
    }

    /// In a sentence: somebody may … , and what stands before its object.
    pub(crate) fn phrase(self) -> (&'static str, &'static str) {
        match self {
            Operation::Read => ("read", ""),
            Operation::Append => ("append", "to "),
            Operation::Create => ("create", ""),
            Operation::Delete => ("delete", ""),
            Operation::Trim => ("trim", ""),
            Operation::Lead => ("move the leader", "of "),
            Operation::Status => ("ask for the status", "of "),
            Operation::Members => ("change the members", "of "),
            Operation::Tokens => ("change the tokens", "of "),
            Operation::Join => ("join", ""),
        }
    }

    fn bit(self) -> u16 {
        1 << self as u16
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

const ALL: &str = "all";

/// A set of operations. `all` is every one that there will ever be, and not only those of this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Operations {
    All,
    These(u16),
}

impl Operations {
    pub fn of(operations: &[Operation]) -> Operations {
        let bits = operations.iter().map(|operation| operation.bit());
        Operations::These(bits.fold(0, |all, bit| all | bit))
    }

    /// `read,append`, or `all`.
    ///
    /// Errors: the word that is no operation.
    pub(crate) fn parse(text: &str) -> Result<Operations, String> {
        let mut bits = 0;
        let mut is_all = false;
        for word in text.split(',') {
            match Operation::ALL.iter().find(|known| known.as_str() == word) {
                Some(operation) => bits |= operation.bit(),
                None if word == ALL => is_all = true,
                None => return Err(word.to_owned()),
            }
        }
        Ok(match is_all {
            true => Operations::All,
            false => Operations::These(bits),
        })
    }

    pub fn has(self, operation: Operation) -> bool {
        match self {
            Operations::All => true,
            Operations::These(bits) => bits & operation.bit() != 0,
        }
    }

    /// Those that are in both.
    pub(crate) fn and(self, other: Operations) -> Operations {
        match (self, other) {
            (Operations::All, both) | (both, Operations::All) => both,
            (Operations::These(own), Operations::These(its)) => Operations::These(own & its),
        }
    }

    pub(crate) fn is_empty(self) -> bool {
        self == Operations::These(0)
    }

    pub fn iter(self) -> impl Iterator<Item = Operation> {
        let all = Operation::ALL.iter().copied();
        all.filter(move |operation| self.has(*operation))
    }
}

impl fmt::Display for Operations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Operations::All {
            return f.write_str(ALL);
        }
        for (at, operation) in self.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}{operation}")?;
        }
        Ok(())
    }
}
