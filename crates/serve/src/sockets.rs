//! The addresses of a node besides its first: more of TCP, Unix sockets, and the socket in its own directory.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Result;
use client::{Client, Timeouts, Transport};
use linux::{Kernel, UNIX, UnixAddress};
use node::wires::Wires;
use terminal::exit::{Failure, Kind};
use tls::Mode;

use crate::listening;
use crate::secure::Secure;
use crate::settings::Settings;

/// In the directory of a node.
pub const ADMIN_SOCKET: &str = "admin.sock";
/// What anyone may do who reaches a node that asks for no token.
pub const MAY_ALL: &str = "read, append and delete";
/// No such socket is made.
const OFF: &str = "off";

/// The addresses of `--listen`: the first HOST:PORT is what others are told of, and the rest are besides.
pub struct Addresses {
    pub first: String,
    pub also: Vec<String>,
}

impl Addresses {
    /// Errors: there is none that other machines reach, or one that is no path of a socket.
    pub fn of(listen: &[String]) -> Result<Addresses> {
        let (paths, mut also): (Vec<_>, Vec<_>) = listen
            .iter()
            .cloned()
            .partition(|address| address.starts_with(UNIX));
        for path in &paths {
            path.parse::<UnixAddress>().map_err(Failure::usage)?;
        }
        if also.is_empty() {
            let sentence = "other nodes reach this one at no socket of this machine: say --listen HOST:PORT too";
            return Err(Failure::usage(sentence).into());
        }
        let first = also.remove(0);
        also.extend(paths);
        Ok(Addresses { first, also })
    }
}

impl Settings {
    pub fn addresses(&self) -> Result<Addresses> {
        Addresses::of(&self.effective().listen)
    }
}

/// Takes the addresses besides the first.
pub fn bind_also(kernel: &mut Kernel, also: &[String], strangers: &Strangers) -> Result<()> {
    for address in also {
        let bound = kernel
            .bind_also(address)
            .map_err(|error| match address.starts_with(UNIX) {
                true => Failure::new(
                    Kind::Failure,
                    format!("cannot listen on {address}: {error}"),
                ),
                false => listening::refused("listen", address, "--listen", &error),
            })?;
        match bound {
            Some(bound) => strangers.note(bound, MAY_ALL),
            None => tracing::info!(address, "listening"),
        }
    }
    Ok(())
}

/// Other machines that reach this process: said when an address is bound, and told to the node, which warns of it.
#[derive(Clone)]
pub struct Strangers {
    wires: Wires,
    /// `None`: plain text alone is spoken.
    tls: Option<Mode>,
    insecure: bool,
    plain_is_private: bool,
}

impl Strangers {
    /// `plain_is_private`: others encrypt, before it comes here.
    pub fn new(
        wires: &Wires,
        tls: Option<&Secure>,
        (insecure, plain_is_private): (bool, bool),
    ) -> Strangers {
        Strangers {
            wires: wires.clone(),
            tls: tls.map(Secure::mode),
            insecure,
            plain_is_private,
        }
    }

    /// `may`: what anyone can do there who shows no token where none is asked for.
    pub fn note(&self, bound: SocketAddr, may: &str) {
        open_at(&self.wires, bound);
        if !bound.ip().is_loopback() {
            tracing::warn!(address = %bound, "{}", self.sentence(bound, may));
        }
    }

    /// ‡ This release says what the next one refuses (docs/decisions/0064-beyond-loopback.md): a node that ran yesterday starts.
    fn sentence(&self, bound: SocketAddr, may: &str) -> String {
        let tokens =
            format!("without `logberg auth enable` anyone who can reach {bound} can {may}");
        match (self.tls, self.insecure) {
            (None | Some(Mode::Accept), _) if self.plain_is_private => format!(
                "--plain-is-private: what comes to {bound} in plain text is taken to have been encrypted on the way, and nothing here looks at that; {tokens}"
            ),
            (Some(_), _) => tokens,
            (None, true) => format!("--insecure: nothing is encrypted, and {tokens}"),
            (None, false) => format!(
                "other machines reach {bound}, and nothing is encrypted: say --tls require with --tls-dir (`logberg certs` makes certificates), or --insecure (`insecure = true`) if all who reach it are friends, for a later release does not start without one of the two; and {tokens}"
            ),
        }
    }
}

/// Tells the node that other machines reach it there, if they do.
fn open_at(wires: &Wires, bound: SocketAddr) {
    if !bound.ip().is_loopback() {
        wires.tell(|told| told.open_at = Some(bound.to_string()));
    }
}

/// How the other parts of this process ask the node.
///
/// ‡ By its own socket, where there is one: no secret goes over its port, and what they ask for is asked by this process. Where there
/// is none, by its port as anybody else.
#[derive(Clone, Debug)]
pub struct Inner {
    socket: Option<PathBuf>,
    port: SocketAddr,
    /// For its port.
    transport: Option<Arc<dyn Transport>>,
}

impl Inner {
    /// `wish`: as of [`bind_own`]. `node`: where the node listens.
    pub fn of(wish: Option<&str>, directory: &Path, node: SocketAddr) -> Inner {
        let socket = match wish {
            Some(OFF) => None,
            Some(path) => Some(PathBuf::from(path)),
            None => Some(directory.join(ADMIN_SOCKET)),
        };
        let ip = match node.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        let port = SocketAddr::new(ip, node.port());
        Inner {
            socket,
            port,
            transport: None,
        }
    }

    pub fn by(self, transport: Option<Arc<dyn Transport>>) -> Inner {
        Inner { transport, ..self }
    }

    pub fn client(&self, timeouts: Timeouts) -> Client {
        Client::new(vec![self.server()], timeouts).by(self.transport.clone())
    }

    /// As a client names it, now.
    pub fn server(&self) -> String {
        self.socket().unwrap_or_else(|| self.port.to_string())
    }

    /// Its socket, as a client names it, if it is there now.
    pub fn socket(&self) -> Option<String> {
        let socket = self.socket.as_ref().filter(|path| path.exists());
        let socket = socket.and_then(|path| UnixAddress::new(path).ok());
        socket.map(|socket| socket.to_string())
    }

    /// Its port, as a client names it.
    pub fn port(&self) -> String {
        self.port.to_string()
    }

    /// At its port, where others are judged by what they show.
    pub fn at_port(&self, timeouts: Timeouts) -> Client {
        Client::new(vec![self.port.to_string()], timeouts).by(self.transport.clone())
    }
}

/// Takes the socket for root and the node's own user: the one that was wished for, or that in its directory, which it can do
/// without. (A node whose records are in memory may have no directory.)
///
/// Errors: the one that was wished for cannot be had.
pub fn bind_own(kernel: &mut Kernel, wish: Option<&str>, directory: &Path) -> Result<()> {
    let path = match wish {
        Some(OFF) => return Ok(()),
        Some(path) => Path::new(path).to_owned(),
        None if !directory.is_dir() => return Ok(()),
        None => directory.join(ADMIN_SOCKET),
    };
    let bound = UnixAddress::new(&path).and_then(|address| {
        let bound = kernel.bind_own(&address);
        bound.map_err(|error| format!("cannot listen on {}: {error}", path.display()))
    });
    match (bound, wish) {
        (Ok(()), _) => tracing::debug!(path = %path.display(), "listening for root and this user"),
        (Err(why), Some(_)) => return Err(Failure::new(Kind::Failure, why).into()),
        (Err(why), None) => tracing::warn!(
            "there is no socket for this machine's own commands: {why}; say another path with --socket PATH, or --socket off"
        ),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_listens_beyond_loopback_is_told_which_words_make_it_safe() {
        let bound: SocketAddr = "10.0.0.4:7117".parse().expect("an address");
        let said = |tls, insecure, plain_is_private| {
            let strangers = Strangers {
                wires: Wires::default(),
                tls,
                insecure,
                plain_is_private,
            };
            strangers.note(bound, MAY_ALL);
            let open_at = strangers.wires.told().open_at;
            assert_eq!(open_at.as_deref(), Some("10.0.0.4:7117"));
            strangers.sentence(bound, MAY_ALL)
        };
        let sentence = |tls, insecure| said(tls, insecure, false);
        for tls in [None, Some(Mode::Accept)] {
            let private = said(tls, false, true);
            assert!(private.starts_with("--plain-is-private: "), "{private}");
            assert!(private.contains("auth enable") && !private.contains("a later release"));
        }
        let required = said(Some(Mode::Require), false, true);
        assert!(!required.contains("--plain-is-private"), "{required}");
        let plain = sentence(None, false);
        for word in [
            "--tls require",
            "--tls-dir",
            "logberg certs",
            "--insecure",
            "auth enable",
        ] {
            assert!(plain.contains(word), "{word}: {plain}");
        }
        assert!(plain.contains("a later release does not start"), "{plain}");
        let insecure = sentence(None, true);
        assert!(!insecure.contains("a later release"), "{insecure}");
        assert!(!sentence(Some(Mode::Accept), false).contains("encrypted"));
        let here = Wires::default();
        open_at(&here, "127.8.8.8:7117".parse().expect("an address"));
        assert_eq!(here.told().open_at, None, "loopback is no stranger's");
    }

    #[test]
    fn the_node_is_asked_by_its_socket_and_else_on_loopback() {
        let inner = |wish, address: &str| {
            let address = address.parse().expect("an address");
            Inner::of(wish, Path::new("/nowhere"), address).server()
        };
        assert_eq!(inner(None, "0.0.0.0:7117"), "127.0.0.1:7117");
        assert_eq!(inner(Some("off"), "[::]:7117"), "[::1]:7117");
        assert_eq!(inner(Some("off"), "10.0.0.4:7117"), "10.0.0.4:7117");
        // A file that is there.
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        assert_eq!(inner(Some(path), "10.0.0.4:7117"), format!("unix:{path}"));
    }

    #[test]
    fn the_first_address_of_tcp_is_what_others_are_told() {
        let of = |listen: &[&str]| {
            let listen: Vec<String> = listen.iter().map(ToString::to_string).collect();
            Addresses::of(&listen).map(|all| (all.first, all.also))
        };
        let (first, also) = of(&["unix:/a", "h:1", "h:2"]).expect("addresses");
        assert_eq!(first, "h:1");
        assert_eq!(also, ["h:2", "unix:/a"]);
        for (wrong, part) in [
            (&["unix:/a"][..], "say --listen HOST:PORT too"),
            (&["h:1", "unix:"], "path of a socket"),
            (&["h:1", "unix:/a?mode=9"], "a mode is as chmod has it"),
        ] {
            let said = of(wrong).expect_err("it is refused").to_string();
            assert!(said.contains(part), "{said}");
        }
    }
}
