//! Redis: one server, one copy, each write on its disk before the reply.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;

use super::generator::{Generator, Length};
use super::load::{Load, Turn};
use super::slots::{Map, address_of};
use crate::benches::rivals::service::{Servers, command, find};
use bench::roles::{Role, Watched};
use testbed::port;

pub const HOW_TO_GET: &str =
    "Redis is skipped: install redis-server 7.0, or put it into DIR/bin of --rivals DIR";

pub struct Installed(PathBuf);

pub struct Redis {
    servers: Servers,
    generator: Generator,
}

const PATIENCE: Duration = Duration::from_secs(30);

pub fn installed(directory: Option<&Path>) -> Option<Installed> {
    find("redis-server", directory).map(Installed)
}

impl Installed {
    /// With all keys written.
    pub fn start(&self, directory: &Path, keys: u32, value_bytes: usize) -> Result<Redis> {
        fs::create_dir_all(directory)?;
        let ports = port::free(1)?;
        let mut server = command(&self.0, directory);
        server.args(["--bind", "127.0.0.1", "--port", &ports[0].to_string()]);
        server.arg("--dir").arg(directory);
        server.args(["--appendonly", "yes", "--appendfsync", "always"]);
        server.args(["--save", "", "--auto-aof-rewrite-percentage", "0"]);
        let mut servers = Servers::default();
        servers.start(server, &directory.join("redis.log"))?;
        servers.wait_listening(&ports, PATIENCE)?;
        let map = Map::one(address_of(&format!("127.0.0.1:{}", ports[0]))?, keys);
        let mut generator = Generator::new(map, value_bytes)?;
        generator.fill(|_| ())?;
        Ok(Redis { servers, generator })
    }
}

impl Redis {
    pub fn turn(&mut self, load: Load, length: Length) -> Result<Turn> {
        let processes = self.servers.pids().into_iter();
        let processes = processes.map(|pid| (Role::Leader, pid)).collect();
        self.generator
            .turn(load, length, &Watched::new(processes, None))
    }
}
