//! The things that operations are done to: a log, a named stream, a key, the cluster; or all of a kind that begin alike.
//!
//! ```text
//!   log/audit   log/ci-*   stream/default/chat/*   key/app:*   cluster   *
//! ```
//!
//! Names are bytes: a key may be any. A byte that is a space, `%`, `*`, a control character or not ASCII is written
//! `%XX`, so that a grant has one spelling, and a star is the end of a prefix or nothing.

use std::fmt;

/// The kinds of things that have names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Log,
    /// Behind it stand the space and the path.
    Stream,
    Key,
}

impl Kind {
    pub(crate) const ALL: [Kind; 3] = [Kind::Log, Kind::Stream, Kind::Key];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Kind::Log => "log",
            Kind::Stream => "stream",
            Kind::Key => "key",
        }
    }
}

/// The object of a grant: one thing, or all whose names begin so.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Resource(Means);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Means {
    Everything,
    Cluster,
    Named {
        kind: Kind,
        name: Vec<u8>,
        /// All whose names begin with `name`.
        is_prefix: bool,
    },
}

/// The thing that a request is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// One thing, or all that begin so.
    Of(Resource),
    /// ‡ Bytes that no grant covers: log 0 holds the hashes of tokens, and the cluster's addresses.
    Directory,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadResource {
    #[error("{0} is no resource: write log/NAME, stream/SPACE/PATH, key/PREFIX, cluster or *")]
    Unknown(String),
    #[error("{0} names nothing: write the name, or * for all of them")]
    Empty(String),
    #[error("{0} has a * that is not its end: write %2A where the name itself has one")]
    Star(String),
    #[error(
        "{0} names no stream: write stream/SPACE/PATH, as in stream/default/chat/42, or with a * behind the space's name and a slash, as in stream/default/*"
    )]
    Stream(String),
    #[error("{0} has a byte that must be written %XX, or a % without two hexadecimal digits")]
    Encoding(String),
}

impl Resource {
    /// Errors: a sentence that shows the text.
    pub fn parse(text: &str) -> Result<Resource, BadResource> {
        let shown = || text.chars().take(80).collect::<String>();
        match text {
            "*" => return Ok(Resource(Means::Everything)),
            "cluster" => return Ok(Resource(Means::Cluster)),
            _ => {}
        }
        let (kind, name) = text
            .split_once('/')
            .ok_or_else(|| BadResource::Unknown(shown()))?;
        let kind = Kind::ALL.into_iter().find(|known| known.as_str() == kind);
        let kind = kind.ok_or_else(|| BadResource::Unknown(shown()))?;
        if name.is_empty() {
            return Err(BadResource::Empty(shown()));
        }
        let (name, is_prefix) = match name.strip_suffix('*') {
            Some(prefix) => (prefix, true),
            None => (name, false),
        };
        if name.contains('*') {
            return Err(BadResource::Star(shown()));
        }
        let name = decode(name).ok_or_else(|| BadResource::Encoding(shown()))?;
        Ok(Resource(Means::Named {
            kind,
            name,
            is_prefix,
        }))
    }

    /// ‡ Behind `stream/` stand the space and the path: what has one of them alone names nothing that there could be.
    ///
    /// Errors: it names no stream.
    pub fn check_form(&self) -> Result<(), BadResource> {
        let Means::Named {
            kind: Kind::Stream,
            name,
            is_prefix,
        } = &self.0
        else {
            return Ok(());
        };
        let slash = name.iter().position(|byte| *byte == b'/');
        let is_whole = match slash {
            None => *is_prefix && name.is_empty(),
            Some(at) => at > 0 && (*is_prefix || at + 1 < name.len()),
        };
        match is_whole {
            true => Ok(()),
            false => Err(BadResource::Stream(self.to_string())),
        }
    }

    pub fn cluster() -> Resource {
        Resource(Means::Cluster)
    }

    /// The paths of a space's streams that it covers: a path, and whether all that begin so are meant. `None`: there are none.
    pub fn paths_in(&self, space: &str) -> Option<(String, bool)> {
        let all = || Some((String::new(), true));
        match &self.0 {
            Means::Everything => all(),
            Means::Named {
                kind: Kind::Stream,
                name,
                is_prefix,
            } => {
                if name.is_empty() {
                    return all().filter(|_| *is_prefix);
                }
                let rest = name.strip_prefix(space.as_bytes())?.strip_prefix(b"/")?;
                // A prefix may end within a character, and no path has other bytes.
                let whole = match std::str::from_utf8(rest) {
                    Ok(text) => text,
                    Err(error) if *is_prefix && error.error_len().is_none() => {
                        std::str::from_utf8(&rest[..error.valid_up_to()]).unwrap_or_default()
                    }
                    Err(_) => return None,
                };
                Some((whole.to_owned(), *is_prefix))
            }
            Means::Cluster | Means::Named { .. } => None,
        }
    }

    /// All there is.
    pub fn everything() -> Resource {
        Resource(Means::Everything)
    }

    pub fn log(name: &str) -> Resource {
        Resource::named(Kind::Log, name.as_bytes(), false)
    }

    /// `path`: as it is, and not as it stands in an address.
    pub fn stream(space: &str, path: &str) -> Resource {
        Resource::named(Kind::Stream, format!("{space}/{path}").as_bytes(), false)
    }

    /// All streams of a space whose paths begin so.
    pub fn streams(space: &str, prefix: &str) -> Resource {
        Resource::named(Kind::Stream, format!("{space}/{prefix}").as_bytes(), true)
    }

    pub fn key(key: &[u8]) -> Resource {
        Resource::named(Kind::Key, key, false)
    }

    /// All keys that begin so.
    pub fn keys(prefix: &[u8]) -> Resource {
        Resource::named(Kind::Key, prefix, true)
    }

    fn named(kind: Kind, name: &[u8], is_prefix: bool) -> Resource {
        let name = name.to_vec();
        Resource(Means::Named {
            kind,
            name,
            is_prefix,
        })
    }

    pub fn is_cluster(&self) -> bool {
        self.0 == Means::Cluster
    }

    pub fn is_everything(&self) -> bool {
        self.0 == Means::Everything
    }

    /// The kind of its things, where they have names.
    pub(crate) fn kind(&self) -> Option<Kind> {
        match &self.0 {
            Means::Named { kind, .. } => Some(*kind),
            Means::Everything | Means::Cluster => None,
        }
    }

    /// All that both name, which is all that one of them does. `None`: there is nothing.
    pub(crate) fn and(&self, other: &Resource) -> Option<Resource> {
        match (self.covers(other), other.covers(self)) {
            (true, _) => Some(other.clone()),
            (_, true) => Some(self.clone()),
            (false, false) => None,
        }
    }

    /// Whether all that the other one names is named by this one.
    pub fn covers(&self, other: &Resource) -> bool {
        match (&self.0, &other.0) {
            (Means::Everything, _) | (Means::Cluster, Means::Cluster) => true,
            (
                Means::Named {
                    kind,
                    name,
                    is_prefix,
                },
                Means::Named {
                    kind: its_kind,
                    name: its_name,
                    is_prefix: is_more,
                },
            ) => {
                let begins_so = || its_name.starts_with(name);
                let is_this_one = || !is_more && its_name == name;
                kind == its_kind
                    && if *is_prefix {
                        begins_so()
                    } else {
                        is_this_one()
                    }
            }
            (Means::Cluster | Means::Named { .. }, _) => false,
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Means::Everything => f.write_str("*"),
            Means::Cluster => f.write_str("cluster"),
            Means::Named {
                kind,
                name,
                is_prefix,
            } => {
                write!(f, "{}/", kind.as_str())?;
                write_encoded(f, name)?;
                f.write_str(if *is_prefix { "*" } else { "" })
            }
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Of(resource) => write!(f, "{resource}"),
            Place::Directory => f.write_str("log 0"),
        }
    }
}

fn is_bare(byte: u8) -> bool {
    byte.is_ascii_graphic() && !matches!(byte, b'%' | b'*')
}

fn write_encoded(f: &mut fmt::Formatter<'_>, name: &[u8]) -> fmt::Result {
    for byte in name {
        match is_bare(*byte) {
            true => write!(f, "{}", char::from(*byte))?,
            false => write!(f, "%{byte:02X}")?,
        }
    }
    Ok(())
}

/// `None`: a byte stands bare that must not, or a `%` without its digits.
fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut name = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        name.push(match byte {
            b'%' => {
                let high = char::from(bytes.next()?).to_digit(16)?;
                let low = char::from(bytes.next()?).to_digit(16)?;
                u8::try_from(high * 16 + low).ok()?
            }
            // Letters that people type: what is printed is their bytes.
            byte if is_bare(byte) || !byte.is_ascii() => byte,
            _ => return None,
        });
    }
    Some(name)
}
