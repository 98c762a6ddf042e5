//! Other people's programs: found, started, asked, and gone with us.

use std::fs::File;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};

use testbed::scratch::go_on;
use testbed::watch::sleep_until;

/// Processes that serve. Dropping ends them.
#[derive(Default)]
pub struct Servers(Vec<Child>);

const POLL: Duration = Duration::from_millis(20);
/// To flush and go, before SIGKILL.
const PARTING: Duration = Duration::from_secs(10);

/// In a directory of rivals, in its `bin`, or where the shell finds it.
pub fn find(name: &str, directory: Option<&Path>) -> Option<PathBuf> {
    let named = directory
        .into_iter()
        .flat_map(|d| [d.join("bin"), d.to_owned()]);
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let all = named.chain(std::env::split_paths(&paths));
    all.map(|directory| directory.join(name))
        .find(|path| path.is_file())
}

/// A command that is killed if we are, where the system has the tool for it.
pub fn command(program: &Path, home: &Path) -> Command {
    let mut command = match find("setpriv", None) {
        Some(setpriv) => {
            let mut command = Command::new(setpriv);
            command.args(["--pdeathsig", "KILL", "--"]).arg(program);
            command
        }
        None => Command::new(program),
    };
    // Files that it keeps for its user are not to be found afterwards.
    command.env("HOME", home).env("XDG_CONFIG_HOME", home);
    command.stdin(Stdio::null());
    command
}

impl Servers {
    pub fn start(&mut self, mut command: Command, log: &Path) -> Result<()> {
        let out = File::options().create(true).append(true).open(log)?;
        command.stdout(out.try_clone()?).stderr(out);
        let child = command.spawn();
        self.0
            .push(child.with_context(|| format!("cannot start {:?}", command.get_program()))?);
        Ok(())
    }

    pub fn pids(&self) -> Vec<u32> {
        self.0.iter().map(Child::id).collect()
    }

    /// Until all of these take connections, and none of us has ended.
    pub fn wait_listening(&mut self, ports: &[u16], patience: Duration) -> Result<()> {
        let deadline = Instant::now() + patience;
        for port in ports {
            while TcpStream::connect(("127.0.0.1", *port)).is_err() {
                for child in &mut self.0 {
                    if let Some(status) = child.try_wait()? {
                        bail!("a server ended at its start ({status}); see its log with --keep");
                    }
                }
                if Instant::now() > deadline {
                    bail!(
                        "nobody listens on port {port} after {} s",
                        patience.as_secs()
                    );
                }
                sleep_until(Instant::now() + POLL)?;
            }
        }
        Ok(())
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for child in &self.0 {
            // It may have ended already; it was not waited for, so its number is its own.
            let _ = kill_process(Pid::from_child(child), Signal::TERM);
        }
        let deadline = Instant::now() + PARTING;
        for child in &mut self.0 {
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(POLL);
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Everything a command says, on both outputs, if it ends well in time.
pub fn said(mut command: Command, file: &Path, patience: Duration) -> Result<String> {
    let out = File::create(file)?;
    command.stdout(out.try_clone()?).stderr(out);
    let program = format!("{:?}", command.get_args().next().unwrap_or_default());
    let mut child = command
        .spawn()
        .with_context(|| format!("cannot run {program}"))?;
    let deadline = Instant::now() + patience;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if Instant::now() > deadline || go_on().is_err() {
            let _ = child.kill();
            let _ = child.wait();
            go_on()?;
            bail!("{program} did not end within {} s", patience.as_secs());
        }
        std::thread::sleep(POLL);
    };
    let text = String::from_utf8_lossy(&std::fs::read(file)?).into_owned();
    if !status.success() {
        let last = text.lines().rev().find(|line| !line.trim().is_empty());
        bail!(
            "{program} failed ({status}): {}",
            last.unwrap_or("it said nothing")
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_installed_is_not_found() {
        assert!(find("sh", None).is_some());
        assert!(find("no-such-program-of-ours", None).is_none());
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("bin")).unwrap();
        let program = directory.path().join("bin/mine");
        std::fs::write(&program, "").unwrap();
        assert_eq!(find("mine", Some(directory.path())), Some(program));
    }

    #[test]
    fn a_command_that_takes_too_long_is_ended() {
        let directory = tempfile::tempdir().unwrap();
        let run = |script: &str, patience| {
            let sh = find("sh", None).unwrap();
            let mut command = command(&sh, directory.path());
            command.args(["-c", script]);
            said(command, &directory.path().join("said"), patience)
        };
        assert_eq!(run("echo yes", Duration::from_secs(60)).unwrap(), "yes\n");
        let failed = run("echo the disk is full; exit 3", Duration::from_secs(60));
        assert!(failed.unwrap_err().to_string().contains("the disk is full"));
        let slow = run("exec sleep 600", Duration::from_millis(50));
        assert!(slow.unwrap_err().to_string().contains("did not end"));
    }
}
