//! A grant, `append,read on log/ci-*`, and a principal's list of them.

use std::fmt;
use std::str::FromStr;

use crate::operation::{Operation, Operations};
use crate::resource::{BadResource, Kind, Place, Resource};

/// The longest list of grants.
pub const GRANTS_MAX: usize = 64;
/// The bytes of one grant as it is written.
pub const GRANT_BYTES_MAX: usize = 1_024;

/// Operations, and what they may be done to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grant {
    operations: Operations,
    resource: Resource,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadGrant {
    #[error("a grant is OPERATION,… on RESOURCE, as in 'append,read on log/ci-*', and not '{0}'")]
    Shape(String),
    #[error(
        "'{0}' is no operation: there are read, append, create, delete, trim, lead, status, members, tokens, join and all"
    )]
    Operation(String),
    #[error("{0}")]
    Resource(#[from] BadResource),
    #[error("{operation} on {resource} would allow nothing: {operation} is of {of}")]
    Nothing {
        operation: Operation,
        resource: String,
        of: &'static str,
    },
    #[error("a grant has at most {GRANT_BYTES_MAX} bytes: name less, or end a name with *")]
    Long,
    #[error(
        "there are at most {GRANTS_MAX} grants to one name: let one cover several, by * at its end"
    )]
    Many,
    #[error("no grant is given, so nothing would be allowed: say at least one")]
    None,
}

impl Grant {
    /// Whether it allows this.
    pub fn allows(&self, operation: Operation, place: &Place) -> bool {
        self.operations.has(operation) && self.touches(place)
    }

    /// Whether it allows anything at all there.
    pub fn touches(&self, place: &Place) -> bool {
        match place {
            Place::Of(resource) => self.resource.covers(resource),
            Place::Directory => false,
        }
    }

    pub fn operations(&self) -> Operations {
        self.operations
    }

    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// Looks at a grant that somebody has just typed more closely than at one that is kept.
    ///
    /// Errors: as those of [`Resource::check_form`].
    pub fn check_form(&self) -> Result<(), BadGrant> {
        Ok(self.resource.check_form()?)
    }

    /// Whether it is `all on *`.
    pub fn is_all(&self) -> bool {
        self.operations == Operations::All && self.resource.is_everything()
    }
}

impl FromStr for Grant {
    type Err = BadGrant;

    fn from_str(text: &str) -> Result<Grant, BadGrant> {
        if text.len() > GRANT_BYTES_MAX {
            return Err(BadGrant::Long);
        }
        let shown = || text.chars().take(80).collect::<String>();
        let (operations, resource) = text
            .split_once(" on ")
            .ok_or_else(|| BadGrant::Shape(shown()))?;
        let operations = Operations::parse(operations)
            .map_err(|word| BadGrant::Operation(word.chars().take(80).collect()))?;
        let resource = Resource::parse(resource)?;
        let grant = Grant {
            operations,
            resource,
        };
        grant.check()?;
        // The printed form may be longer than the typed one.
        match grant.to_string().len() > GRANT_BYTES_MAX {
            true => Err(BadGrant::Long),
            false => Ok(grant),
        }
    }
}

impl Grant {
    /// The grant of what both allow. `None`: that is nothing.
    fn and(&self, other: &Grant) -> Option<Grant> {
        let operations = self.operations.and(other.operations);
        let resource = self.resource.and(&other.resource)?;
        (!operations.is_empty()).then_some(Grant {
            operations,
            resource,
        })
    }

    fn administers(&self) -> bool {
        let is_of_all = self.resource.is_cluster() || self.resource.is_everything();
        let may =
            |operation: Operation| operation.counts_as_all() || operation == Operation::Tokens;
        is_of_all && self.operations.iter().any(may)
    }

    /// ‡ A grant that allows nothing is a mistake of who wrote it, and is said to be one.
    fn check(&self) -> Result<(), BadGrant> {
        if self.operations == Operations::All {
            return Ok(());
        }
        for operation in self.operations.iter() {
            if let Some(of) = misplaced(operation, &self.resource) {
                return Err(BadGrant::Nothing {
                    operation,
                    resource: self.resource.to_string(),
                    of,
                });
            }
        }
        Ok(())
    }
}

/// The kind of thing that an operation is done to, where the resource names another kind.
fn misplaced(operation: Operation, resource: &Resource) -> Option<&'static str> {
    if resource.is_everything() {
        return None;
    }
    let is_of = |kinds: &[Kind]| resource.kind().is_some_and(|kind| kinds.contains(&kind));
    let (fits, of) = match operation {
        Operation::Read | Operation::Append | Operation::Delete => {
            (is_of(&Kind::ALL), "log/, stream/ and key/")
        }
        Operation::Create => (is_of(&[Kind::Log, Kind::Stream]), "log/ and stream/"),
        Operation::Trim => (is_of(&[Kind::Log]), "log/"),
        Operation::Lead | Operation::Status => (
            is_of(&[Kind::Log]) || resource.is_cluster(),
            "log/ and cluster",
        ),
        Operation::Members | Operation::Tokens | Operation::Join => {
            (resource.is_cluster(), "cluster")
        }
    };
    (!fits).then_some(of)
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", self.operations, self.resource)
    }
}

/// All that a principal may do: at least one grant, and at most `GRANTS_MAX`, where somebody was given them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grants(Vec<Grant>);

impl Grants {
    /// Errors: there are too many, or none.
    pub fn new(grants: Vec<Grant>) -> Result<Grants, BadGrant> {
        match grants.len() {
            0 => Err(BadGrant::None),
            count if count > GRANTS_MAX => Err(BadGrant::Many),
            _ => Ok(Grants(grants)),
        }
    }

    /// Parses a list.
    ///
    /// Errors: the first that is none, or their number.
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Grants, BadGrant> {
        let mut grants = Vec::new();
        for text in texts {
            if grants.len() == GRANTS_MAX {
                return Err(BadGrant::Many);
            }
            grants.push(text.parse()?);
        }
        Grants::new(grants)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Grant> {
        self.0.iter()
    }

    /// The paths of a space's streams that may be read, as [`Resource::paths_in`] has them, none of which lies within another.
    pub fn readable_in(&self, space: &str) -> Vec<(String, bool)> {
        let read = self
            .iter()
            .filter(|grant| grant.operations().has(Operation::Read));
        let mut all: Vec<_> = read
            .filter_map(|grant| grant.resource().paths_in(space))
            .collect();
        // The shortest of those that begin alike is the first, and the prefix of two that are the same.
        all.sort_by(|(one, is_prefix), (other, is_other)| {
            (one, !is_prefix).cmp(&(other, !is_other))
        });
        let mut kept: Vec<(String, bool)> = Vec::new();
        for (path, is_prefix) in all {
            let is_within = kept.iter().any(|(begin, is_prefix)| {
                *is_prefix && path.starts_with(begin.as_str()) || *begin == path
            });
            if !is_within {
                kept.push((path, is_prefix));
            }
        }
        kept
    }

    pub fn allow(&self, operation: Operation, place: &Place) -> bool {
        self.iter().any(|grant| grant.allows(operation, place))
    }

    /// The grants of what both these and the others allow, and of nothing else. They may be none at all, and more than somebody may be given.
    pub fn within(&self, others: &Grants) -> Grants {
        let pairs = self
            .iter()
            .flat_map(|own| others.iter().map(move |its| (own, its)));
        let mut both: Vec<Grant> = pairs.filter_map(|(own, its)| own.and(its)).collect();
        both.sort();
        both.dedup();
        Grants(both)
    }

    /// The first grant that somebody who signs tickets must not have: tickets are shown to the cluster by people whom nobody there knows, and change
    /// neither who may do what nor who is a member.
    pub fn administers(&self) -> Option<&Grant> {
        self.iter().find(|grant| grant.administers())
    }

    /// Whether one of them is `all on *`.
    pub fn are_all(&self) -> bool {
        self.iter().any(Grant::is_all)
    }

    /// The first grant of the others that these do not cover: whoever has these must not hand it out.
    ///
    /// ‡ Each operation has to lie within one grant of these: `all` only within an `all`, and whoever lets nodes in
    /// lets all bytes out, so `members` and `join` count as all there is.
    pub fn exceeded_by<'a>(&self, others: &'a Grants) -> Option<&'a Grant> {
        others.iter().find(|other| !self.cover(other))
    }

    fn cover(&self, other: &Grant) -> bool {
        if self.are_all() {
            return true;
        }
        let covering = || {
            self.iter()
                .filter(|own| own.resource.covers(&other.resource))
        };
        if other.operations == Operations::All {
            // It may let nodes in wherever that can be asked for.
            return other.resource.kind().is_some()
                && covering().any(|own| own.operations == Operations::All);
        }
        other.operations.iter().all(|operation| {
            !operation.counts_as_all() && covering().any(|own| own.operations.has(operation))
        })
    }
}

impl fmt::Display for Grants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, grant) in self.iter().enumerate() {
            let between = if at == 0 { "" } else { "; " };
            write!(f, "{between}{grant}")?;
        }
        Ok(())
    }
}
