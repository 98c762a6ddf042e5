//! The faults, one at a time. The nemesis does them by chance.

use std::path::Path;
use std::time::Duration;

use ops::{ConnId, Time};

use crate::clockwork::Event;
use crate::disk::{DiskCopy, DiskFaults};
use crate::host::HostId;
use crate::world::World;

impl World {
    /// Nothing gets from one host to the other, until `heal`.
    pub fn cut(&mut self, from: HostId, to: HostId) {
        self.line(format_args!("cut {} -> {}", self.name(from), self.name(to)));
        self.net.cut(from, to);
    }

    pub fn cut_both(&mut self, a: HostId, b: HostId) {
        self.cut(a, b);
        self.cut(b, a);
    }

    pub fn heal(&mut self, from: HostId, to: HostId) {
        self.line(format_args!(
            "heal {} -> {}",
            self.name(from),
            self.name(to)
        ));
        self.net.mend(&mut self.clock, from, to);
    }

    pub fn heal_all(&mut self) {
        for (from, to) in self.net.cuts.clone() {
            self.heal(from, to);
        }
    }

    /// Resets the connection behind a process's `conn`, for both sides.
    pub fn reset(&mut self, host: HostId, conn: ConnId) {
        if let Some(&(id, _)) = self.net.conns[host.index()].get(&conn) {
            self.net.reset_both(&mut self.clock, id);
        }
    }

    /// Disk ops are taken and never complete, until `release_disk`.
    pub fn hang_disk(&mut self, host: HostId) {
        self.line(format_args!("disk of {} hangs", self.name(host)));
        self.disks[host.index()].faults.hung = true;
    }

    pub fn release_disk(&mut self, host: HostId) {
        let disk = &mut self.disks[host.index()];
        disk.faults.hung = false;
        for number in disk.take_held() {
            self.clock
                .after(Duration::ZERO, Event::DiskDone { host, number });
        }
    }

    /// Flips a bit at rest. False if there is no such byte.
    pub fn corrupt(&mut self, host: HostId, path: impl AsRef<Path>, offset: u64) -> bool {
        let path = path.as_ref();
        let name = self.name(host);
        self.line(format_args!("flip {name} {} at {offset}", path.display()));
        let bit = self.clock.random.below(8) as u8;
        self.disks[host.index()].flip(path, offset, bit)
    }

    /// Puts other bytes at rest, with whatever checksums they have. False if there are not so many.
    pub fn overwrite(
        &mut self,
        host: HostId,
        path: impl AsRef<Path>,
        offset: u64,
        bytes: &[u8],
    ) -> bool {
        let (path, name) = (path.as_ref(), self.name(host));
        self.line(format_args!(
            "overwrite {name} {} at {offset}",
            path.display()
        ));
        self.disks[host.index()].overwrite(path, offset, bytes)
    }

    /// Somebody removes a file at rest. False if there is none.
    pub fn remove_file(&mut self, host: HostId, path: impl AsRef<Path>) -> bool {
        let (path, name) = (path.as_ref(), self.name(host));
        self.line(format_args!("remove {name} {}", path.display()));
        self.disks[host.index()].media.remove(path).is_ok()
    }

    /// Its machine comes back with an empty disk. The process must not be running.
    pub fn lose_disk(&mut self, host: HostId) {
        assert!(!self.is_running(host), "crash it first");
        self.line(format_args!("{} loses its disk", self.name(host)));
        self.disks[host.index()].lose_everything();
    }

    /// A copy of the disk's present contents: of a running process, a snapshot between two of its writes.
    pub fn copy_disk(&mut self, host: HostId) -> DiskCopy {
        if let Some(watch) = &mut self.watch {
            watch.on_copied(host);
        }
        self.line(format_args!("the disk of {} is copied", self.name(host)));
        self.disks[host.index()].copy()
    }

    /// Gives the host the files of the copy, and no others; the copy can be put back again. The process must
    /// not be running. An observer of the disks has to know that one of them forgot.
    pub fn put_disk_back(&mut self, host: HostId, copy: &DiskCopy) {
        assert!(!self.is_running(host), "crash it first");
        self.line(format_args!(
            "an old copy of the disk of {} is put back",
            self.name(host)
        ));
        if let Some(watch) = &mut self.watch {
            watch.on_put_back(host);
        }
        self.disks[host.index()].put_back(copy);
    }

    /// The host's clock gains so much at once. (Monotonic clocks do not jump back.)
    pub fn jump_clock(&mut self, host: HostId, forward_us: u64) {
        self.hosts[host.index()].clock.jump(forward_us);
        self.hosts[host.index()].timer = None;
        self.clock.wake_soon(host);
    }

    pub fn drift_clock(&mut self, host: HostId, gains_ppm: i64) {
        let now = self.clock.now;
        let state = &mut self.hosts[host.index()];
        state.clock.drift(now, gains_ppm);
        state.timer = None;
        self.clock.wake_soon(host);
    }

    /// Every rate at zero, every path whole, every disk working: from here on all must end well.
    /// Processes are not restarted.
    pub fn calm(&mut self) {
        self.line(format_args!("calm"));
        self.heal_all();
        self.net.model.losses.0 = 0;
        self.net.model.resets.0 = 0;
        self.net.model.flips.0 = 0;
        for index in 0..self.hosts.len() {
            let host = HostId(index as u32);
            self.disks[index].faults = DiskFaults::default();
            self.release_disk(host);
            self.hosts[index].paused_until = Time::ZERO;
            self.hosts[index].dies_after_ops = None;
            self.clock.wake_at(host, self.clock.now);
        }
    }
}
