//! An authority of one's own, and the certificates that it gives to nodes and clients: for development, and for small clusters.
//!
//! ```text
//!   DIR/ca.crt        the authority; every node, and every client, believes it
//!   DIR/ca.key        its key: whoever has it makes nodes
//!   DIR/ca.crl        what it has revoked; every node (`--tls-crl`)
//!   DIR/NAME/         what a node is given (`--tls-dir`), or a client (`--cert`, `--key`): tls.crt, tls.key, ca.crt
//! ```

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, DistinguishedName,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    RevokedCertParams, SanType, SerialNumber,
};
use terminal::exit::{Failure, Kind};
use time::{Duration, OffsetDateTime};
use tls::{CA_FILE, CERTIFICATE_FILE, CLIENT_NAME, KEY_FILE, NODE_NAME, Named};

const CA_KEY_FILE: &str = "ca.key";
const REVOKED_FILE: &str = "ca.crl";
/// Years of 365 days.
const CA_DAYS: i64 = 10 * 365;
/// Clocks differ.
const BEFORE: Duration = Duration::hours(1);
const NAME_BYTES_MAX: usize = 64;

/// The owner of a certificate.
pub enum Whose<'a> {
    /// And the names and addresses under which it is reached.
    Node(&'a str, &'a [String]),
    Client(&'a str),
}

/// A directory with an authority.
pub struct Authority {
    directory: PathBuf,
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Makes one.
    ///
    /// Errors: there is one already.
    pub fn make(directory: &Path) -> Result<Authority> {
        let shown = directory.display();
        if directory.join(CA_FILE).exists() || directory.join(CA_KEY_FILE).exists() {
            let sentence = format!(
                "{shown} has an authority already, and its certificates are believed: choose another --dir for another one"
            );
            return Err(Failure::new(Kind::Refused, sentence).into());
        }
        make_directory(directory)?;
        let key = KeyPair::generate()?;
        let mut wants = CertificateParams::default();
        // Two authorities of one name are taken for one another, until a signature does not fit.
        let number = tag();
        wants.distinguished_name = named(&format!("Logberg authority {number}"));
        wants.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        wants.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        valid_for(&mut wants, CA_DAYS);
        let certificate = wants.self_signed(&key)?.pem();
        write(&directory.join(CA_KEY_FILE), &key.serialize_pem(), 0o600)?;
        write(&directory.join(CA_FILE), &certificate, 0o644)?;
        Authority::open(directory)
    }

    /// Errors: there is none.
    pub fn open(directory: &Path) -> Result<Authority> {
        let read = |name: &str| {
            let path = directory.join(name);
            fs::read_to_string(&path).map_err(|error| {
                let sentence = format!(
                    "cannot read {}: {error}; `logberg certs init --dir {}` makes an authority",
                    path.display(),
                    directory.display()
                );
                let kind = match error.kind() {
                    io::ErrorKind::NotFound => Kind::NotFound,
                    _ => Kind::Failure,
                };
                Failure::new(kind, sentence)
            })
        };
        let (certificate, key) = (read(CA_FILE)?, read(CA_KEY_FILE)?);
        let unusable = || {
            format!(
                "{} holds no authority that can be used",
                directory.display()
            )
        };
        let key = KeyPair::from_pem(&key).with_context(unusable)?;
        let issuer = Issuer::from_ca_cert_pem(&certificate, key).with_context(unusable)?;
        Ok(Authority {
            directory: directory.to_owned(),
            certificate,
            issuer,
        })
    }

    /// Gives a node or a client a certificate of its own, in a directory.
    ///
    /// Errors: it has one, and is not to have another (`again`); or the name is that of one of the other kind.
    pub fn give(&self, whose: &Whose<'_>, days: u32, again: bool) -> Result<PathBuf> {
        let (name, hosts, uri) = match whose {
            Whose::Node(name, hosts) => (*name, *hosts, NODE_NAME),
            Whose::Client(name) => (*name, &[][..], CLIENT_NAME),
        };
        let into = self.directory.join(name);
        self.check_kind(&into, whose)?;
        if into.join(CERTIFICATE_FILE).exists() && !again {
            let sentence = format!(
                "{} has a certificate already: say --again for a new one in its place",
                into.display()
            );
            return Err(Failure::new(Kind::Refused, sentence).into());
        }
        let mut wants = CertificateParams::default();
        wants.distinguished_name = named(name);
        for host in hosts {
            wants.subject_alt_names.push(match host.parse() {
                Ok(address) => SanType::IpAddress(address),
                Err(_) => SanType::DnsName(host.as_str().try_into()?),
            });
        }
        let uri = format!("{uri}{name}");
        wants.subject_alt_names.push(SanType::URI(uri.try_into()?));
        wants.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // A node is dialled, and dials.
        wants.extended_key_usages = match whose {
            Whose::Node(..) => vec![
                ExtendedKeyUsagePurpose::ServerAuth,
                ExtendedKeyUsagePurpose::ClientAuth,
            ],
            Whose::Client(_) => vec![ExtendedKeyUsagePurpose::ClientAuth],
        };
        wants.use_authority_key_identifier_extension = true;
        valid_for(&mut wants, i64::from(days));
        let key = KeyPair::generate()?;
        let certificate = wants.signed_by(&key, &self.issuer)?.pem();
        make_directory(&into)?;
        write(&into.join(CA_FILE), &self.certificate, 0o644)?;
        // A node that looks between the two finds that they do not fit, and looks again.
        write(&into.join(KEY_FILE), &key.serialize_pem(), 0o600)?;
        write(&into.join(CERTIFICATE_FILE), &certificate, 0o644)?;
        Ok(into)
    }

    /// A directory is of a node or of a client, and stays so: --again in the wrong one would take a node's certificate away.
    fn check_kind(&self, into: &Path, whose: &Whose<'_>) -> Result<()> {
        let Ok(there) = Named::of_file(&into.join(CERTIFICATE_FILE)) else {
            return Ok(());
        };
        let kind = match (whose, there.node, there.client) {
            (Whose::Client(_), Some(_), _) => "node",
            (Whose::Node(..), None, Some(_)) => "client",
            _ => return Ok(()),
        };
        let sentence = format!(
            "{} has the certificate of a {kind}: choose another name",
            into.display()
        );
        Err(Failure::new(Kind::Refused, sentence).into())
    }

    /// Revokes a certificate, and writes the list of all that are (`--tls-crl`).
    ///
    /// Errors: it is of another authority, or the list cannot be read.
    pub fn revoke(&self, certificate: &Path) -> Result<PathBuf> {
        let serial = Named::of_file(certificate)?.serial;
        let path = self.directory.join(REVOKED_FILE);
        let known = tls::revoked_serials(&path)?;
        let is_known = known.contains(&serial);
        let now = OffsetDateTime::now_utc();
        let serials = known.into_iter().chain((!is_known).then_some(serial));
        let revoked_certs = serials.map(|serial| RevokedCertParams {
            serial_number: SerialNumber::from(serial),
            revocation_time: now - BEFORE,
            reason_code: None,
            invalidity_date: None,
        });
        let number = u64::try_from(now.unix_timestamp()).unwrap_or_default();
        let list = CertificateRevocationListParams {
            this_update: now - BEFORE,
            next_update: now + Duration::days(CA_DAYS),
            crl_number: SerialNumber::from(number),
            issuing_distribution_point: None,
            revoked_certs: revoked_certs.collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        write(&path, &list.signed_by(&self.issuer)?.pem()?, 0o644)?;
        Ok(path)
    }

    /// The file that clients are given (`--ca`).
    pub fn file(&self) -> PathBuf {
        self.directory.join(CA_FILE)
    }
}

/// The name of a node in a certificate.
pub fn node_name(text: &str) -> Result<String, String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_one = !text.is_empty()
        && text.len() <= NAME_BYTES_MAX
        && !text.starts_with('.')
        && text.chars().all(plain);
    match is_one {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "a node's name has 1 to {NAME_BYTES_MAX} of letters, digits, and - _ . and does not begin with a dot, such as n1"
        )),
    }
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

/// Eight letters that another authority does not have.
fn tag() -> String {
    let mut bytes = [0; 4];
    let _ = rustix::rand::getrandom(&mut bytes[..], rustix::rand::GetRandomFlags::empty());
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn valid_for(wants: &mut CertificateParams, days: i64) {
    let now = OffsetDateTime::now_utc();
    wants.not_before = now - BEFORE;
    wants.not_after = now + Duration::days(days);
}

fn make_directory(path: &Path) -> Result<()> {
    let mut made = fs::DirBuilder::new();
    made.recursive(true).mode(0o700);
    made.create(path)
        .with_context(|| format!("cannot make {}", path.display()))
}

/// Replaces a file at once, so that who reads it finds the old one or the new one whole.
fn write(path: &Path, text: &str, mode: u32) -> Result<()> {
    let aside = path.with_extension("new");
    let written = (|| {
        let _ = fs::remove_file(&aside);
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&aside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&aside, path)
    })();
    written.with_context(|| format!("cannot write {}", path.display()))
}
