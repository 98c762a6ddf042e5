//! Unix sockets that a kernel listens on: their files are made, taken over from the dead, and removed.

use std::fmt;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

/// How the address of a Unix socket begins.
pub const UNIX: &str = "unix:";
/// The bytes of a path, as the system has it.
const PATH_BYTES_MAX: usize = 107;
/// Its owner alone.
const MODE: u32 = 0o600;
const MODE_KEY: &str = "?mode=";

/// The file of a socket, and who may connect: `unix:PATH`, or `unix:PATH?mode=0660`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixAddress {
    path: PathBuf,
    mode: u32,
}

impl UnixAddress {
    /// A socket for its owner alone.
    ///
    /// Errors: the path is none that the system takes.
    pub fn new(path: impl Into<PathBuf>) -> Result<UnixAddress, String> {
        let path = path.into();
        let bytes = path.as_os_str().as_bytes();
        if bytes.is_empty() || bytes.contains(&0) {
            return Err(format!("{UNIX} is to be followed by the path of a socket"));
        }
        if bytes.len() > PATH_BYTES_MAX {
            return Err(format!(
                "{} has {} bytes, and the path of a socket has at most {PATH_BYTES_MAX}: choose a shorter one",
                path.display(),
                bytes.len()
            ));
        }
        Ok(UnixAddress { path, mode: MODE })
    }
}

impl FromStr for UnixAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<UnixAddress, String> {
        let path = text.strip_prefix(UNIX);
        let path = path.ok_or_else(|| format!("{text} does not begin with {UNIX}"))?;
        let Some((path, digits)) = path.rsplit_once(MODE_KEY) else {
            return UnixAddress::new(path);
        };
        let mode = match digits.bytes().all(|digit| digit.is_ascii_digit()) {
            true => u32::from_str_radix(digits, 8).ok(),
            false => None,
        };
        let mode = mode
            .filter(|mode| *mode <= 0o777)
            .ok_or_else(|| format!("{text}: a mode is as chmod has it, such as {MODE_KEY}0660"))?;
        Ok(UnixAddress {
            mode,
            ..UnixAddress::new(path)?
        })
    }
}

impl fmt::Display for UnixAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{UNIX}{}", self.path.display())
    }
}

/// The file of a socket that this process listens on. It goes with its owner.
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Its device and number: another process may have put its own there since.
    identity: (u64, u64),
}

impl SocketFile {
    /// Makes the file, and a socket that is bound to it. Nobody can connect before the socket listens, and by then
    /// the file has its mode.
    ///
    /// Errors: `AddrInUse` if a living process listens there, `AlreadyExists` if the file is something else.
    pub fn bind(address: &UnixAddress) -> io::Result<(OwnedFd, SocketFile)> {
        let path = &address.path;
        make_way(path)?;
        let socket = new_socket()?;
        rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
        let made = fs::symlink_metadata(path)?;
        let file = SocketFile {
            path: path.clone(),
            identity: (made.dev(), made.ino()),
        };
        fs::set_permissions(path, fs::Permissions::from_mode(address.mode))?;
        Ok((socket, file))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let found = fs::symlink_metadata(&self.path);
        if found.is_ok_and(|found| (found.dev(), found.ino()) == self.identity) {
            // Left behind, it is taken over by the next one.
            let _ = fs::remove_file(&self.path);
        }
    }
}

fn new_socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(rustix::net::socket_with(
        AddressFamily::UNIX,
        SocketType::STREAM,
        flags,
        None,
    )?)
}

/// Removes the file of a socket on which nobody listens any more.
fn make_way(path: &Path) -> io::Result<()> {
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    if !found.file_type().is_socket() {
        let sentence = format!(
            "{} is there and is no socket: remove it, or choose another path",
            path.display()
        );
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, sentence));
    }
    let asks = new_socket()?;
    match rustix::net::connect(&asks, &SocketAddrUnix::new(path)?) {
        Err(Errno::CONNREFUSED) => fs::remove_file(path),
        // A queue that is full is one of a process that lives.
        Ok(()) | Err(Errno::AGAIN | Errno::INPROGRESS) => {
            let sentence = format!(
                "a living process listens on {}: stop that one, or choose another path",
                path.display()
            );
            Err(io::Error::new(io::ErrorKind::AddrInUse, sentence))
        }
        Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_path_and_a_mode() {
        let parse = |text: &str| text.parse::<UnixAddress>();
        let own = parse("unix:/run/logberg.sock").expect("an address");
        assert_eq!(own.mode, 0o600);
        assert_eq!(own.to_string(), "unix:/run/logberg.sock");
        assert_eq!(parse("unix:a?mode=0660").expect("an address").mode, 0o660);
        assert_eq!(parse("unix:a?mode=777").expect("an address").mode, 0o777);
        let long = format!("unix:/{}", "a".repeat(PATH_BYTES_MAX));
        for text in [
            "127.0.0.1:7117",
            "unix:",
            "unix:?mode=0600",
            "unix:a\0b",
            "unix:a?mode=",
            "unix:a?mode=1777",
            "unix:a?mode=88",
            "unix:a?mode=+6",
            &long,
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse(&long[..long.len() - 1]).is_ok());
    }
}
