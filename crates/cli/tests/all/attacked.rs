//! Attempts by TLS of those who have no business here: old versions, certificates of others, and such as have ended. By `openssl s_client`
//! where that is installed, and by bytes and clients of our own in any case.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use client::Transport;
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, Issuer, KeyPair, SanType};
use time::{Duration as Days, OffsetDateTime};

use crate::harness::{Node, err, logberg, own_ip};
use crate::tls::{Certs, secured};

const ASK: &[u8] = b"logberg/1 status\n";
const PATIENCE: Duration = Duration::from_secs(10);

/// A certificate with that URI, valid between those days from now, by an authority of `certs`: `OWN/tls.crt`, `OWN/tls.key`.
fn give(certs: &Certs, own: &Path, (uri, host): (&str, &str), days: [i64; 2]) {
    let read = |name: &str| fs::read_to_string(certs.directory.join(name)).expect("it is there");
    let key = KeyPair::from_pem(&read("ca.key")).expect("a key");
    let issuer = Issuer::from_ca_cert_pem(&read("ca.crt"), key).expect("an authority");
    let mut wants = CertificateParams::default();
    let uri = SanType::URI(uri.try_into().expect("plain"));
    let host = SanType::IpAddress(host.parse().expect("an address"));
    wants.subject_alt_names = vec![uri, host];
    wants.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    let now = OffsetDateTime::now_utc();
    [wants.not_before, wants.not_after] = days.map(|days| now + Days::days(days));
    let key = KeyPair::generate().expect("a key");
    let certificate = wants.signed_by(&key, &issuer).expect("a certificate");
    fs::create_dir_all(own).expect("room");
    fs::write(own.join("tls.crt"), certificate.pem()).expect("room");
    fs::write(own.join("tls.key"), key.serialize_pem()).expect("room");
    fs::copy(certs.directory.join("ca.crt"), own.join("ca.crt")).expect("a copy");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(own.join("tls.key"), mode).expect("ours");
}

/// The answer to one who shows that certificate; nothing, where he is not served.
fn told(ca: &str, own: &Path, server: &str) -> String {
    let trust = tls::Trust::read(Path::new(ca)).expect("an authority");
    let trust = trust.showing(&own.join("tls.crt"), &own.join("tls.key"));
    let socket = TcpStream::connect(server).expect("it listens");
    let secured = trust.expect("a pair").secure(socket, server, PATIENCE);
    let Ok(secured) = secured else {
        return String::new();
    };
    let mut socket = secured.socket;
    socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
    let mut answer = Vec::new();
    // ‡ By TLS 1.3 whoever comes has shaken hands before he is looked at.
    let _ = socket.write_all(ASK);
    let _ = socket.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).into_owned()
}

/// `openssl s_client` with these words, until the other end has closed: whether it says that it has shaken hands, and what came. `None`: it is not installed.
fn openssl(words: &[&str]) -> Option<(bool, String)> {
    let mut command = Command::new("openssl");
    command.args(["s_client", "-quiet"]).args(words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().ok()?;
    let _ = child.stdin.take().expect("piped").write_all(ASK);
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    Some((output.status.success(), said + &err(&output)))
}

/// A hello of TLS 1.2 as it was before there was 1.3: no extension says more.
fn hello_of(version: [u8; 2]) -> Vec<u8> {
    let mut body = version.to_vec();
    body.extend([7; 32]);
    // No session; one cipher, ECDHE-ECDSA-AES128-GCM-SHA256; no compression.
    body.extend([0, 0, 2, 0xc0, 0x2b, 1, 0]);
    let length = u8::try_from(body.len()).expect("short");
    let mut record = vec![0x16, 3, 1, 0, length + 4, 1, 0, 0, length];
    record.extend(body);
    record
}

#[test]
fn old_versions_are_refused_by_an_alert_and_nobody_is_served_by_them() {
    let (cluster, certs) = secured();
    let server = cluster.nodes[0].listen.clone();
    for version in [[3, 0], [3, 1], [3, 2], [3, 3]] {
        let mut socket = TcpStream::connect(&server).expect("it listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("a socket");
        socket.write_all(&hello_of(version)).expect("sent");
        let mut answer = Vec::new();
        let _ = socket.read_to_end(&mut answer);
        // An alert that ends it, and nothing else.
        assert_eq!((answer.first(), answer.get(5)), (Some(&0x15), Some(&2)));
        assert_eq!(answer.len(), 7, "{answer:?}");
    }
    let ca = certs.ca();
    let whole = ["-connect", &server, "-CAfile", &ca, "-verify_return_error"];
    for version in ["-tls1", "-tls1_1", "-tls1_2"] {
        let weak = [version, "-cipher", "DEFAULT@SECLEVEL=0"];
        if let Some((is_served, said)) = openssl(&[&whole[..], &weak].concat()) {
            assert!(!is_served && !said.contains("ok {"), "{version}: {said}");
        }
    }
    // ‡ As it is meant, it does: the words above are not what is wrong.
    if let Some((_, said)) = openssl(&[&whole[..], &["-tls1_3"]].concat()) {
        assert!(said.contains("\"node\":1,"), "{said}");
    }
    let other = Certs::make(cluster.directory.path().join("other"), &cluster.ip);
    let (ca, verify) = (other.ca(), "-verify_return_error");
    if let Some((is_served, said)) = openssl(&["-connect", &server, "-CAfile", &ca, verify]) {
        assert!(!is_served && !said.contains("ok {"), "{said}");
    }
}

#[test]
fn certificates_of_others_and_such_as_have_ended_open_nothing() {
    let (cluster, certs) = secured();
    let server = cluster.nodes[0].listen.clone();
    let place = cluster.directory.path();
    let other = Certs::make(place.join("other"), &cluster.ip);
    let ca = certs.ca();
    let (node, client) = ("logberg:node:n2", "logberg:client:alice");
    for (number, (by, uri, days, is_served)) in [
        (&certs, client, [-1, 1], true),
        (&certs, client, [-2, -1], false),
        (&certs, client, [1, 2], false),
        (&certs, node, [-2, -1], false),
        (&other, client, [-1, 1], false),
        (&other, node, [-1, 1], false),
    ]
    .into_iter()
    .enumerate()
    {
        let own = place.join(format!("shown-{number}"));
        give(by, &own, (uri, &cluster.ip), days);
        let answer = told(&ca, &own, &server);
        assert_eq!(answer.starts_with("ok {"), is_served, "{number}: {answer}");
        let file = |name: &str| own.join(name).display().to_string();
        let (certificate, key) = (file("tls.crt"), file("tls.key"));
        let words = ["-connect", &server, "-CAfile", &ca];
        let more = ["-cert", &certificate, "-key", &key];
        if let Some((_, said)) = openssl(&[&words[..], &more].concat()) {
            assert_eq!(said.contains("ok {"), is_served, "{number}: {said}");
        }
    }
    // A node whose own one has ended: nobody says a word to it.
    let (ip, own) = (own_ip(), place.join("ended"));
    give(&certs, &own, ("logberg:node:n9", &ip), [-2, -1]);
    let own = own.display().to_string();
    let words = ["--bootstrap", "--tls", "require", "--tls-dir", &own];
    let mut ended = Node::new(place.join("node9"), format!("{ip}:7009"), &words);
    ended.start();
    let listens = || TcpStream::connect(&ended.listen).ok();
    crate::harness::wait_for(listens, || ended.said());
    let words = ["status", "--ca", &ca, "--timeout", "2"];
    let refused = logberg(&ended.listen, &words).output().expect("it runs");
    assert_eq!(refused.status.code(), Some(3), "{}", err(&refused));
}
