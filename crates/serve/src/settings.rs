//! A node's settings as a TOML file has them, and as `--print-config` prints them.

use std::path::PathBuf;

use linux::{Ink, Mover, UNIX};
use replica::Limits;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use wire::NodeKind;
use wire::quantity;

const DEFAULT_LISTEN: &str = "127.0.0.1:7117";
/// The address of the admin port where none is said (docs/operations.md, packaging/).
pub const DEFAULT_ADMIN: &str = "127.0.0.1:7217";
pub const DEFAULT_VOTERS: u32 = 3;

/// The settings. One that is not said is not there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<PathBuf>,
    /// One, or a list.
    #[serde(default, with = "one_or_many", skip_serializing_if = "Vec::is_empty")]
    pub listen: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advertise: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admin: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_advertise: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<String>,
    /// In seconds.
    #[serde(
        default,
        deserialize_with = "seconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub http_long_poll: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_dir: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_crl: Option<PathBuf>,
    #[serde(default)]
    pub plain_is_private: bool,
    #[serde(default)]
    pub insecure: bool,
    #[serde(default)]
    pub bootstrap: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voters: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub join: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replaces: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peer: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<NodeKind>,
    #[serde(
        default,
        deserialize_with = "bytes",
        skip_serializing_if = "Option::is_none"
    )]
    pub catch_up_rate: Option<u64>,
    #[serde(
        default,
        deserialize_with = "bytes",
        skip_serializing_if = "Option::is_none"
    )]
    pub scrub_rate: Option<u64>,
    #[serde(
        default,
        deserialize_with = "bytes",
        skip_serializing_if = "Option::is_none"
    )]
    pub disk_reserve: Option<u64>,
    /// In seconds.
    #[serde(
        default,
        deserialize_with = "whole_seconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub version_settle: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mover: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ink: Option<String>,
}

impl Settings {
    /// The error shows the place, and how to see what each setting looks like.
    pub fn parse(text: &str) -> Result<Settings, String> {
        toml::from_str(text).map_err(|error: toml::de::Error| {
            let what = error.to_string();
            format!(
                "{}\n`logberg node --print-config` shows each setting as it is written",
                what.trim()
            )
        })
    }

    /// Fails for numbers that TOML does not have.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string_pretty(self)
    }

    /// With the defaults in the places of what is not said.
    pub fn effective(&self) -> Settings {
        let limits = Limits::default();
        let mut listen = self.listen.clone();
        if listen.is_empty() {
            listen.push(DEFAULT_LISTEN.to_owned());
        }
        let first = listen.iter().find(|address| !address.starts_with(UNIX));
        let first = first.cloned();
        Settings {
            data: self.data.clone(),
            advertise: self.advertise.clone().or(first),
            listen,
            socket: self.socket.clone(),
            admin: self.admin.clone(),
            kv: self.kv.clone(),
            kv_advertise: self.kv_advertise.clone(),
            http: self.http.clone(),
            http_long_poll: self.http_long_poll,
            tls: self.tls.clone(),
            tls_dir: self.tls_dir.clone(),
            tls_crl: self.tls_crl.clone(),
            plain_is_private: self.plain_is_private,
            insecure: self.insecure,
            bootstrap: self.bootstrap,
            voters: Some(self.voters.unwrap_or(DEFAULT_VOTERS)),
            join: self.join.clone(),
            replaces: self.replaces,
            peer: self.peer.clone(),
            zone: self.zone.clone(),
            kind: Some(self.kind.unwrap_or_default()),
            catch_up_rate: Some(
                self.catch_up_rate
                    .unwrap_or(limits.catch_up_bytes_per_second),
            ),
            scrub_rate: Some(self.scrub_rate.unwrap_or(limits.scrub_bytes_per_second)),
            disk_reserve: Some(self.disk_reserve.unwrap_or(limits.disk_reserve_bytes)),
            version_settle: Some(
                self.version_settle
                    .unwrap_or(limits.version_settle.as_secs()),
            ),
            mover: Some(
                self.mover
                    .clone()
                    .unwrap_or_else(|| Mover::default().to_string()),
            ),
            ink: Some(
                self.ink
                    .clone()
                    .unwrap_or_else(|| Ink::default().to_string()),
            ),
        }
    }
}

/// A list of which one alone stands as itself.
mod one_or_many {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[derive(Deserialize)]
    #[serde(
        untagged,
        expecting = "no address; write \"127.0.0.1:7117\", or a list of such"
    )]
    enum Said {
        One(String),
        Many(Vec<String>),
    }

    pub fn serialize<S: Serializer>(all: &[String], to: S) -> Result<S::Ok, S::Error> {
        match all {
            [one] => one.serialize(to),
            all => all.serialize(to),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
        Ok(match Said::deserialize(from)? {
            Said::One(one) => vec![one],
            Said::Many(many) => many,
        })
    }
}

// Sizes and times as a file may have them: as numbers, or as the options take them.

#[derive(Deserialize)]
#[serde(untagged, expecting = "no number of bytes; write 4096, 64KiB or 1.5M")]
enum Bytes {
    Number(u64),
    Text(String),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "no time; write 90, 90s, 15m, 1h or 7d")]
enum WholeSeconds {
    Number(u64),
    Text(String),
}

#[derive(Deserialize)]
#[serde(untagged, expecting = "no time; write 20, 500ms, 20s or 1m")]
enum Seconds {
    Number(f64),
    Text(String),
}

fn bytes<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let bytes = match Bytes::deserialize(from)? {
        Bytes::Number(bytes) => bytes,
        Bytes::Text(text) => quantity::bytes(&text).map_err(Error::custom)?,
    };
    Ok(Some(bytes))
}

fn whole_seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let seconds = match WholeSeconds::deserialize(from)? {
        WholeSeconds::Number(seconds) => seconds,
        WholeSeconds::Text(text) => quantity::whole_seconds(&text).map_err(Error::custom)?,
    };
    Ok(Some(seconds))
}

/// ‡ Text is checked as the option is; a number as well, so that a file says nothing that the option would refuse.
fn seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    let text = match Seconds::deserialize(from)? {
        Seconds::Number(seconds) => seconds.to_string(),
        Seconds::Text(text) => text,
    };
    Ok(Some(quantity::seconds(&text).map_err(Error::custom)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_takes_what_the_options_take() {
        let text = "disk-reserve = \"256MiB\"\ncatch-up-rate = \"32M\"\nscrub-rate = 2000000\n\
                    version-settle = \"1h\"\nhttp-long-poll = \"500ms\"\n";
        let settings = Settings::parse(text).expect("sound");
        assert_eq!(settings.disk_reserve, Some(256 << 20));
        assert_eq!(settings.catch_up_rate, Some(32_000_000));
        assert_eq!(settings.scrub_rate, Some(2_000_000));
        assert_eq!(settings.version_settle, Some(3600));
        assert_eq!(settings.http_long_poll, Some(0.5));
        let numbers = Settings::parse("version-settle = 60\nhttp-long-poll = 20\n").expect("sound");
        assert_eq!(numbers.version_settle, Some(60));
        assert_eq!(numbers.http_long_poll, Some(20.0));
    }

    #[test]
    fn nonsense_in_a_file_is_refused_with_the_remedy() {
        for (text, remedy) in [
            ("disk-reserve = \"lots\"", "write 4096, 64KiB or 1.5M"),
            ("disk-reserve = -1", "write 4096, 64KiB or 1.5M"),
            ("scrub-rate = true", "write 4096, 64KiB or 1.5M"),
            ("version-settle = \"1y\"", "write 90, 90s, 15m, 1h or 7d"),
            ("version-settle = -5", "write 90, 90s, 15m, 1h or 7d"),
            ("http-long-poll = \"never\"", "a time"),
            ("listen = 5", "write \"127.0.0.1:7117\""),
            ("voters = \"three\"", "logberg node --print-config"),
        ] {
            let refused = Settings::parse(text).expect_err(text);
            assert!(refused.contains(remedy), "{text}: {refused}");
        }
    }
}
