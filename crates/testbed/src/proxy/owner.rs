//! Which node a connection is of, as the system tells it: by the process that has the socket at its other end.

use std::fs;
use std::net::{IpAddr, SocketAddr};

/// The node that has the socket with that address. Only nodes that this process started are looked at.
pub fn node_of(peer: SocketAddr) -> Option<u32> {
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    let inode = inode_of(&table, peer)?;
    let link = format!("socket:[{inode}]");
    let tied = format!("--die-with-parent={}", std::process::id());
    let processes = fs::read_dir("/proc").ok()?.flatten();
    processes
        .filter_map(|process| {
            let words = fs::read_to_string(process.path().join("cmdline")).ok()?;
            let words: Vec<&str> = words.split('\0').collect();
            let is_ours = words.contains(&tied.as_str());
            let node = node_in(&words).filter(|_| is_ours)?;
            Some((node, process.path().join("fd")))
        })
        .find_map(|(node, files)| {
            let mut files = fs::read_dir(files).ok()?.flatten();
            let has_it = files.any(|file| {
                let target = fs::read_link(file.path());
                target.is_ok_and(|target| target.as_os_str() == link.as_str())
            });
            has_it.then_some(node)
        })
}

/// The number at the end of its directory's name.
fn node_in(words: &[&str]) -> Option<u32> {
    let at = words.iter().position(|word| *word == "--data")?;
    let (_, number) = words.get(at + 1)?.rsplit_once("node-")?;
    number.parse().ok()
}

/// The number of the socket whose own address is this.
fn inode_of(table: &str, own: SocketAddr) -> Option<&str> {
    let IpAddr::V4(ip) = own.ip() else {
        return None;
    };
    // The system writes the four bytes as one number of its own order.
    let ip = u32::from_ne_bytes(ip.octets());
    let wanted = format!("{ip:08X}:{:04X}", own.port());
    table.lines().skip(1).find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let is_it = words.nth(1)? == wanted;
        words.nth(7).filter(|_| is_it)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn a_socket_is_found_by_its_own_address() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let socket = TcpStream::connect(address).expect("it listens");
        let table = fs::read_to_string("/proc/net/tcp").expect("a table");
        let own = socket.local_addr().expect("connected");
        let found = inode_of(&table, own).expect("it is there");
        use std::os::fd::AsRawFd;
        let path = format!("/proc/self/fd/{}", socket.as_raw_fd());
        let inode = fs::metadata(path).expect("it is open").ino();
        assert_eq!(found, inode.to_string());
        // Its owner is no node.
        assert_eq!(node_of(own), None);
    }

    #[test]
    fn a_node_is_known_by_the_directory_that_it_was_given() {
        assert_eq!(node_in(&["x", "node", "--data", "/a/node-12"]), Some(12));
        assert_eq!(node_in(&["x", "node", "--data", "/a/b"]), None);
        assert_eq!(node_in(&["x", "--data"]), None);
    }
}
