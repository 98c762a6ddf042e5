//! A node's settings as a TOML file has them, and as `--print-config` prints them.

use std::path::PathBuf;

use linux::{Ink, Mover};
use replica::Limits;
use serde::{Deserialize, Serialize};
use wire::NodeKind;

const DEFAULT_LISTEN: &str = "127.0.0.1:7117";
pub const DEFAULT_VOTERS: u32 = 3;

/// The settings. One that is not said is not there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Settings {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_long_poll: Option<f64>,
    #[serde(default)]
    pub insecure: bool,
    #[serde(default)]
    pub bootstrap: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub voters: Option<u32>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub join: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub peer: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<NodeKind>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub catch_up_rate: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scrub_rate: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_reserve: Option<u64>,
    /// In seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version_settle: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mover: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ink: Option<String>,
}

impl Settings {
    /// The error is a sentence that shows the place.
    pub fn parse(text: &str) -> Result<Settings, String> {
        toml::from_str(text).map_err(|error: toml::de::Error| error.to_string().trim().to_owned())
    }

    /// Fails for numbers that TOML does not have.
    pub fn to_toml(&self) -> Result<String, toml::ser::Error> {
        toml::to_string_pretty(self)
    }

    /// With the defaults in the places of what is not said.
    pub fn effective(&self) -> Settings {
        let limits = Limits::default();
        let listen = self
            .listen
            .clone()
            .unwrap_or_else(|| DEFAULT_LISTEN.to_string());
        Settings {
            data: self.data.clone(),
            advertise: Some(self.advertise.clone().unwrap_or_else(|| listen.clone())),
            listen: Some(listen),
            admin: self.admin.clone(),
            kv: self.kv.clone(),
            kv_advertise: self.kv_advertise.clone(),
            http: self.http.clone(),
            http_long_poll: self.http_long_poll,
            insecure: self.insecure,
            bootstrap: self.bootstrap,
            voters: Some(self.voters.unwrap_or(DEFAULT_VOTERS)),
            join: self.join.clone(),
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
