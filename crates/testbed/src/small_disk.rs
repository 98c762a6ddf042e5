//! A small file system in a file, to be filled.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use rustix::fs::{FallocateFlags, fallocate, statvfs};

/// Mounted until it is dropped. Takes root.
pub struct SmallDisk {
    mounted: PathBuf,
}

impl SmallDisk {
    /// `name.image` and, mounted, `name` below the directory.
    pub fn mount(directory: &Path, name: &str, bytes: u64) -> Result<SmallDisk> {
        let image = directory.join(format!("{name}.image"));
        let mounted = directory.join(name);
        fs::create_dir_all(&mounted)
            .with_context(|| format!("cannot make {}", mounted.display()))?;
        let file = File::create(&image);
        file.and_then(|file| file.set_len(bytes))
            .with_context(|| format!("cannot make {}", image.display()))?;
        run(Command::new("mkfs.ext4")
            .args(["-q", "-F", "-m", "0"])
            .arg(&image))?;
        run(Command::new("mount")
            .args(["-o", "loop"])
            .arg(&image)
            .arg(&mounted))?;
        Ok(SmallDisk { mounted })
    }

    /// A directory on it that holds nothing yet.
    pub fn data(&self) -> PathBuf {
        self.mounted.join("data")
    }

    /// Takes all space but so many bytes.
    pub fn fill(&self, left_bytes: u64) -> Result<()> {
        let file = File::create(self.filler()).context("cannot fill a disk")?;
        let mut taken = self.free_bytes()?.saturating_sub(left_bytes);
        // Others write too, and a file takes more than its bytes: what it cannot have it does without.
        while taken > 0 {
            match fallocate(&file, FallocateFlags::empty(), 0, taken) {
                Err(rustix::io::Errno::NOSPC) => taken -= taken.min(64 << 10),
                done => return done.context("cannot fill a disk"),
            }
        }
        Ok(())
    }

    /// Gives it back.
    pub fn empty(&self) -> Result<()> {
        match fs::remove_file(self.filler()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).context("cannot make space on a disk")
            }
            _ => Ok(()),
        }
    }

    fn filler(&self) -> PathBuf {
        self.mounted.join("filler")
    }

    fn free_bytes(&self) -> Result<u64> {
        let found = statvfs(&self.mounted).context("cannot ask a disk for its space")?;
        Ok(found.f_bavail * found.f_frsize)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a process that is about to end may still have a file there.
        let _ = run(Command::new("umount").arg("-l").arg(&self.mounted));
    }
}

fn run(command: &mut Command) -> Result<()> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {:?}", command.get_program()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?} failed: {}", said.trim());
    }
    Ok(())
}
